"""Functions on rows of a picture that several ranks hold: what follows them, what is exact, and what is refused."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from latentloom.parallel.group import Group
from latentloom.parallel.spatial.mode import ByRows
from latentloom.parallel.spatial.part import Part, Parts
from support.ranks import Ranks

Function = Callable[[Tensor], Tensor]


def part_after(function: Function, *shape: int, dim: int, rows: int = 4) -> Part | None:
    """Where the rows are after it, on the first of two ranks that would have `rows` in all."""
    mode = ByRows(Parts(rows, group=Group([0, 1], 0), title="Toy"))
    with mode:
        return mode.parts.of(function(mode.cut(torch.randn(*shape), dim)))


MOVED: dict[str, tuple[Function, Part]] = {
    "tokens": (lambda x: x.flatten(2).transpose(1, 2), Part(1)),
    "tokens of two frames": (lambda x: x.unflatten(0, (1, 2)).permute(0, 1, 3, 4, 2).flatten(1, 3), Part(1, outer=2)),
    "a number drops a dim": (lambda x: x[0, ..., 1:], Part(1)),
    "a dim of one by its number": (lambda x: x[:, None, ..., 1:], Part(3)),
    "rows for another dtype": (lambda x: x[0].type_as(x), Part(1)),
    "rows where others are": (lambda x: x[0].to(x), Part(1)),
    "a weight where rows are": (lambda x: x * torch.ones(3, 1, 1).double().to(x), Part(2)),
    "zeros of as many rows": (lambda x: torch.cat([torch.zeros(x.shape), x], 1), Part(2)),
    "a new dim": (lambda x: torch.stack((x, x), 1), Part(3)),
    "a new last dim": (lambda x: torch.stack((x, x), -1), Part(2)),
    "rows from channels": (lambda x: x.view(2, 3, 2, 2, 3).permute(0, 1, 2, 4, 3).reshape(2, 3, 4, 3), Part(2)),
    "other dims join": (lambda x: torch.cat([x, x * 2], 1).sigmoid(), Part(2)),
    "a dim to the end": (lambda x: x.movedim(1, -1), Part(1)),
    "a dim in front": (lambda x: x.repeat(2, 1, 2, 1, 1), Part(3)),
    "a dim less": (lambda x: x.mean(1) + x.unbind(1)[0], Part(1)),
    "a dim of one": (lambda x: (x**2).sum((1, 3), keepdim=True), Part(2)),
    "each place by its channels": (lambda x: F.layer_norm(x.movedim(1, -1), (3,)), Part(1)),
    "a matrix for each place": (lambda x: torch.ones(2, 3, 7, 6) @ x.transpose(2, 3), Part(3)),
    "a whole tensor with one row": (lambda x: x + torch.ones(3, 1, 6), Part(2)),
}


@pytest.mark.parametrize("name", MOVED)
def test_rows_are_followed(name: str) -> None:
    function, expected = MOVED[name]
    assert part_after(function, 2, 3, 4, 6, dim=2) == expected


REFUSED: dict[str, Function] = {
    "softmax is not known": lambda x: x.softmax(2),
    "mean over the dim of the rows": lambda x: x.mean(),
    "unbind over the dim of the rows": lambda x: x.unbind(2),
    "repeat along the dim": lambda x: x.repeat(1, 1, 2, 1),
    "layer_norm over the dim": lambda x: F.layer_norm(x, (4, 6)),
    "batch_norm takes moments": lambda x: F.batch_norm(x, None, None, training=True),
    "pixel_shuffle takes rows of pixels": lambda x: F.pixel_shuffle(x.transpose(1, 2), 1),
    "matmul of .* mixes rows": lambda x: x.transpose(2, 3) @ torch.ones(2, 3, 2, 2),
    "flip is not known": lambda x: x.flip(2),
    "max_pool2d is not known": lambda x: F.max_pool2d(x, 3, 1, 1),
    "bmm is not known": lambda x: torch.bmm(x[0], x[0]),
    "__get__ of a tensor's attribute": lambda x: x[0, 0].T,
    "__getitem__ takes some rows": lambda x: x[..., 1:, :],
    "numbers and slices only": lambda x: x[torch.tensor([0])],
    "cat along dim 2": lambda x: torch.cat([x, x], 2),
    "normalize along dim 2": lambda x: F.normalize(x, dim=2),
    "repeat_interleave along dim None": lambda x: x.repeat_interleave(2),
    "and a whole tensor of": lambda x: x + torch.ones(*x.shape),
    "cat is given rows of the picture and a whole tensor": lambda x: torch.cat([torch.ones(x.shape), x], 1),
    "rows of the picture and a whole": lambda x: torch.cat([torch.zeros(x.shape).add_(1), x], 1),
    "rows are in different dims": lambda x: x.transpose(1, 2) * x,
    "mixes rows": lambda x: x.reshape(2, 3, 3, 4),
    "linear along the dim": lambda x: F.linear(x.transpose(2, 3), torch.ones(2, 2)),
    "dropout is random": lambda x: F.dropout(x, 0.5),
    "padded for a convolution": lambda x: F.pad(x, (1, 1, 1, 1)) * 2,
    "mode circular": lambda x: F.pad(x, (1, 1, 1, 1), "circular"),
    "interpolate to 1.5 times": lambda x: F.interpolate(x, scale_factor=1.5),
    "by bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "conv_transpose2d with a kernel": lambda x: F.conv_transpose2d(x, torch.ones(3, 1, 3, 3), stride=2),
    "conv_transpose2d of .* is not known": lambda x: F.conv_transpose2d(x[0], torch.ones(3, 1, 2, 2), stride=2),
    "conv2d changes the number": lambda x: F.conv2d(x, torch.ones(1, 3, 3, 3)),
    "conv2d of .* is not known": lambda x: F.conv2d(x, torch.ones(1, 3, 3, 3), padding="same"),
    "a weight was computed": lambda x: F.linear(torch.ones(6, 6), x[0, 0]),
    "group_norm has its rows among": lambda x: F.group_norm(x.transpose(1, 2), 1),
    "with dropout 0.0 and is_causal True": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "a mask that tells places in a frame apart cannot be split": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=-torch.eye(2)
    ),
    "is not of rows of the picture to each other": lambda x: F.scaled_dot_product_attention(x, x, x.detach()[..., :3]),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_would_mix_rows_is_refused_by_name(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.parallel.spatial.convolution.start_edges", lambda *_, **__: lambda: (None, None))
    with pytest.raises(ValueError, match=f"Toy: .*{sentence}.*; decode it on one device"):
        part_after(REFUSED[sentence], 2, 3, 4, 6, dim=2)


def test_what_is_computed_from_weights_is_left_alone() -> None:
    assert part_after(lambda x: torch.ones(4, 4).softmax(0).flip(1), 2, 3, 4, 6, dim=2) is None


def test_too_few_rows_are_refused_with_the_most_ranks_that_fit() -> None:
    with pytest.raises(ValueError, match=r"7 rows cannot be split over 4 ranks, because each needs 2; .* over 3"):
        Parts(7, group=Group(range(4), 0), title="Toy")


@pytest.mark.parametrize("rows", [8, 9, 11])
def test_each_function_over_rows_is_that_over_all(ranks: Ranks, rows: int) -> None:
    for found in ranks.run("bodies.spatial:functions", rows):
        assert max(found.values()) <= 1e-5, found


def test_group_norm_keeps_its_digits_far_from_zero(ranks: Ranks) -> None:
    alone, together = ranks.run("bodies.spatial:far_from_zero")[0]
    assert together <= 1.1 * alone


@pytest.mark.parametrize(("function", "calls"), [("conv2d", 1), ("pad", 1), ("group_norm", 1), ("interpolate", 0)])
def test_a_function_exchanges_once_at_most(ranks: Ranks, function: str, calls: int) -> None:
    assert [found[function] for found in ranks.run("bodies.spatial:calls")] == [calls] * 4
