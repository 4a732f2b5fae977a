"""Decoding a picture by rows: the interception of torch functions that makes every operation exact, or refuses it.

The tensors that come from this rank's rows are followed from operation to operation; nothing of torch is patched.
Exchanging borders before convolutions is how DistriFusion (Li et al., 2024) splits a U-Net and DistVAE (xDiT) a
decoder; here statistics and attention are exact too.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..sharding.fingerprint import tensors_in
from . import shapes
from .attention import attend, multiply
from .convolution import convolve, convolve_transposed, pad
from .group_norm import normalise
from .part import Part, Parts

POINTWISE = """
    add sub mul div true_divide neg clamp pow square sqrt rsqrt tanh sigmoid silu relu gelu mish eq ne __eq__ __ne__
    zeros_like clone contiguous detach float
"""
RESHAPES = "view reshape flatten unflatten squeeze unsqueeze"
MOVES = "permute transpose movedim unbind mean sum"
NORMS = "layer_norm rms_norm"
READS = frozenset(
    ("size", "dim", "numel", "stride", "is_contiguous", "is_floating_point", "get_device", "__len__", "__get__")
)

# How a torch function is called on parts, by its name; any other is refused by it.
RULES: dict[str, shapes.Rule] = {
    **dict.fromkeys(POINTWISE.split(), shapes.pointwise),
    **dict.fromkeys(RESHAPES.split(), shapes.reshaped),
    **dict.fromkeys(MOVES.split(), shapes.moved),
    **dict.fromkeys(NORMS.split(), shapes.normalised),
    "to": shapes.converted,
    "type_as": shapes.kept,
    "__getitem__": shapes.indexed,
    "__setitem__": shapes.written,
    **dict.fromkeys(("cat", "concat", "concatenate"), shapes.along(1, 0)),
    **dict.fromkeys(("chunk", "split"), shapes.along(2, 0)),
    "normalize": shapes.along(2, 1),
    "repeat_interleave": shapes.interleaved,
    "repeat": shapes.repeated,
    "stack": shapes.stacked,
    "linear": shapes.linear,
    "dropout": shapes.dropout,
    "interpolate": shapes.interpolated,
    "pixel_shuffle": shapes.shuffled,
    "pad": pad,
    **dict.fromkeys(("conv2d", "conv3d"), convolve),
    **dict.fromkeys(("conv_transpose2d", "conv_transpose3d"), convolve_transposed),
    "group_norm": normalise,
    "batch_norm": shapes.batch_normed,
    "scaled_dot_product_attention": attend,
    "matmul": multiply,
    "new_ones": lambda _, func, *args, **kwargs: func(*args, **kwargs),  # whole: of that size on every rank
}
# What may be done with rows that were padded: convolutions, of some frames after the others too.
TO_PADDED = ("cat", "chunk", "__getitem__", "clone", "conv2d", "conv3d")


class ByRows(TorchFunctionMode):
    """Within it, what is computed from `cut` tensors in this thread is this rank's part of the same of the whole."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts

    def cut(self, x: Tensor, dim: int) -> Tensor:
        """This rank's rows of a whole tensor."""
        group, counts = self.parts.group, self.parts.counts
        own = x.narrow(dim, sum(counts[: group.index]), self.parts.own).contiguous()
        return self.parts.mark(own, Part(dim % x.ndim))

    def whole(self, x: Tensor, dim: int) -> Tensor:
        """Collective: the whole of what was computed from rows."""
        part = self.parts.of(x)
        if part is None or part != Part(dim % x.ndim):
            raise ValueError(
                f"{self.parts.title}: its result came out of a function that was not seen, or with its rows elsewhere; "
                "decode it on one device"
            )
        return self.parts.gathered(x, part)

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        known = [part for x in tensors_in((args, kwargs)) if (part := self.parts.of(x)) is not None]
        if not known:
            made = func(*args, **kwargs)
            return self.parts.mark_zeros(made) if func.__name__ == "zeros" else made
        if func.__name__ in READS:
            if isinstance(value := func(*args, **kwargs), Tensor):  # such as x.T
                reason = "of a tensor's attribute is not known to keep the rows of a picture apart"
                raise self.parts.refusal(func, reason)
            return value
        if any(part.has_halo for part in known) and func.__name__ not in TO_PADDED:
            raise self.parts.refusal(func, "is given rows padded for a convolution, which would have to come next")
        if func.__name__ not in RULES:
            raise self.parts.refusal(func, "is not known to keep the rows of a picture apart")
        return RULES[func.__name__](self.parts, func, *args, **kwargs)
