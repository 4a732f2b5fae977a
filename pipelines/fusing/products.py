"""One product for the layers of a block that share an input: q, k and v, and in FLUX's single blocks the MLP's first.

A product of few tokens fills a GPU badly: at 576 tokens, q, k and v apart take half as long again as in one. So the
weights of such layers are put side by side in memory once, each layer's own weight a part of it, and the first layer
that is called makes the answers of all. Another is given its part if it asks with the very same tensor, and else makes
its product by itself, so that no row of the table below can make an answer wrong.

The numbers are those of the layers apart, but for the order in which a kernel may sum them: whoever asks for the same
bits as an eager model's does not ask for this.
"""

# B batch, S tokens, K numbers in, N numbers out of all layers together

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

logger = logging.getLogger("latentloom")

# Where a transformer that is compiled for good has this form: those on which a launch costs more than it does.
DEVICES = ("cuda",)
ATTENTION = ("attn.to_q", "attn.to_k", "attn.to_v")
TEXT = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
FIRST = ("attn1.to_q", "attn1.to_k", "attn1.to_v")
SECOND = ("attn2.to_q", "attn2.to_k", "attn2.to_v")
NAMED = ("attention.to_q", "attention.to_k", "attention.to_v")
SELF = ("self_attention.to_q", "self_attention.to_k", "self_attention.to_v")
# The models whose blocks are those of FLUX.1: `FluxTransformerBlock`, `FluxSingleTransformerBlock`, and so on.
LIKE_FLUX = ("Flux", "OvisImage", "LongCatImage", "Bria", "BriaFibo")
# By a block's class: its linear layers that are given one tensor, in the order in which they are called.
SHARED: Mapping[str, Sequence[Sequence[str]]] = {
    **{f"{model}TransformerBlock": (ATTENTION, TEXT) for model in (*LIKE_FLUX, "Chroma")},
    **{f"{model}SingleTransformerBlock": (("proj_mlp", *ATTENTION),) for model in (*LIKE_FLUX, "Chroma")},
    **{f"{model}TransformerBlock": (ATTENTION, TEXT) for model in ("Flux2", "QwenImage", "HunyuanVideo15")},
    **dict.fromkeys(("Flux3ModeTransformerBlock", "Flux3SingleTransformerBlock"), ((*ATTENTION, "ff.linear_in"),)),
    **dict.fromkeys(
        ("WanTransformerBlock", "WanVACETransformerBlock", "SkyReelsV2TransformerBlock", "LTXVideoTransformerBlock"),
        (FIRST,),
    ),
    **dict.fromkeys(("QwenImage21TransformerBlock", "MiniMaxH3TransformerBlock"), (ATTENTION,)),
    "JointTransformerBlock": (ATTENTION, TEXT, SECOND),
    "Krea2TransformerBlock": ((*ATTENTION, "attn.to_gate"),),
    "ZImageTransformerBlock": (NAMED,),
    "ErnieImageSharedAdaLNBlock": (SELF,),
}


def fuse_products(transformer: nn.Module) -> Callable[[], None]:
    """Until what this gives is called, layers that share an input share a product; their weights stay side by side.

    No weight is held twice, but those of one product while they are moved. Layers whose weights are packed (quantized)
    or unlike are left as they are, and so are those of a product of which a weight is replaced later. What is put on
    top of a layer, as a LoRA is, stays there, and is merged into the one weight that there is.
    """
    shared = list(_shared(transformer))

    def follow(*_: object) -> None:
        for each in [each for each in shared if not each.is_whole()]:
            logger.warning("%s: a weight was replaced, so these layers are called one by one", each.names)
            each.end()
            shared.remove(each)

    hook = transformer.register_forward_pre_hook(follow)

    def undo() -> None:
        hook.remove()
        while shared:
            shared.pop().end()

    return undo


def _shared(transformer: nn.Module) -> Iterator[SharedLayers]:
    for path, block in transformer.named_modules():
        for names in SHARED.get(type(block).__name__, ()):
            layers = [_below(block, name) for name in names]
            if None in layers:  # a block that lacks them, as the last one of Stable Diffusion 3
                continue
            title = f"{path}: {', '.join(names)}"
            if reason := _obstacle(layers):
                logger.info("%s are called one by one: %s", title, reason)
            else:
                yield SharedLayers(title, layers)


def _below(block: nn.Module, name: str) -> Any:
    """The layer at a path, under all that was put on top of it."""
    found: Any = block
    for part in name.split("."):
        found = getattr(found, part, None)
    while hasattr(found, "base_layer"):
        found = found.base_layer
    return found


def _obstacle(layers: Sequence[Any]) -> str:
    """Why these layers cannot share a product; "" if they can."""
    for each in layers:
        if type(each) is not nn.Linear or "forward" in vars(each):
            return f"one is no plain linear layer, but a {type(each).__name__} or changed"
        if type(each.weight) is not nn.Parameter or type(each.weight.data) is not Tensor:
            return f"a weight is packed as {type(each.weight.data).__name__}"
    if len({(each.weight.shape[1], each.weight.dtype, each.weight.device, each.bias is None) for each in layers}) > 1:
        return "their weights are unlike"
    return ""


class JoinedProduct:
    """What a graph sees of it: nothing that tells one block from another."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        self.sizes = [each.out_features for each in layers]
        # Parameters, because a compiler takes their shapes for fixed; no module has them, so no weight is listed twice.
        self.weight = nn.Parameter(_side_by_side([each.weight for each in layers]), requires_grad=False)
        biases = [each.bias for each in layers if each.bias is not None]
        self.bias = nn.Parameter(_side_by_side(biases), requires_grad=False) if biases else None
        # What the first layer was given and what came of it, until the last has taken its part.
        self.made: tuple[Tensor, Sequence[Tensor]] | None = None


class SharedLayers:
    """Layers that share a product, until `end`."""

    def __init__(self, names: str, layers: Sequence[nn.Linear]) -> None:
        self.names, self._layers, self._product = names, layers, JoinedProduct(layers)
        held = [each._parameters for each in layers]
        self._places = [(each, name, each[name]) for each in held for name in ("weight", "bias")]
        self._addresses = self._found()
        for number, layer in enumerate(layers):
            vars(layer)["forward"] = _taking(self._product, number, layer, is_last=layer is layers[-1])

    def is_whole(self) -> bool:
        """Whether the layers' weights are the parts of the joint one still."""
        return self._found() == self._addresses

    def end(self) -> None:
        """The layers as they were."""
        self._product.made = None
        for layer in self._layers:
            vars(layer).pop("forward", None)

    def _found(self) -> list[int]:
        """Where the weights are in memory; 0 for one whose parameter is another by now."""
        return [own.data_ptr() if own is not None and held.get(name) is own else 0 for held, name, own in self._places]


def _taking(product: JoinedProduct, number: int, layer: nn.Linear, *, is_last: bool) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        if number == 0:
            whole = F.linear(x, product.weight, product.bias)  # B S N
            product.made = (x, whole.split(product.sizes, -1))
        made = product.made  # once: another thread may put its own there
        if made is None or made[0] is not x:
            return F.linear(x, layer.weight, layer.bias)
        if is_last:
            product.made = None
        return made[1][number]

    return forward


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """One tensor whose parts these are from now on; that they lie so already is found, and nothing is copied."""
    first, numel = parts[0], sum(map(Tensor.numel, parts))
    ends = [first.storage_offset()]
    for each in parts:
        ends.append(ends[-1] + each.numel())
    is_one = all(each.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() for each in parts)
    if is_one and [each.storage_offset() for each in parts] == ends[:-1] and all(map(Tensor.is_contiguous, parts)):
        return first.detach().as_strided((numel // max(1, first[0].numel()), *first.shape[1:]), first.stride())
    joint = torch.cat([each.detach() for each in parts])
    for each, part in zip(parts, joint.split([len(each) for each in parts]), strict=True):
        each.data = part
    if joint.is_cuda:
        torch.cuda.empty_cache()  # pieces of the old size are of no use to the next product
    return joint
