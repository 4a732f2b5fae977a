"""Weight sharding: the ranks of a group hold a transformer's weights between them, and gather each block as it runs.

Torch's FSDP2 does the work. Its traps, found by reading and trying: it changes the class of a module for good, keeps
the root's weights gathered after a forward unless told, refuses parameters of no dims and parameters that two of its
groups share, wants one dtype of all parameters that may be trained, and stays half gathered when a forward fails.
"""

# N flat elements

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard

from ..collectives import backend, gather_into
from ..group import Axis, Group

# `read(parameter, rows)`: those rows of it, or all of it for None, in the dtype and on the device it shall have.
Read = Callable[[str, "slice | None"], Tensor]
# `settle(module, name)`: called once the module's own parameter of that name has its value.
Settle = Callable[[nn.Module, str], None]


def shard_weights(
    module: nn.Module, blocks: Sequence[nn.Module], *, group: Group, device: torch.device | None = None
) -> None:
    """Keep this rank's share of every parameter only, in place and for good.

    A module on the meta device takes `device`, and gets its weights from `fill`. Each of `blocks` is gathered when it
    runs and let go afterwards; what is in none of them is gathered for the whole forward.

    Raises ValueError, and has changed nothing, if the weights cannot be shared out.
    """
    device = _check_shareable(module, group, device)
    assert group.process_group is not None, f"{group} shares weights and so was made, not only planned"
    units = _units(module, blocks)
    alone = _unshareable(module, units)
    module.requires_grad_(False)  # what is trained would need one dtype in all of a block
    # FSDP takes no others: shares are rows of dim 0 in one piece of memory, which a transposed weight has not.
    for parameter in module.parameters():
        if not parameter.is_contiguous():
            parameter.data = parameter.data.contiguous()
    mesh = DeviceMesh.from_group(group.process_group, device.type, mesh_dim_names=(Axis.WEIGHTS.value,))
    gathering = _Gathering(group)
    # Inner units first: FSDP gives a unit what no unit inside of it has taken. The root comes last and gets the rest,
    # and is told to let go as well: by default FSDP keeps a root's weights for a backward that never comes.
    for unit in (*units, module):
        sharded = fully_shard(unit, mesh=mesh, reshard_after_forward=True, ignored_params=alone)
        sharded.set_custom_all_gather(gathering)  # pyrefly: ignore[bad-argument-type] (its abstract class is private)
    _watch(module)


def is_weight_sharded(module: nn.Module) -> bool:
    """Whether FSDP has its weights, by this file or by somebody else."""
    return any(isinstance(each, FSDPModule) for each in module.modules())


def fill(module: nn.Module, read: Read, settle: Settle = lambda *_: None, *, elsewhere: Collection[str] = ()) -> None:
    """Give a module its values: this rank's share of each parameter on the meta device, and the saved buffers whole.

    Parameters that are `elsewhere`, on ranks of another section, stay on the meta device.
    """
    made: dict[nn.Parameter, nn.Parameter] = {}
    given: set[Tensor] = set()
    saved = module.state_dict(keep_vars=True)
    for name, value in saved.items():
        owner, leaf = _owner(module, name)
        if not isinstance(value, nn.Parameter):  # a buffer: FSDP shares out none, and gathers none
            owner._buffers[leaf] = value = read(name, None)
            given.add(value)
        elif value.is_meta and name not in elsewhere:
            setattr(owner, leaf, nn.Parameter(_share(value, name, read), requires_grad=False))
            # Before the next is read, so that the host holds one at a time; it may put another parameter there.
            settle(owner, leaf)
            made[value] = getattr(owner, leaf)
    # Tied weights are in the files once, so the loop above has met one of their names; the other is still on meta.
    for name, value in module.named_parameters(remove_duplicate=False):
        if value in made:  # another name of the same parameter
            owner, leaf = _owner(module, name)
            setattr(owner, leaf, made[value])
    given.update(made.values())
    left = [
        name for name, value in _everything(module) if value.is_meta and value not in given and name not in elsewhere
    ]
    if left:
        raise ValueError(
            f"{_title(module)} builds {len(left)} tensors that its files do not hold, first {left[0]}; load it whole, "
            "then shard it"
        )


def own_bytes(module: nn.Module) -> int:
    """What this rank holds of the parameters."""
    held = (each.to_local() if isinstance(each, DTensor) else each for each in module.parameters())
    return sum(each.untyped_storage().nbytes() for each in held if not each.is_meta)


class _Gathering:
    """FSDP's gather of one block's weights, by way of `collectives`, which counts it."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False) -> Any:
        """Collective."""
        return gather_into(output_tensor, input_tensor, group=self.group, is_async=async_op)


def _check_shareable(module: nn.Module, group: Group, device: torch.device | None) -> torch.device:
    """The device that holds the shares."""
    title = _title(module)
    if is_weight_sharded(module):
        raise ValueError(f"this {title} has its weights sharded by FSDP already; load it anew, or use weights=1")
    for name, parameter in module.named_parameters():
        if type(parameter) is not nn.Parameter or type(parameter.data) is not Tensor:
            raise ValueError(
                f"{title}: {name} is a quantized or otherwise special tensor ({type(parameter.data).__name__}), which "
                "cannot be shared out; use weights=1, or load the model without quantization"
            )
    for name, each in module.named_modules():
        if moved := _mover(each):
            raise ValueError(
                f"{title}: {moved} moves the weights of {name or 'the transformer'} about, which cannot be combined "
                "with weights over 1; use one of the two"
            )
    places = {value.device for _, value in _everything(module) if not value.is_meta}
    if device is None:
        if len(places) != 1 or any(value.is_meta for value in module.parameters()):
            found = ", ".join(sorted({str(value.device) for _, value in _everything(module)}))
            raise ValueError(f"{title} is on {found or 'no device'}; move all of it to the rank's device first")
        (device,) = places
    if device.type == "cpu" and backend(group) == "nccl":
        raise ValueError(f"{title} is on the CPU, whose weights NCCL cannot gather; move it to the rank's GPU first")
    if device.type == "cuda" and device.index not in (None, torch.cuda.current_device()):
        raise ValueError(
            f"{title} is on {device}, not on this process's GPU; call torch.cuda.set_device({device}) first"
        )
    return device


def _mover(module: nn.Module) -> str | None:
    """What has been put on a module that replaces its weights while it runs."""
    if hasattr(module, "_hf_hook"):
        return "accelerate's offloading"
    hooks = getattr(getattr(module, "_diffusers_hook", None), "hooks", {})
    return next((f"diffusers' {name}" for name in hooks if "offload" in name or "layerwise" in name), None)


def _units(module: nn.Module, blocks: Sequence[nn.Module]) -> list[nn.Module]:
    """What is gathered at a time: the blocks, inner ones first."""
    wanted = {id(block) for block in blocks if block is not module}
    inner_first = reversed(list(module.modules()))
    return [each for each in inner_first if id(each) in wanted and next(each.parameters(), None) is not None]


def _unshareable(module: nn.Module, units: Sequence[nn.Module]) -> set[nn.Parameter]:
    """Parameters that every rank keeps: single numbers, and those of several units."""
    # FSDP takes no parameter without dims, and one that two units share would be let go of by the first that ran.
    homes: dict[nn.Parameter, set[int]] = {}
    number = {id(unit): index for index, unit in enumerate(units)}

    def visit(each: nn.Module, home: int) -> None:
        home = number.get(id(each), home)
        for parameter in each.parameters(recurse=False):
            homes.setdefault(parameter, set()).add(home)
        for child in each.children():
            visit(child, home)

    visit(module, -1)
    return {parameter for parameter, where in homes.items() if parameter.ndim == 0 or len(where) > 1}


def _watch(module: nn.Module) -> None:
    """Refuse weights that came later, and let go of what a failed forward has gathered."""
    known = _names(module)

    def before(_: nn.Module, args: Any) -> None:
        now = _names(module)
        if now != known:
            changed = sorted(
                now.symmetric_difference(known), key=lambda name: (name in known, "base_layer" in name, name)
            )
            raise ValueError(
                f"{_title(module)}: {len(changed)} parameters were added or taken away after its weights were sharded, "
                f"first {changed[0]}; load LoRAs and the like before shard, or use weights=1"
            )

    begun = False  # by FSDP: a forward that was refused before has gathered nothing

    def begin(_: nn.Module, args: Any) -> None:
        nonlocal begun
        begun = True

    def after(_: nn.Module, args: Any, output: Any) -> None:
        nonlocal begun
        # It raised: what was gathered would stay so, and FSDP would take the next forward for a part of this one.
        if output is None and begun:
            _recover(module)
        begun = False

    # The refusal comes before FSDP's own hook, which would gather by its old list, and leave the new weight out.
    module.register_forward_pre_hook(before, prepend=True)
    module.register_forward_pre_hook(begin)  # after FSDP's own, which sets up what recovering needs
    module.register_forward_hook(after, always_call=True)


def _recover(module: Any) -> None:
    """FSDP as it is between two forwards."""
    if hasattr(module, "reset_iter_state"):
        module.reset_iter_state()
        return
    module._get_fsdp_state()._state_ctx.iter_forward_root = None  # until torch 2.13 is the oldest we take
    for each in module.modules():
        if isinstance(each, FSDPModule):
            each.reshard()


def _names(module: nn.Module) -> frozenset[str]:
    return frozenset(name for name, _ in module.named_parameters())


def _share(parameter: nn.Parameter, name: str, read: Read) -> Tensor:
    """The values of a parameter that is on the meta device: this rank's rows if it is shared out."""
    if not isinstance(parameter, DTensor):
        return read(name, None)
    (placement,) = parameter.placements
    assert isinstance(placement, Shard) and placement.dim == 0, f"{name} is placed {placement}"
    # As torch's `Shard` chunks: rounded up, so that the last ranks have fewer rows, or none. FSDP gathers by that rule.
    mesh, count = parameter.device_mesh, parameter.shape[0]
    each = -(-count // mesh.size())
    start = min(mesh.get_local_rank() * each, count)
    rows = read(name, slice(start, min(start + each, count)))
    return DTensor.from_local(
        rows, mesh, (placement,), run_check=False, shape=parameter.shape, stride=parameter.stride()
    )


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    return module.get_submodule(path), leaf


def _everything(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _title(module: nn.Module) -> str:
    return type(module).__name__.removeprefix("FSDP")
