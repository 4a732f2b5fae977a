"""What a rank does for the tests of weight sharding."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bodies.meshes import by_plan, group_mesh
from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding.weights import own_bytes
from latentloom.pipelines.components.loading import load_sharded, torch_dtype
from latentloom.pipelines.spreading.guidance import lift_refusal
from latentloom.pipelines.spreading.transformer import shard
from support.alive import Alive
from support.cells import apart, model_of, outputs
from zoo.cases import CASES


def small(variant: str, layers: int = 2) -> tuple[nn.Module, dict[str, Any]]:
    """A model of its own: its weights do not come back."""
    return model_of(variant, dataclasses.replace(CASES["both_odd"], layers=layers))


def shared(model: nn.Module, mesh: Mesh) -> None:
    """Shard it; where the plan splits guidance too, all groups run what they are asked."""
    shard(model, mesh.plan, mesh)
    lift_refusal(model)


@by_plan
def shared_out(rank: int, variant: str, mesh: Mesh) -> dict[str, Any]:
    """Two forwards with shared weights, against one process."""
    model, inputs = small(variant)
    whole, whole_bytes = outputs(model, inputs), own_bytes(model)
    shared(model, mesh)
    got = [*outputs(model, inputs), *outputs(model, inputs)]
    return {
        "difference": apart(got, [*whole, *whole]),
        "largest": max(float(x.abs().max()) for x in whole),
        "share": own_bytes(model) / whole_bytes,
        "sent": mesh[Axis.WEIGHTS].count.sent_bytes,
    }


def streamed(
    rank: int, variant: str, plan: str, dtype: str, folder: str, counts: bool = False
) -> dict[str, Any] | None:
    """Loaded sharded, against loaded whole and then sharded; `counts` the memory, for twice the layers, of
    the second on the first rank only."""
    model, inputs = small(variant, layers=4 if counts else 2)
    kind = type(model)
    if rank == 0:
        model.save_pretrained(folder, max_shard_size="300KB")
    dist.barrier()
    mesh = group_mesh(plan)
    if mesh is None:
        return None
    live, all_live = Alive(), Alive()
    with live if counts else contextlib.nullcontext(), torch.no_grad():
        transformer, _ = load_sharded(folder, mesh.plan, mesh, dtype=dtype)
    with all_live if counts and rank == 0 else contextlib.nullcontext(), torch.no_grad():
        other = kind.from_pretrained(folder, torch_dtype=torch_dtype(dtype))
        other = other.requires_grad_(False)
        held = sum(x.numel() * x.element_size() for x in other.parameters())
    largest = max(x.numel() * x.element_size() for x in other.parameters())
    handle = shard(other, mesh.plan, mesh)
    same = [
        name == other_name and x.dtype == y.dtype and torch.equal(_local(x), _local(y))
        for (name, x), (other_name, y) in zip(_tensors(transformer), _tensors(other), strict=True)
    ]
    difference = apart(outputs(transformer, inputs), outputs(other, inputs)) if dtype == "fp32" else 0.0
    if mesh.plan.weights == 1:
        handle.remove()
    return {
        "files": len(list(Path(folder).glob("*.safetensors"))),
        "same": all(same),
        "difference": difference,
        "dtypes": sorted({str(x.dtype) for x in transformer.parameters()}),
        "peak": live.most,
        "whole_peak": all_live.most,
        "whole": held,
        "largest": largest,
    }


@by_plan
def refused(rank: int, what: str, mesh: Mesh) -> str:
    """What a rank is told when it asks for something that shared weights do not allow."""
    model, inputs = small("flux")
    try:
        REFUSALS[what](model, inputs, mesh)
    except ValueError as error:
        return str(error)
    return "nothing"


def _late_lora(model: Any, inputs: dict[str, Any], mesh: Mesh) -> None:
    shared(model, mesh)
    outputs(model, inputs)
    _add_lora(model)
    outputs(model, inputs)


def _quantized(model: nn.Module, inputs: dict[str, Any], mesh: Mesh) -> None:
    class Packed(Tensor):
        pass

    linear = model.get_submodule("transformer_blocks.0.attn.to_q")
    linear.weight = nn.Parameter(linear.weight.detach().as_subclass(Packed), requires_grad=False)
    shared(model, mesh)


def _offloaded(model: Any, inputs: dict[str, Any], mesh: Mesh) -> None:
    cpu = torch.device("cpu")
    model.enable_group_offload(onload_device=cpu, offload_device=cpu, offload_type="leaf_level")
    shared(model, mesh)


def _other_inputs(model: nn.Module, inputs: dict[str, Any], mesh: Mesh) -> None:
    shared(model, mesh)
    if mesh.rank == 0:
        inputs = {**inputs, "hidden_states": inputs["hidden_states"] + 1}
    outputs(model, inputs)


REFUSALS = {
    "remove": lambda model, _, mesh: shard(model, mesh.plan, mesh).remove(),
    "late_lora": _late_lora,
    "twice": lambda model, _, mesh: [shared(model, mesh) for _ in range(2)],
    "quantized": _quantized,
    "offloaded": _offloaded,
    "other_inputs": _other_inputs,
}


@by_plan
def with_lora(rank: int, mesh: Mesh) -> dict[str, float]:
    """A LoRA loaded before weights are shared out."""
    model, inputs = small("flux")
    plain = outputs(model, inputs)
    _add_lora(model)
    whole = outputs(model, inputs)
    shared(model, mesh)
    return {"difference": apart(outputs(model, inputs), whole), "lora": apart(plain, whole)}


@by_plan
def after_failure(rank: int, mesh: Mesh) -> dict[str, Any]:
    """A forward that raises in the middle, one in inference mode, and one as usual."""
    model, inputs = small("flux")
    whole = outputs(model, inputs)
    shared(model, mesh)
    share, told = own_bytes(model), ""

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory, say")

    breaking = model.get_submodule("single_transformer_blocks.1").register_forward_pre_hook(fail)
    try:
        outputs(model, inputs)
    except RuntimeError as error:
        told = str(error)
    breaking.remove()
    left = own_bytes(model)
    with torch.inference_mode():
        first = apart(list(model(**inputs, return_dict=False)), whole)
    return {"told": told, "left": left / share, "difference": max(first, apart(outputs(model, inputs), whole))}


def _add_lora(model: Any) -> None:
    from peft import LoraConfig

    torch.manual_seed(3)
    model.add_adapter(LoraConfig(r=2, target_modules=["to_q", "proj_mlp"], init_lora_weights=False))


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _local(x: Any) -> Tensor:
    return x.to_local() if hasattr(x, "to_local") else x
