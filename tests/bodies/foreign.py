"""Small models whose blocks are told where rows are by plain numbers, as ComfyUI's are, and what ranks do with them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bodies.meshes import by_plan
from bodies.rank import bits, message
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding.shard import shard
from latentloom.parallel.sharding.split_plan import Along, Leading, Spans, SplitPlan, image, text, tokens

WIDTH, HEADS = 12, 3
JOINT = ("text", "image")
Rows = list[tuple[Any, ...]] | None


def by_rows(x: Tensor, times: Tensor, rows: Rows) -> Tensor:
    """Each row times the modulation of its time: a number of one, or a modulation for each row."""
    if rows is None:
        return x * times[0]
    parts = [x[:, a:b] * (times[which] if isinstance(which, int) else which) for a, b, which in rows]
    out = x.clone()
    for (a, b, _), part in zip(rows, parts, strict=True):
        out[:, a:b] = part
    return out


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.unflatten(2, (HEADS, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, 2))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Double(Attention):
    def forward(self, img: Tensor, txt: Tensor, times: Tensor, modulation_dims_img: Rows = None) -> Any:
        out = super().forward(torch.cat([txt, by_rows(img, times, modulation_dims_img)], 1))
        return img + out[:, txt.shape[1] :], txt + out[:, : txt.shape[1]]


class Single(Attention):
    def forward(self, x: Tensor, times: Tensor, modulation_dims: Rows = None) -> Tensor:
        return x + super().forward(by_rows(x, times, modulation_dims))


class Last(nn.Module):
    def forward(self, x: Tensor, times: Tensor, modulation_dims: Rows = None) -> Tensor:
        return by_rows(x, times, modulation_dims)


class TwoStreams(nn.Module):
    """Text and image in two streams, then in one, whose rows are counted from the text that is at hand."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.times = nn.Parameter(torch.randn(2, WIDTH))
        self.double_blocks = nn.ModuleList(Double() for _ in range(2))
        self.single_blocks = nn.ModuleList(Single() for _ in range(2))
        self.final_layer = Last()

    def forward(self, img: Tensor, txt: Tensor, rows: Rows = None) -> Tensor:
        for block in self.double_blocks:
            img, txt = block(img, txt, self.times, modulation_dims_img=rows)
        count = txt.shape[1]
        shifted = rows and [(a and a + count, b + count, which) for a, b, which in rows]
        x = torch.cat([txt, img], 1)
        for block in self.single_blocks:
            x = block(x, self.times, modulation_dims=shifted)
        return self.final_layer(x[:, count:], self.times, modulation_dims=rows)


class Counting(Attention):
    """Rows before a number have one time, those from it on another; others are told where they begin and end."""

    def forward(self, x: Tensor, times: Tensor, zero_index: int | None = None, segments: Rows = None) -> Tensor:
        if zero_index is not None:
            x = torch.cat([x[:, :zero_index] * times[0], x[:, zero_index:] * times[1]], 1)
        return x + super().forward(by_rows(x, times, segments))


class OneSequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.times = nn.Parameter(torch.randn(2, WIDTH))
        self.blocks = nn.ModuleList(Counting() for _ in range(3))

    def forward(self, x: Tensor, zero_index: int | None = None, segments: Rows = None) -> Tensor:
        for block in self.blocks:
            x = block(x, self.times, zero_index=zero_index, segments=segments)
        return x


class Flattened(OneSequence):
    """Whose last layer sees the tokens of all items in one dim, item by item."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, zero_index: int | None = None, segments: Rows = None) -> Tensor:
        return self.last(super().forward(x).flatten(0, 1)).unflatten(0, (x.shape[0], -1))


def two_streams(*, behind: str = "text") -> SplitPlan:
    return SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("double_blocks", "single_blocks"),
        inputs={
            "double_blocks.0": {"img": image(1), "txt": text(1)},
            "double_blocks.*": {"modulation_dims_img": Spans(("image",))},
            "single_blocks.*": {"modulation_dims": Spans(JOINT, behind=behind)},
            "final_layer": {"modulation_dims": Spans(("image",))},
        },
        outputs={"final_layer": image(1)},
    )


ONE_SEQUENCE = SplitPlan(
    order=("tokens",),
    blocks=("blocks",),
    inputs={
        "blocks.0": {"x": tokens(1)},
        "blocks.*": {"zero_index": Leading("tokens"), "segments": Spans(("tokens",))},
    },
    outputs={"blocks.-1": tokens(1)},
)

FLATTENED = SplitPlan(
    order=("tokens",),
    blocks=("blocks",),
    inputs={"blocks.0": {"x": tokens(1)}},
    outputs={"last": tokens(0, batched=True)},
)


def rows_of(count: int) -> Rows:
    """A reference at time zero behind the picture, and the last rows with a time each."""
    return [(0, count - 6, 0), (count - 6, count - 2, 1), (count - 2, count, torch.rand(2, WIDTH))]


def cases() -> dict[str, tuple[nn.Module, SplitPlan, dict[str, Any]]]:
    torch.manual_seed(0)
    img, txt, x = torch.randn(2, 13, WIDTH), torch.randn(2, 5, WIDTH), torch.randn(1, 11, WIDTH)
    return {
        "two streams": (TwoStreams(), two_streams(), {"img": img, "txt": txt, "rows": rows_of(13)}),
        "one text token": (TwoStreams(), two_streams(), {"img": img, "txt": txt[:, :1], "rows": rows_of(13)}),
        "no rows": (TwoStreams(), two_streams(), {"img": img, "txt": txt}),
        "not behind the text": (TwoStreams(), two_streams(behind=""), {"img": img, "txt": txt, "rows": rows_of(13)}),
        "a count": (OneSequence(), ONE_SEQUENCE, {"x": x, "zero_index": 7}),
        "items in one dim": (Flattened(), FLATTENED, {"x": torch.randn(2, 11, WIDTH)}),
        "segments": (OneSequence(), ONE_SEQUENCE, {"x": x, "segments": [*(rows_of(11) or ())[:2], (9, None, 0)]}),
    }


@by_plan
def answers(rank: int, mesh: Mesh, names: list[str]) -> dict[str, tuple[float, Any]]:
    """Collective: of each case how far the sharded model is from the whole one, and its bits."""
    found, known = {}, cases()
    with torch.no_grad():
        for name in names:
            model, split, given = known[name]
            whole = model(**given)
            handle = shard(model, split, mesh)
            spread = model(**given)
            handle.remove()
            assert torch.equal(model(**given), whole)
            found[name] = float((spread - whole).abs().max() / whole.abs().max()), bits([spread])
    return found


def by_formula(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Attention that knows of no log-sum-exp."""
    assert mask is None and scale is None
    return (q @ k.transpose(2, 3) * q.shape[3] ** -0.5).softmax(-1) @ v


@by_plan
def with_function(rank: int, mesh: Mesh) -> tuple[int, float] | str:
    """Collective: how often a function attends in place of a kernel, and how far that is; or why it is refused."""
    model, split, given = cases()["no rows"]
    num_calls = 0

    def counted(*given: Any) -> Tensor:
        nonlocal num_calls
        num_calls += 1
        return by_formula(*given)

    with torch.no_grad():
        whole = model(**given)
        said = message(lambda: shard(model, split, mesh, kernel=counted))
        if said == "nothing was raised":
            spread = model(**given)
            return num_calls, float((spread - whole).abs().max())
        assert torch.equal(model(**given), whole)
        return said


class Elsewhere(OneSequence):
    """One that attends by no call of torch's attention."""

    def forward(self, x: Tensor, zero_index: int | None = None, segments: Rows = None) -> Tensor:
        for block in self.blocks:
            x = x + block.qkv(x)[..., :WIDTH]
        return x


@by_plan
def misfits(rank: int, mesh: Mesh) -> list[str]:
    """What is said of models that a plan does not fit."""
    x, plain = torch.randn(1, 11, WIDTH), SplitPlan(blocks=("blocks",), inputs={}, outputs={})
    along = {"blocks.0": {"hidden_states": Along(1, ("image",))}}
    segments = {"x": x, "segments": [(0, 11, torch.rand(5, WIDTH))]}

    def sharded(model: nn.Module, split: SplitPlan, given: dict[str, Any]) -> None:
        with torch.no_grad():
            shard(model, split, mesh)
            model(**given)

    return [
        message(lambda: sharded(OneSequence(), SplitPlan(blocks=("layers",), inputs={}, outputs={}), {})),
        message(lambda: sharded(OneSequence(), SplitPlan(blocks=("blocks",), inputs=along, outputs={}), {})),
        message(lambda: sharded(Elsewhere(), plain, {"x": x})),
        message(lambda: sharded(OneSequence(), ONE_SEQUENCE, segments)),
    ]
