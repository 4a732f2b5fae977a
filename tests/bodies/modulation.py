"""What a rank does to test modulation that is shared out."""

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import torch
from diffusers import FirstBlockCacheConfig
from peft import LoraConfig
from torch import Tensor, nn
from torch._dynamo.backends.debugging import aot_eager

from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding import compiled
from latentloom.parallel.sharding.captured import Captured
from latentloom.parallel.sharding.compiled import Forwards
from latentloom.pipelines.components.loans import Condition
from latentloom.pipelines.components.prepared import Prepared
from latentloom.pipelines.fusing import modulation, products, rotary
from latentloom.pipelines.fusing.modulation import share_modulation
from support.cells import mesh_for, model_of, outputs
from support.launches import Launches
from support.tapes import Tapes
from zoo.cases import Case

LORA = {"r": 2, "target_modules": ["norm1.linear", "norm.linear", "to_q"], "init_lora_weights": False}


def share_out(rank: int, name: str) -> tuple[bool, int, int, list[str]]:
    """Whether the bits are those of a rank that makes all; the products of such a one, and of this; what is left."""
    model, inputs = built(name)
    wanted, num_alone = counted(model, inputs)
    undo = share_modulation(model, mesh()[Axis.SEQUENCE])
    (found, num_products), (again, _) = (counted(model, inputs) for _ in range(2))
    undo()
    left = [path for path, each in model.named_modules() if "forward" in vars(each) or each._forward_pre_hooks]
    return _same(found, wanted) and _same(again, wanted), num_alone, num_products, left


def beside(rank: int, how: str) -> list[bool]:
    """Whether it gives the bits of a transformer that shares nothing out, one forward after the other."""
    model, inputs = built("flux_controlnet" if how == "residuals" else "flux")
    plain, _ = built("flux_controlnet" if how == "residuals" else "flux")
    undo = share_modulation(model, mesh()[Axis.SEQUENCE])
    found, wanted = WAYS[how](model, inputs), WAYS[how](plain, inputs)
    undo()
    return [_same(x, y) for x, y in zip(found, wanted, strict=True)]


def prepare(rank: int, plan: str) -> tuple[list[float], list[int], list[set[str]]]:
    """Of a transformer made ready for a device that fuses, and for one that does not, eager and with an engine: how far
    apart they are, how many products are saved, and its attention processors while it is ready and afterwards."""
    model, inputs = built("flux")
    found: dict[tuple[str, bool], tuple[list[Tensor], int]] = {}
    processors: list[set[str]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(Forwards, "compile", lambda *_, **__: None))
        stack.enter_context(patch.object(rotary, "find_spec", lambda name: name))
        stack.enter_context(patch.object(rotary, "_fault", lambda *_: "there is no kernel here"))
        for engine, is_fused in itertools.product(("eager", "inductor"), (True, False)):
            with contextlib.ExitStack() as inner:
                for form in (modulation, products, rotary):
                    inner.enter_context(patch.object(form, "DEVICES", ("cpu",) if is_fused else ()))
                ready = Prepared(model, Condition(engine=engine), mesh(plan), share=None)
                found[engine, is_fused] = counted(model, inputs)
                processors.append({type(each).__name__ for each in model.attn_processors.values()})
                ready.end()
    processors.append({type(each).__name__ for each in model.attn_processors.values()})
    pairs = [(found[engine, True], found[engine, False]) for engine in ("eager", "inductor")]
    apart = [max(float((x - y).abs().max() / y.abs().max()) for x, y in zip(a[0], b[0], strict=True)) for a, b in pairs]
    return apart, [b[1] - a[1] for a, b in pairs], processors


def mesh(plan: str = "ulysses=2") -> Mesh:
    found = mesh_for(ParallelPlan.parse(plan))
    assert found is not None, "two ranks run this"
    return found


def built(name: str) -> tuple[Any, dict[str, Any]]:
    return model_of(name, Case("any", rows=4, columns=4, text=7))


def counted(model: nn.Module, inputs: dict[str, Any]) -> tuple[list[Tensor], int]:
    with Launches() as seen:
        return outputs(model, inputs), seen.names["addmm"] + seen.names["mm"]


def _lora(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    """Put on, scaled, turned off, taken off."""
    found = [outputs(model, inputs)]
    torch.manual_seed(3)
    model.add_adapter(LoraConfig(**LORA), "one")
    found.append(outputs(model, inputs))
    model.set_adapters(["one"], [0.25])
    found.append(outputs(model, inputs))
    model.disable_lora()
    found.append(outputs(model, inputs))
    model.unload_lora()
    return [*found, outputs(model, inputs)]


def _cached(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    model.enable_cache(FirstBlockCacheConfig(threshold=10.0))
    with model.cache_context("cond"):
        return [outputs(model, inputs) for _ in range(3)]


def _other_rows(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    """One block is given a temb of its own, as a guider may."""
    block = model.transformer_blocks[1]
    hook = block.register_forward_pre_hook(
        lambda _, args, kwargs: (args, {**kwargs, "temb": kwargs["temb"] * 0.5}), with_kwargs=True, prepend=True
    )
    found = outputs(model, inputs)
    hook.remove()
    return [found]


def _captured(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    tapes = Tapes()
    replayed = Captured(model, recorder=tapes)
    found = [outputs(model, {**inputs, "timestep": inputs["timestep"] * part}) for part in (1.0, 0.9, 0.5, 0.2)]
    replayed.restore()
    assert tapes.made, replayed.reasons
    return found


def _compiled(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    torch._dynamo.reset()
    with patch.object(compiled, "in_turn", aot_eager):
        ready = Prepared(model, Condition(engine="inductor"), None, share=None)
    found = [outputs(model, inputs) for _ in range(3)]
    ready.end()
    torch._dynamo.reset()
    return found


def _after_an_error(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    """The next forward, with another time, makes its own rows."""

    def fail(*_: object) -> None:
        raise InterruptedError

    hook = model.single_transformer_blocks[0].register_forward_pre_hook(fail)
    try:
        outputs(model, inputs)
    except InterruptedError:
        pass
    hook.remove()
    return [outputs(model, {**inputs, "timestep": inputs["timestep"] * 0.5})]


def _as_it_is(model: Any, inputs: dict[str, Any]) -> list[list[Tensor]]:
    return [outputs(model, inputs)]


WAYS: Mapping[str, Callable[[Any, dict[str, Any]], list[list[Tensor]]]] = {
    "a LoRA": _lora,
    "a step cache": _cached,
    "residuals": _as_it_is,
    "other rows": _other_rows,
    "captured": _captured,
    "compiled": _compiled,
    "after an error": _after_an_error,
}


def _same(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
