"""The mesh: which ranks work together along which axis of a plan.

Ranks are numbered with ulysses innermost, then ring or allgather, then cfg: neighbours share the heavy exchange.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from .group import Axis, Count, Group
from .plan import ParallelPlan

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


import threading
from collections.abc import Iterator
from contextlib import contextmanager

_waiting: set[int] = set()
"""Threads within."""


@contextmanager
def rendezvous() -> Iterator[None]:
    """Around what makes a group within the process group; aborting that does not reach a group which is not yet."""
    thread = threading.get_ident()
    _waiting.add(thread)
    try:
        yield
    finally:
        _waiting.discard(thread)


def is_in_rendezvous() -> bool:
    """Whether a thread of this process waits in one."""
    return bool(_waiting)


Key = tuple[bool, tuple[int, ...]]
"""Of a group: whether weights are gathered on it, and its ranks."""
_made: weakref.WeakKeyDictionary[Any, dict[Key, ProcessGroup]] = weakref.WeakKeyDictionary()
"""The groups made so far, of each process group that holds all ranks; every rank has made the same ones."""
_ballots: weakref.WeakKeyDictionary[Any, ProcessGroup] = weakref.WeakKeyDictionary()
"""What `ballot` has given, likewise."""
_kept: weakref.WeakKeyDictionary[Any, dict[ParallelPlan, Mesh]] = weakref.WeakKeyDictionary()
"""What `mesh_for` has given, of each process group that holds all ranks."""


@dataclass(frozen=True)
class Mesh:
    """One rank's view of a plan: `mesh[Axis.ULYSSES]` is its group along that axis."""

    plan: ParallelPlan
    rank: int
    groups: Mapping[Axis, Group]
    voters: ProcessGroup | None = None
    """All its ranks, in a group on the CPU, of a mesh that `mesh_for` gave."""

    def __getitem__(self, axis: Axis) -> Group:
        return self.groups[axis]

    @property
    def sent(self) -> Count:
        """What this rank has sent over all groups so far."""
        counts = [group.count for group in self.groups.values()]
        return Count(sum(count.sent_bytes for count in counts), sum(count.calls for count in counts))


def members(plan: ParallelPlan, rank: int) -> dict[Axis, list[int]]:
    """The ranks along each axis through `rank`, as numbers 0 .. num_ranks - 1 of the plan."""
    branch, index = divmod(rank, plan.sequence)
    row, column = divmod(index, plan.ulysses)
    first = branch * plan.sequence
    return {
        Axis.CFG: [other * plan.sequence + index for other in range(plan.cfg)],
        Axis.ULYSSES: [first + row * plan.ulysses + other for other in range(plan.ulysses)],
        Axis.EXCHANGE: [first + other * plan.ulysses + column for other in range(plan.exchange)],
        Axis.SEQUENCE: [first + other for other in range(plan.sequence)],
        Axis.WEIGHTS: [rank // plan.weights * plan.weights + other for other in range(plan.weights)],
    }


def planned_mesh(plan: ParallelPlan, rank: int) -> Mesh:
    """The mesh as `rank` would see it, without any process: to reckon with, not to run on."""
    return Mesh(plan, rank, {axis: Group(ranks, ranks.index(rank)) for axis, ranks in members(plan, rank).items()})


def make_mesh(plan: ParallelPlan) -> Mesh:
    """Collective: make the plan's groups over the initialised process group; every rank calls this."""
    mesh = make_mesh_among(range(_world_size(plan)), plan)
    assert mesh is not None, "every rank is among all ranks"
    return mesh


def mesh_for(plan: ParallelPlan) -> Mesh:
    """Collective the first time: the plan's mesh, the same one for as long as the process group lives."""
    import torch.distributed as dist

    if _world_size(plan) == 1 and not dist.is_initialized():
        return make_mesh(plan)
    kept = _kept.setdefault(dist.group.WORLD, {})
    if plan not in kept:
        kept[plan] = replace(make_mesh(plan), voters=ballot())
    return kept[plan]


def is_current(mesh: Mesh) -> bool:
    """Whether `mesh_for` still gives this mesh, which it does until the process group is aborted and another made."""
    import torch.distributed as dist

    return dist.is_initialized() and _kept.get(dist.group.WORLD, {}).get(mesh.plan) is mesh


def everyone(mesh: Mesh) -> Group:
    """All ranks of a mesh over the whole process group."""
    import torch.distributed as dist

    return Group(range(mesh.plan.num_ranks), mesh.rank, dist.group.WORLD if mesh.plan.num_ranks > 1 else None)


def ballot() -> ProcessGroup:
    """Collective the first time: a group on the CPU, on which all ranks of the process group vote."""
    import torch.distributed as dist

    world = dist.group.WORLD
    if world not in _ballots:
        with rendezvous():
            _ballots[world] = cast("ProcessGroup", dist.new_group(backend="gloo"))
    return _ballots[world]


def make_mesh_among(ranks: Sequence[int], plan: ParallelPlan) -> Mesh | None:
    """Collective: the same over some of the ranks; every rank of the process group calls this, the others get None."""
    import torch.distributed as dist

    if len(ranks) != plan.num_ranks:
        raise ValueError(
            f"plan {plan} uses {plan.num_ranks} ranks, but {len(ranks)} were started; "
            "make the product of cfg, ulysses and ring or allgather equal to the number of ranks"
        )
    if plan.num_ranks == 1 and not dist.is_initialized():
        return planned_mesh(plan, 0)
    made = _made.setdefault(dist.group.WORLD, {})  # sharding again and again makes no more groups
    with rendezvous():
        for number in range(plan.num_ranks):  # torch asks every rank to make every group, in the same order
            for axis, numbers in members(plan, number).items():
                key = _key(axis, ranks, numbers)
                if len(numbers) > 1 and key not in made:
                    made[key] = cast("ProcessGroup", dist.new_group(list(key[1])))
        if dist.get_rank() in ranks and dist.get_backend() == "nccl":
            from .collectives import set_up

            set_up([group for (_, key), group in made.items() if dist.get_rank() in key])
    if dist.get_rank() not in ranks:
        return None
    own = list(ranks).index(dist.get_rank())
    groups: dict[Axis, Group] = {}
    for axis, numbers in members(plan, own).items():
        key = _key(axis, ranks, numbers)
        groups[axis] = Group(key[1], numbers.index(own), made.get(key))
    return Mesh(plan, own, groups)


def _key(axis: Axis, ranks: Sequence[int], numbers: Sequence[int]) -> Key:
    """Axes of the same ranks share a group, but weights have their own: a gather would wait behind an exchange."""
    return axis == Axis.WEIGHTS, tuple(ranks[each] for each in numbers)


def mesh_of(plan: ParallelPlan, device_mesh: DeviceMesh) -> Mesh:
    """Collective: our mesh over the whole of a torch DeviceMesh whose dims are named like the plan's axes."""
    names = device_mesh.mesh_dim_names or ()
    wanted = [name for name in ("cfg", "ring", "allgather", "ulysses") if name in names]
    sizes = {name: device_mesh.size(names.index(name)) for name in wanted}
    others = [name for name in ("cfg", "ring", "allgather", "ulysses") if name not in wanted]
    fits = all(getattr(plan, name) == sizes.get(name, 1) for name in (*wanted, *others))
    if len(wanted) != len(names) or not wanted or not fits:
        shape = tuple(device_mesh.shape)
        dims = dict(zip(names, shape, strict=True)) if names else f"{shape} without names"
        raise ValueError(
            f"plan {plan}: the device mesh has dims {dims}; name its dims cfg, ring or allgather, and ulysses, "
            "with the plan's degrees as sizes"
        )
    ordered = device_mesh.mesh.permute(*(names.index(name) for name in wanted)).flatten().tolist()
    if len(ordered) != _world_size(plan):
        raise ValueError(
            f"plan {plan}: the device mesh holds {len(ordered)} of {_world_size(plan)} ranks; "
            "give a mesh over all ranks, or none"
        )
    mesh = make_mesh_among(ordered, plan)
    assert mesh is not None, "every rank is among all ranks"
    return mesh


def _world_size(plan: ParallelPlan) -> int:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    if plan.num_ranks == 1:
        return 1
    raise ValueError(
        f"plan {plan} uses {plan.num_ranks} ranks, but this process has joined no process group; "
        f"start it with torchrun --nproc-per-node {plan.num_ranks} and call torch.distributed.init_process_group"
    )
