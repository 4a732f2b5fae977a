"""The same calls of a transformer sharded and whole, in fp32 and as the run computes, compared over all ranks.

In fp32 nothing is copied and nothing cut: each block's weights are fp32 while it runs, and as they were afterwards. A
cut of first and last blocks would miss what is wrong in the middle, such as a LoRA that one rank has lost there; fp32
tells a wrong mask from rounding, which the run's own dtype does not.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ...parallel.errors import BadWires, Closed, LoomError, PeerLost, RankFailed, is_out_of_memory, one_line
from ...parallel.group import Axis
from ...parallel.mesh import Mesh
from ...parallel.sharding.hooks import modules_at
from ...parallel.sharding.sections.waiting import finished
from ...parallel.sharding.split_plan import SplitPlan
from ...parallel.streaming.forwards import in_place_of
from ...parallel.together import highest
from ..spreading.handed import are_alike
from ..spreading.transformer import split_plan_of

T = TypeVar("T")
Parts = Mapping[str, nn.Module]  # transformers, by their names in the pipeline
Call = tuple[str, Any]  # a transformer's name, and its arguments, positional and named
Outputs = list[list[Tensor]]  # of each call the tensors of numbers, fp32 on the CPU
LOST = (PeerLost, RankFailed, BadWires, Closed)  # the run itself has ended
EXACT = 1e-5  # of the largest value, or of 1: further apart in fp32 is wrong, and refused
DOUBTED = 1.25  # how many times the whole run's rounding is told; by it nothing is refused
SAMPLED = 1 << 16  # values of each weight that its mark is made of
SCALE, MOST = 10**12, 1e6  # votes are whole numbers, and end here
SPARE_BYTES = 1 << 28  # of memory, for what is computed in fp32 beside weights, of so few tokens


class Unproven(LoomError):
    """Nothing was shown, which is not lasting where it may be shown at another time; the text is why."""

    code = "unproven"

    def __init__(self, why: str, *, is_lasting: bool = True) -> None:
        super().__init__(why)
        self.is_lasting = is_lasting


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found of one plan and model."""

    state: Literal["same", "refused", "unproven"]
    apart: float = 0.0  # in fp32, as a part of the largest value, or of 1 where that is smaller
    ratio: float = 1.0  # the rms error in the run's own dtype, to that of the transformer whole
    why: str = ""  # it is not the same, or nothing was shown
    is_lasting: bool = True  # whether the next process need not try again
    day: str = field(default_factory=lambda: time.strftime("%Y-%m-%d"))

    def __str__(self) -> str:
        if self.state == "unproven":
            return f"not checked on this machine, {self.day}: {self.why}"
        doubt = f", rounding {self.ratio:.2f} times that of one device" if self.ratio > DOUBTED else ""
        return f"checked on this machine, {self.day}, {self.apart:.1e}{doubt}"


Lent = Callable[[], AbstractContextManager[Parts]]


def self_check(
    ask: Callable[[Parts], object], *, mesh: Mesh, sharded: Lent, whole: Lent, split: SplitPlan | None = None
) -> Verdict:
    """Collective: what `ask` has the transformers do, sharded by the mesh and then whole on each rank;
    `split` is the plan of one whose class has none here.

    Errors of the check itself are a verdict, too, alike on all ranks; only what has ended the run for other reasons is
    raised.
    """
    try:
        with ExitStack() as stack:
            parts = _all(mesh, lambda: stack.enter_context(sharded()))
            # Of GPUs also what is in fp32: convolutions round by TF32 there.
            is_low = any(x.is_cuda or _is_low(x) for x in _weights(parts))
            _all(mesh, lambda: is_low and [check_room(part, split) for part in parts.values()])
            calls, own = _all(mesh, lambda: recorded(parts, ask), together=True)
            twins = [(name, inputs) for name in parts if name not in dict(calls) for _, inputs in calls]
            if mesh[Axis.CFG].size == 1:  # experts for later steps; branches of guidance are told apart by the pipeline
                own += _all(mesh, lambda: answers(parts, twins), together=True)
                calls += twins
            exact = (
                _all(mesh, lambda: answers(parts, calls, is_exact=True, split=split), together=True) if is_low else own
            )
        with ExitStack() as stack:
            parts = _all(mesh, lambda: stack.enter_context(whole()))
            weights, device = _all(mesh, lambda: _mark(parts)), next(_weights(parts)).device
            _all(mesh, lambda: is_low and [check_room(part, split) for part in parts.values()])
            own_whole = _all(mesh, lambda: answers(parts, calls))
            exact_whole = _all(mesh, lambda: answers(parts, calls, is_exact=True, split=split)) if is_low else own_whole
        apart, ratio = _all(mesh, lambda: _compared((own, exact), (own_whole, exact_whole)))
    except Unproven as error:
        return Verdict(state="unproven", why=str(error), is_lasting=error.is_lasting)
    mark, group = zlib.crc32(b"".join(x.numpy().tobytes() for call in exact for x in call)), mesh[Axis.SEQUENCE]
    differs = group.size > 1 and not are_alike(mark, group, device)
    votes = [round(min(each, MOST) * SCALE) for each in (apart, ratio)]
    *shares, differs, most, least = highest(mesh, *votes, int(differs), weights, -weights)
    apart, ratio = (each / SCALE for each in shares)
    why = "the ranks have different results" if differs else ""
    if apart > EXACT:
        why = f"in fp32 it is {apart:.2g} of the largest value away from one device, where {EXACT:g} is allowed"
    if most != -least:
        why = "the ranks hold different weights, such as a LoRA that one of them lacks"
    return Verdict(state="refused" if why else "same", apart=apart, ratio=ratio, why=why)


def recorded(parts: Parts, ask: Callable[[Parts], object]) -> tuple[list[Call], Outputs]:
    """What the transformers are asked meanwhile, whole, in order, and what they give."""
    calls: list[Call] = []
    outputs: Outputs = []

    def heard(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*args: Any, **kwargs: Any) -> Any:
            calls.append((name, copy.deepcopy((args, kwargs))))
            output = call(*args, **kwargs)
            outputs.append(_numbers(output))
            return output

        return answer

    with ExitStack() as stack, torch.no_grad():
        for name, part in parts.items():
            # Outside of all hooks, as torch's own `Module.compile` is: of sections one alone comes to the last hook.
            before = vars(part).pop("_compiled_call_impl", None)
            undo = functools.partial(vars(part).update, _compiled_call_impl=before)
            stack.callback(undo if before is not None else functools.partial(vars(part).pop, "_compiled_call_impl"))
            vars(part)["_compiled_call_impl"] = heard(name, before or part._call_impl)
        ask(parts)
    if not calls:
        raise Unproven("the transformer was not asked")
    return calls, outputs


def answers(parts: Parts, calls: Sequence[Call], *, is_exact: bool = False, split: SplitPlan | None = None) -> Outputs:
    """Collective where they are sharded: what the transformers give now for the same calls."""
    found: Outputs = []
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if is_exact:
            stack.enter_context(torch.compiler.set_stance("force_eager"))  # what is compiled is for another dtype
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("highest")
            stack.callback(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
            torch.backends.cudnn.allow_tf32 = False
            for part in parts.values():
                stack.enter_context(in_fp32(part, split))
        for name, inputs in calls:
            args, kwargs = copy.deepcopy(inputs)  # models pop off lists that they are given, and keep in caches
            if is_exact:
                args, kwargs = pytree.tree_map(lambda x: _full(x) if _is_low(x) else x, (args, kwargs))
            found.append(_numbers(parts[name](*args, **kwargs)))
    return found


@contextlib.contextmanager
def in_fp32(transformer: nn.Module, given: SplitPlan | None = None) -> Iterator[None]:
    """Within it the transformer computes in fp32, and holds one block's weights at a time in it, and those outside of
    blocks. Afterwards it has the very tensors that it had."""
    units, device = _units(transformer, given), next(transformer.parameters()).device
    held: dict[nn.Module, list[tuple[dict[str, Any], str, Any]]] = {}

    def before(unit: nn.Module, *_: Any) -> None:
        held.setdefault(unit, []).extend(_raised(units[unit], device))

    def after(unit: nn.Module, *_: Any) -> None:
        for values, name, value in held.pop(unit, []):
            values[name] = value

    with ExitStack() as stack:
        for each in transformer.modules():
            if inspect.isfunction(streams := vars(each).get("forward")) and hasattr(streams, "__wrapped__"):
                # it would bring what rests, in its own dtype
                stack.enter_context(in_place_of(each, streams.__wrapped__))
        stack.callback(lambda: [after(unit) for unit in reversed(list(held))])  # where a forward failed
        for unit in units:  # after shared weights are gathered, and before they are let go of
            stack.callback(unit.register_forward_pre_hook(before).remove)
            stack.callback(unit.register_forward_hook(after, prepend=True, always_call=True).remove)
        yield


def _units(transformer: nn.Module, given: SplitPlan | None) -> dict[nn.Module, list[nn.Module]]:
    """What is in fp32 at a time, by what is called then; the whole comes last."""
    split, title = split_plan_of(transformer, given), type(transformer).__name__
    blocks = [block for path in split.blocks for block in modules_at(transformer, path, title)]
    inside = {each for block in blocks for each in block.modules()}
    units = {each: [each] for each in inside}  # some are called outside of their blocks, too
    units |= {block: [*block.modules()] for block in blocks}
    return units | {transformer: [each for each in transformer.modules() if each not in inside]}


def _raised(modules: Iterable[nn.Module], device: torch.device) -> list[tuple[dict[str, Any], str, Any]]:
    """Weights are exchanged for fp32 ones on the device; where each was, and what it was."""
    both: list[dict[str, Any]] = [each for module in modules for each in (module._parameters, module._buffers)]
    old = [(values, name, value) for values in both for name, value in values.items() if _is_low(value)]
    for values, name, value in old:
        new = _full(value.detach().to(device))
        values[name] = nn.Parameter(new, requires_grad=False) if isinstance(value, nn.Parameter) else new
    return old


def check_room(transformer: nn.Module, given: SplitPlan | None = None) -> None:
    """Raises `Unproven` where there is none for what `in_fp32` holds."""
    units, device = reversed(_units(transformer, given).values()), next(transformer.parameters()).device
    outside, *sizes = (sum(x.numel() for each in unit for x in each.parameters(recurse=False)) for unit in units)
    needed = 4 * (outside + max(sizes, default=0)) + SPARE_BYTES
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        room = torch.cuda.mem_get_info(device)[0] + unused
    else:
        import psutil

        room = psutil.virtual_memory().available
    if needed > room:
        why = f"it needs {needed / 2**30:.1f} GiB on {device}, where {room / 2**30:.1f} are free"
        raise Unproven(why, is_lasting=False)


def _is_low(value: Any) -> bool:
    """Whether it has fewer bits than fp32."""
    is_number = isinstance(value, Tensor) and value.is_floating_point() and not value.is_meta  # of another's block
    return is_number and value.element_size() < 4


def _full(tensor: Tensor) -> Tensor:
    """In fp32; of a quantized weight what it stands for."""
    return (tensor.dequantize() if hasattr(tensor, "__tensor_flatten__") else tensor).float()


def _weights(parts: Parts) -> Iterator[Tensor]:
    return (each for part in parts.values() for each in part.parameters())


def _mark(parts: Parts) -> int:
    """A number of all weights, by a sample of each, which is the same where they are."""
    mark = zlib.crc32(repr([name for part in parts.values() for name, _ in part.named_parameters()]).encode())
    for weight in _weights(parts):
        flat = (weight.dequantize() if hasattr(weight, "__tensor_flatten__") else weight).detach().flatten()
        mark = zlib.crc32(_full(flat[:: max(1, flat.numel() // SAMPLED)]).cpu().numpy().tobytes(), mark)
    return mark


def _numbers(output: Any) -> list[Tensor]:
    leaves = pytree.tree_leaves(finished(output))
    return [x.detach().float().cpu() for x in leaves if isinstance(x, Tensor) and x.is_floating_point() and x.numel()]


def _compared(sharded: tuple[Outputs, Outputs], whole: tuple[Outputs, Outputs]) -> tuple[float, float]:
    """Of outputs as the run computes, and in fp32: how far apart in fp32, as a part of a tensor's largest value, or of
    1 where that is smaller; and how many times the rounding as the run computes. The most of all calls."""
    found = [tensors for call in zip(*sharded, *whole, strict=True) for tensors in zip(*call, strict=True)]
    if not all(bool(exact.isfinite().all()) for *_, exact in found):
        raise Unproven("the transformer whole gives no finite numbers")
    apart = [float((b - exact).abs().max()) / max(1.0, float(exact.abs().max())) for _, b, _, exact in found]
    errors = [[float((x - exact).pow(2).mean().sqrt()) for x in (a, b)] for a, _, b, exact in found]
    ratio = max((a / b for a, b in errors if b), default=1.0)
    return max(math.inf if math.isnan(each) else each for each in apart), MOST if math.isnan(ratio) else ratio


def _all(mesh: Mesh, work: Callable[[], T], *, together: bool = False) -> T:
    """Collective: what `work` gives; Unproven on every rank where it failed on any, before the next exchange.

    In what the ranks do `together` one that lacks memory ends the run for all, which is tried again without a check:
    the others wait for it where no vote is heard.
    """
    found, error, why = None, None, "it failed on another rank"
    try:
        found = work()
    except LOST:
        raise
    except Exception as problem:
        error, is_told = problem, isinstance(problem, ValueError | Unproven)
        if together and is_out_of_memory(error):
            raise
        why = one_line(error) if is_told else f"{type(error).__name__}: {one_line(error)}"
    passes_by = error is not None and (is_out_of_memory(error) or not getattr(error, "is_lasting", True))
    passes_by |= together and isinstance(error, ValueError)  # of what this one job was given
    failed, passes_by = highest(mesh, int(error is not None), int(passes_by))
    if failed:
        raise Unproven(why, is_lasting=not passes_by) from error
    return found  # pyrefly: ignore[bad-return]
