"""What ranks do in the tests of single functions over rows of a picture that several ranks hold."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from latentloom.parallel.group import Axis, Group
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.spatial.mode import ByRows
from latentloom.parallel.spatial.part import Parts


def latents(shape: Sequence[int]) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def all_ranks() -> Group:
    """Collective the first time."""
    return mesh_for(ParallelPlan(ulysses=4))[Axis.SEQUENCE]


def _video(x: Tensor) -> Tensor:
    """T C H W as 1 C T H W."""
    return x.unsqueeze(0).transpose(1, 2)


def _seen_by_later_frames(x: Tensor) -> Tensor:
    """Attention of the tokens of T C H W to those of their own frame and of frames before."""
    tokens = x.permute(0, 2, 3, 1).reshape(1, 1, -1, x.shape[1])  # 1 1 T*H*W C
    frames = torch.arange(len(x)).repeat_interleave(tokens.shape[2] // len(x))
    mask = torch.zeros(len(frames), len(frames)).masked_fill(frames[:, None] < frames, -torch.inf)
    out = F.scaled_dot_product_attention(tokens, tokens, tokens, attn_mask=mask)
    return out.view(len(x), -1, x.shape[3], x.shape[1])


def _in_pieces(x: Tensor) -> Tensor:
    """A convolution of two pieces of a padded video, as diffusers does it of large ones."""
    first, second = F.pad(_video(x.repeat(2, 1, 1, 1)), (1, 1, 1, 1, 2, 0), mode="replicate").chunk(2, 2)
    weight = latents((6, 8, 3, 3, 3))
    return torch.cat([F.conv3d(each, weight) for each in (first, torch.cat([first[:, :, -2:], second], 2))], 2)


def _carried(x: Tensor) -> Tensor:
    """A convolution of frames behind two that were kept of padded ones, as ComfyUI's HunyuanVideo does it."""
    padded = F.pad(_video(x.repeat(2, 1, 1, 1)), (1, 1, 1, 1, 0, 0), mode="replicate")
    return F.conv3d(torch.cat([padded[:, :, :2].clone(), padded[:, :, 2:]], 2), latents((6, 8, 3, 3, 3)))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "conv2d": lambda x: F.conv2d(x, latents((6, 8, 3, 3)), latents((6,)), padding=1),
    "conv2d in groups": lambda x: F.conv2d(x, latents((8, 4, 3, 5)), padding=(1, 2), groups=2),
    "pad": lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1)), latents((6, 8, 3, 3))),
    "pad below": lambda x: F.conv2d(F.pad(x, (0, 0, 0, 2), value=0.5), latents((6, 8, 3, 1))),
    "pad a video": lambda x: F.conv3d(F.pad(_video(x), (1, 1, 1, 1, 2, 0), mode="replicate"), latents((6, 8, 3, 3, 3))),
    "pad by reflection": lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), latents((6, 8, 3, 3))),
    "conv2d over few rows": lambda x: F.conv2d(x, latents((6, 8, 5, 5)), padding=2),
    "convolve in pieces": _in_pieces,
    "convolve behind what was kept": _carried,
    "conv_transpose3d": lambda x: F.conv_transpose3d(_video(x), latents((8, 6, 1, 2, 3)), stride=(1, 2, 2)),
    "group_norm": lambda x: F.group_norm(x, 4, latents((8,)), latents((8,))),
    "group_norm of a video": lambda x: F.group_norm(_video(x), 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=(2, 3)),
    "interpolate to a size": lambda x: F.interpolate(x, size=(3 * x.shape[2], 7)),
    "interpolate columns": lambda x: F.interpolate(x, scale_factor=(1, 2), mode="bilinear"),
    "attention of each row": lambda x: F.scaled_dot_product_attention(*[x.transpose(1, 2).transpose(2, 3)] * 3),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "linear attention": lambda x: x.flatten(2) @ x.flatten(2).transpose(1, 2) @ x.flatten(2),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.flatten(2).transpose(1, 2)] * 3).view(2, -1, 5, 8),
    "attention to frames before": _seen_by_later_frames,
}


def functions(rank: int, rows: int) -> dict[str, float]:
    """How far each function over rows of four ranks is from it over all, relative to the largest value."""
    group = all_ranks()
    found, x = {}, latents((2, 8, rows, 5))
    for name, function in FUNCTIONS.items():
        out, whole = _by_rows(function, x, group), function(x)
        found[name] = float((out - whole).abs().max()) / max(1.0, float(whole.abs().max()))
    return found


def _by_rows(function: Callable[[Tensor], Tensor], x: Tensor, group: Group) -> Tensor:
    """Collective: the whole of what a function gives for this rank's rows."""
    mode = ByRows(Parts(x.shape[2], group=group, title="Toy"))
    with mode:
        out = function(mode.cut(x, 2))
    part = mode.parts.of(out)
    assert part is not None
    return mode.parts.gathered(out, part)


def far_from_zero(rank: int) -> tuple[float, float]:
    """How far group norm in fp32 is from fp64 where the mean is 1000 deviations: of one process, and of four ranks."""
    group = all_ranks()
    x = latents((1, 8, 64, 16)) + 1000
    exact = F.group_norm(x.double(), 2)
    both = F.group_norm(x, 2), _by_rows(lambda x: F.group_norm(x, 2), x, group)
    alone, together = (float((out - exact).abs().mean()) for out in both)
    return alone, together


def calls(rank: int) -> dict[str, int]:
    """How often this rank sends in each function."""
    group = all_ranks()
    mode, found = ByRows(Parts(8, group=group, title="Toy")), {}
    for name, function in FUNCTIONS.items():
        before = group.count.calls
        with mode:
            function(mode.cut(latents((2, 8, 8, 5)), 2))
        found[name] = group.count.calls - before
    return found
