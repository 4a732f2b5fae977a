"""What each fused form saves: a FLUX step on one device and as rank 0 of 8 has it, with nothing on a wire.

    python tests/bench/gpu/fused.py            # 4 minutes of a GPU
    python tests/bench/gpu/fused.py --tiny     # a small model, also on a CPU, where launches alone are told

Each form alone and as they come together, eager and compiled, on a GPU also captured: milliseconds of the host and of
the step, what is launched, and how far the answer is from that of the plain form. The last is not told of shared
modulation: the ranks that would make the rest do not exist. Then what a block launches, its hooks included, counted as
operators; on a CPU one that does nothing stands for the kernel that turns q and k.
"""

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import Tensor, nn

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.gpu.measuring import Bench, head, machine, num_launched, reason, row, took
from bench.shadow_rank import SUBJECTS, Shadow, forward, inputs, made
from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.captured import Captured
from latentloom.parallel.sharding.shard import shard
from latentloom.pipelines.fusing import rotary
from latentloom.pipelines.fusing.modulation import share_modulation
from latentloom.pipelines.fusing.products import fuse_products
from latentloom.pipelines.spreading.transformer import split_plan_of
from support.launches import Launches

Undo = Callable[[], None]
PLANS = ("ulysses=1", "ulysses=8")


def _plain(model: nn.Module, mesh: Mesh) -> Undo:
    return lambda: None


def _products(model: nn.Module, mesh: Mesh) -> Undo:
    return fuse_products(model)


def _modulation(model: nn.Module, mesh: Mesh) -> Undo:
    return share_modulation(model, mesh[Axis.SEQUENCE])


def _rotary(model: nn.Module, mesh: Mesh) -> Undo:
    with patch.object(rotary, "find_spec", lambda name: name):
        return rotary.fuse_rotary(model)


FORMS: Mapping[str, tuple[Callable[[nn.Module, Mesh], Undo], ...]] = {
    "plain": (_plain,),
    "products": (_products,),
    "modulation": (_modulation,),
    "both": (_products, _modulation),
    "rotary": (_rotary,),
    "rotary and modulation": (_rotary, _modulation),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small model, on a CPU if there is no GPU")
    parser.add_argument("--plans", nargs="+", default=list(PLANS))
    asked = parser.parse_args()
    bench = Bench(device=torch.device("cuda:0" if torch.cuda.is_available() else "cpu"), is_tiny=asked.tiny)
    if not bench.is_gpu and not bench.is_tiny:
        print("there is no GPU here; --tiny runs a small model on the CPU", file=sys.stderr)
        return 2
    print(machine(bench, ["small shapes"] if bench.is_tiny else []), flush=True)
    subject = SUBJECTS["flux-1024"]
    model = made(subject, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
    given = inputs(subject, model, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
    good = True
    for plan in asked.plans:
        print(f"\n## {plan}\n")
        good = _steps(model, given, plan, bench) and good
        print()
        _blocks(model, given, plan, bench)
    return int(not good)


def _steps(model: nn.Module, given: dict[str, Any], plan: str, bench: Bench) -> bool:
    """The table of whole steps; False if a form fails, or its answer is another than the plain one's."""
    head("engine", "form", "host ms", "ms", "kernels and copies", "captured: host ms", "ms", "off plain by")
    good = True
    for engine in ("eager", "compiled"):
        wanted: Tensor | None = None
        for form in FORMS:
            if not _is_met(form, plan) or (engine == "compiled" and _rotary in FORMS[form]):
                continue  # a compiler makes one launch of the positions by itself
            with _formed(model, plan, form) as compile_blocks:
                if engine == "compiled":
                    torch._dynamo.reset()
                    compile_blocks(**({} if bench.is_gpu else {"backend": "aot_eager"}))
                try:
                    found, cells = _measured(model, given, bench)
                except Exception as error:  # torch raises classes of its own of whatever its compilers raise
                    row(engine, form, *5 * ("",), reason(error))
                    good = False
                    continue
                wanted = found if wanted is None else wanted
                off = float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max())
                is_told = form in ("plain", "products", "rotary")
                row(engine, form, *cells, f"{off:.1e}" if is_told else "-")
                good = good and (not is_told or off <= (0.0 if form == "rotary" and engine == "eager" else 0.05))
    return good


def _measured(model: nn.Module, given: dict[str, Any], bench: Bench) -> tuple[Tensor, list[object]]:
    def step() -> Tensor:
        return forward(model, given)

    step()  # the shadow's noise is as long as it gets
    found = step().clone()
    alone = took(step, bench, runs=5)
    cells: list[object] = [alone.host_ms, alone.ms, num_launched(step, bench)]
    if not bench.is_gpu:
        return found, [*cells, "-", "-"]
    graphs = Captured(model)
    try:
        for _ in range(4):
            step()
        replayed = took(step, bench, runs=7)
        return found, [*cells, *((graphs.reasons[0], "") if graphs.reasons else (replayed.host_ms, replayed.ms))]
    finally:
        graphs.restore()


def _blocks(model: Any, given: dict[str, Any], plan: str, bench: Bench) -> None:
    """The table of what one block of each kind launches."""
    head("form", "double block", "of these products", "single block", "of these products", "before the blocks")
    for form in FORMS:
        if not _is_met(form, plan):
            continue
        with _formed(model, plan, form), _kernel_in_place(bench):
            forward(model, given)
            spans = {kind: _Span() for kind in ("transformer_blocks", "single_transformer_blocks")}
            with contextlib.ExitStack() as stack, Launches() as seen:
                for kind, span in spans.items():
                    stack.callback(span.around(getattr(model, kind)[-1], seen))
                first = _Span()
                stack.callback(first.around(model.transformer_blocks[0], seen))
                forward(model, given)
        cells = [count for span in spans.values() for count in (span.names.total(), span.num_products)]
        row(form, *cells, first.names.total() - spans["transformer_blocks"].names.total())


def _is_met(form: str, plan: str) -> bool:
    """One rank alone shares nothing out."""
    return _modulation not in FORMS[form] or ParallelPlan.parse(plan).sequence > 1


@contextlib.contextmanager
def _kernel_in_place(bench: Bench) -> Iterator[None]:
    """What is counted as one launch where there is no GPU for the kernel."""

    def one_launch(q: Sequence[Tensor], k: Sequence[Tensor], cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        shape = (len(q[0]), len(cos), *q[0].shape[2:])
        return q[0].new_zeros(shape), q[0].new_empty(shape)

    if bench.is_gpu:
        yield
        return
    found = {"_by_kernel": one_launch, "_fault": lambda *_: "", "_faults": {}}
    with patch.multiple(rotary, **found):
        yield


class _Span:
    """What was launched in a block, its hooks included."""

    names: Counter[str]

    @property
    def num_products(self) -> int:
        return self.names["addmm"] + self.names["mm"]

    def around(self, block: nn.Module, seen: Launches) -> Undo:
        def before(*_: object) -> None:
            self.names = seen.names.copy()

        def after(*_: object) -> None:
            self.names = seen.names - self.names

        hooks = block.register_forward_pre_hook(before, prepend=True), block.register_forward_hook(after)

        def undo() -> None:
            for hook in hooks:
                hook.remove()

        return undo


@contextlib.contextmanager
def _formed(model: Any, plan: str, form: str) -> Iterator[Callable[..., None]]:
    """The model as rank 0 of a plan has it, in this form; gives what compiles its blocks."""
    torch.manual_seed(0)  # what arrives is the same for each form
    with contextlib.ExitStack() as stack:
        mesh = stack.enter_context(Shadow()).mesh(plan)
        for apply in FORMS[form]:
            stack.callback(apply(model, mesh))
        if mesh[Axis.SEQUENCE].size > 1:
            handle = shard(model, split_plan_of(model), mesh)
            stack.callback(handle.remove)
            yield handle.compile
        else:
            yield model.compile_repeated_blocks
            for each in model.modules():
                vars(each).pop("_compiled_call_impl", None)


if __name__ == "__main__":
    sys.exit(main())
