"""Plain data with tensors in it, as bytes: between ranks, and between the host and a pipeline that is run whole."""

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...parallel.collectives import backend, gather
from ...parallel.group import Group
from ...parallel.staging import bytes_of
from ..values import Audio


def once(work: Callable[[], Any], group: Group, device: torch.device, *, is_all: Callable[[], bool]) -> Any:
    """Collective: what `work` gives on the first rank, on every one.

    Tensors come onto `device`. A ValueError of the first rank is raised on all. `is_all` tells after the work whether
    the result is all that it did.
    """
    found: Any = None
    error: Exception | None = None
    told: dict[str, Any] = {"own": True}
    tensors: list[Tensor] = []
    if not group.index:
        try:
            found = work()
            # Every rank does the work itself where the result is no plain data, or was not all that the work did.
            if is_all():
                with contextlib.suppress(TypeError):
                    plain, tensors = _described(found)
                    told = {"plain": plain}
        except Exception as problem:  # told to the others before it is raised: they wait for an answer
            error, told = problem, {"error": str(problem), "refused": isinstance(problem, ValueError)}
    told, body = _everywhere(told, tensors, group, device)
    if "error" in told:
        raise error or (ValueError if told["refused"] else RuntimeError)(told["error"])
    if "own" in told:
        return work() if group.index else found
    return _rebuilt(told["plain"], body)


def unchanged(pipe: Any) -> Callable[[], bool]:
    """Tells later whether the attributes of the pipeline and of its parts are those of now."""
    # LTX-2's way to encode a text sets its tokenizer's padding side, and asks it later.
    before = [(each, dict(vars(each))) for each in (pipe, *pipe.components.values()) if hasattr(each, "__dict__")]

    def is_unchanged() -> bool:
        return all(
            vars(each).keys() == kept.keys() and all(_is_same(vars(each)[name], kept[name]) for name in kept)
            for each, kept in before
        )

    return is_unchanged


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, bool | int | float | str) and type(one) is type(other) and one == other)


def same_random_numbers(group: Group, device: torch.device) -> None:
    """Collective: every rank's default generators go on from where the first rank's are."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    lengths = [state.numel() for state in states]
    first = _first(torch.cat(states), group, device, size=sum(lengths)).cpu().split(lengths)
    if group.index:
        torch.set_rng_state(first[0])
        if device.type == "cuda":
            torch.cuda.set_rng_state(first[1], device)


def are_alike(number: int, group: Group, device: torch.device) -> bool:
    """Collective: whether every rank has this number."""
    own = _on_wire(torch.tensor([number], dtype=torch.int64), group, device)
    everyone = gather(own, sizes=[1] * group.size, group=group)
    return bool((everyone == everyone[0]).all())


def _everywhere(
    told: dict[str, Any], tensors: list[Tensor], group: Group, device: torch.device
) -> tuple[dict[str, Any], Tensor]:
    """Collective: what the first rank tells, and its tensors' bytes: their lengths, then each."""
    head = torch.frombuffer(bytearray(json.dumps(told).encode()), dtype=torch.uint8)
    nothing = torch.empty(0, dtype=torch.uint8, device=device)
    body = torch.cat([nothing, *(bytes_of(each.to(device)) for each in tensors)])
    lengths = _first(torch.tensor([len(head), len(body)]), group, device, size=2).tolist()
    head, body = (_first(each, group, device, size=size) for each, size in zip((head, body), lengths, strict=True))
    return json.loads(bytes(head.tolist())), body


def _first(block: Tensor, group: Group, device: torch.device, *, size: int) -> Tensor:
    """Collective: the first rank's flat block, of `size` elements."""
    block = _on_wire(block[: 0 if group.index else size], group, device)
    return gather(block, sizes=[size, *[0] * (group.size - 1)], group=group)


def _on_wire(block: Tensor, group: Group, device: torch.device) -> Tensor:
    return block.to(device) if backend(group) == "nccl" else block


def _described(value: Any) -> tuple[Any, list[Tensor]]:
    """As JSON, and copies of its tensors in their order. Raises TypeError for what is no plain data.

    CPU kernels round by strides and by where memory begins: all ranks, the first too, work on copies laid out alike.
    """
    tensors: list[Tensor] = []

    def leaf(each: Any) -> dict[str, Any]:
        if not isinstance(each, Tensor):
            raise TypeError(f"a {type(each).__name__} is no plain data")
        tensors.append(copy := each.clone())  # dense, with the strides that it had where it was so
        return {KIND: str(each.dtype).removeprefix("torch."), "shape": copy.shape, "strides": copy.stride()}

    return to_wire(value, leaf), tensors


def _rebuilt(plain: Any, body: Tensor) -> Any:
    rest = body

    def leaf(each: Mapping[str, Any]) -> Tensor:
        nonlocal rest
        made = torch.empty_strided(each["shape"], each["strides"], dtype=getattr(torch, each[KIND]), device=body.device)
        values, rest = rest.split([made.nbytes, len(rest) - made.nbytes])
        return made.copy_(values.clone().view(made.dtype).view(made.shape))

    return from_wire(plain, leaf)


# ---- Values as plain data: texts, numbers, lists and dicts as they are described, and what a leaf makes of the rest
#
# By default that is a pipeline's arguments and results: pictures, sounds, arrays, tensors, generators by their state.

KIND, VALUE = "kind", "value"


def to_leaf(value: Any) -> Any:
    """Raises ValueError for what can be given to no rank."""
    from PIL import Image

    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        # With its strides, where it is dense: CPU kernels round by them.
        order = sorted(range(value.ndim), key=lambda dim: -value.stride(dim))
        turned = value.detach().cpu().permute(order)
        if order == sorted(order) or not turned.is_contiguous():
            return {KIND: "tensor", VALUE: value.detach().cpu()}
        return {KIND: "turned", VALUE: turned, "order": order}
    if isinstance(value, torch.dtype):
        return {KIND: "dtype", VALUE: str(value).removeprefix("torch.")}
    if isinstance(value, np.ndarray):
        return {KIND: "array", VALUE: torch.from_numpy(np.ascontiguousarray(value))}
    if isinstance(value, Image.Image):
        kept = value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB")
        return {KIND: "picture", VALUE: torch.from_numpy(np.array(kept)), "mode": kept.mode}
    if isinstance(value, Audio):
        return {KIND: "audio", VALUE: value.waveform.detach().cpu(), "rate": value.rate}
    if isinstance(value, torch.Generator):
        if value.device.type != "cpu":
            raise ValueError(f"a generator on {value.device} cannot be given to ranks; give one on the CPU")
        return {KIND: "generator", VALUE: value.get_state()}
    raise ValueError(
        f"a {type(value).__name__} cannot be given to ranks; give texts, numbers, pictures, sounds, tensors, arrays, a "
        "generator, or lists of them, or dicts of them by names"
    )


def from_leaf(plain: dict[str, Any]) -> Any:
    from PIL import Image

    kind, value = plain[KIND], plain[VALUE]
    if kind == "picture":
        return Image.fromarray(value.numpy(), plain["mode"])
    if kind == "audio":
        return Audio(waveform=value, rate=plain["rate"])
    if kind == "turned":
        return value.permute(sorted(range(value.ndim), key=plain["order"].__getitem__))
    if kind == "dtype":
        return getattr(torch, value)
    if kind == "generator":
        return torch.Generator().set_state(value)
    return value.numpy() if kind == "array" else value


def to_wire(value: Any, leaf: Callable[[Any], Any] = to_leaf) -> Any:
    """`leaf` describes all but None, texts, numbers, and lists, tuples and dicts by names; subclasses of these, too."""
    kind = type(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if kind in (list, tuple):
        return {KIND: kind.__name__, VALUE: [to_wire(each, leaf) for each in value]}
    if kind is dict and all(isinstance(name, str) for name in value):
        return {KIND: "dict", VALUE: {name: to_wire(each, leaf) for name, each in value.items()}}
    return leaf(value)


def from_wire(plain: Any, leaf: Callable[[dict[str, Any]], Any] = from_leaf) -> Any:
    """What `to_wire` was given; `leaf` is asked in the same order."""
    if not isinstance(plain, dict):
        return plain
    kind = plain[KIND]
    if kind == "dict":
        return {name: from_wire(each, leaf) for name, each in plain[VALUE].items()}
    if kind in ("list", "tuple"):
        found = [from_wire(each, leaf) for each in plain[VALUE]]
        return tuple(found) if kind == "tuple" else found
    return leaf(plain)
