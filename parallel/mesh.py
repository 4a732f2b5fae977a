"""The mesh: which ranks work together along which axis of a plan.

Ranks are numbered with ulysses innermost, then ring or allgather, then layers, then cfg: neighbours share the heavy
exchange.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .group import Axis, Count, Group
from .plan import EXCHANGES, ParallelPlan

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

    from .process_groups import Use

# The axes of a mesh of torch's that a plan can be read from, outermost first.
DIMS = ("cfg", "layers", *EXCHANGES, "ulysses")
DIMS_TOLD = f"cfg, layers, {' or '.join(EXCHANGES)}, and ulysses"

# What `mesh_for` has given, of each process group that holds all ranks.
_kept: weakref.WeakKeyDictionary[Any, dict[ParallelPlan, Mesh]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Mesh:
    """One rank's view of a plan: `mesh[Axis.ULYSSES]` is its group along that axis."""

    plan: ParallelPlan
    rank: int
    groups: Mapping[Axis, Group]
    # Of two ranks along the layers axis, by their indices: what the first sends to the second, and nothing else. NCCL
    # runs what one group is asked for in order, and what comes back would wait behind what is sent.
    ways: Mapping[tuple[int, int], Group] = field(default_factory=dict[tuple[int, int], Group])
    kernels: set[str] = field(default_factory=set[str], compare=False)  # the names of those that attended over it
    voters: ProcessGroup | None = None  # all its ranks, in a group on the CPU, of a mesh that `mesh_for` gave

    def __getitem__(self, axis: Axis) -> Group:
        return self.groups[axis]

    @property
    def sent(self) -> Count:
        """What this rank has sent over all groups so far."""
        counts = [group.count for group in self.groups.values()]
        return Count(sum(count.sent_bytes for count in counts), sum(count.calls for count in counts))


def members(plan: ParallelPlan, rank: int) -> dict[Axis, list[int]]:
    """The ranks along each axis through `rank`, as numbers 0 .. num_ranks - 1 of the plan."""
    branch, within = divmod(rank, plan.branch)
    section, index = divmod(within, plan.sequence)
    row, column = divmod(index, plan.ulysses)
    first = branch * plan.branch + section * plan.sequence
    return {
        Axis.CFG: [other * plan.branch + within for other in range(plan.cfg)],
        Axis.LAYERS: [branch * plan.branch + other * plan.sequence + index for other in range(plan.layers)],
        Axis.ULYSSES: [first + row * plan.ulysses + other for other in range(plan.ulysses)],
        Axis.EXCHANGE: [first + other * plan.ulysses + column for other in range(plan.exchange)],
        Axis.SEQUENCE: [first + other for other in range(plan.sequence)],
        Axis.WEIGHTS: [rank // plan.weights * plan.weights + other for other in range(plan.weights)],
    }


def planned_mesh(plan: ParallelPlan, rank: int) -> Mesh:
    """The mesh as `rank` would see it, without any process: to reckon with, not to run on."""
    return Mesh(plan, rank, {axis: Group(ranks, ranks.index(rank)) for axis, ranks in members(plan, rank).items()})


def make_mesh(plan: ParallelPlan) -> Mesh:
    """Collective: make the plan's groups over all ranks at work; under torchrun those are all there are."""
    mesh = make_mesh_among(range(_world_size(plan)), plan)
    assert mesh is not None, "every rank is among all ranks"
    return mesh


def mesh_for(plan: ParallelPlan) -> Mesh:
    """Collective the first time: the plan's mesh, the same one for as long as the process group lives."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return make_mesh(plan)
    kept = _kept.setdefault(dist.group.WORLD, {})  # gone with the process group: its groups would be of no use
    if (mesh := kept.get(plan)) is None:
        from .process_groups import ballot

        mesh = kept[plan] = replace(make_mesh(plan), voters=ballot())
    return mesh


def is_current(mesh: Mesh) -> bool:
    """Whether `mesh_for` still gives this mesh, which it does until the process group is aborted and another made."""
    import torch.distributed as dist

    return dist.is_initialized() and _kept.get(dist.group.WORLD, {}).get(mesh.plan) is mesh


def everyone(mesh: Mesh) -> Group:
    """Collective the first time: all ranks of a mesh that `mesh_for` gave."""
    if mesh.plan.num_ranks == 1:
        return Group((0,), 0)
    from .process_groups import at_work

    return Group(range(mesh.plan.num_ranks), mesh.rank, at_work())


def all_ranks() -> Group:
    """Collective the first time: all ranks at work; this process alone, where it has joined no process group."""
    import torch.distributed as dist

    from .process_groups import at_work, num_at_work

    if not dist.is_initialized() or num_at_work() == 1:
        return Group((0,), 0)
    return Group(range(num_at_work()), dist.get_rank(), at_work())


def gatherers(mesh: Mesh) -> Group:
    """Collective the first time: the ranks that share tokens with this one, of a mesh that `mesh_for` gave, in a group
    for weights. They run the same blocks in the same order; branches of guidance may skip different ones."""
    from .process_groups import Use, group_of, make

    rows = (members(mesh.plan, number)[Axis.SEQUENCE] for number in range(mesh.plan.num_ranks))
    make(dict.fromkeys((Use.WEIGHTS, tuple(row)) for row in rows))
    own = mesh[Axis.SEQUENCE]
    return Group(own.ranks, own.index, group_of(own.ranks, Use.WEIGHTS))


def make_mesh_among(ranks: Sequence[int], plan: ParallelPlan) -> Mesh | None:
    """Collective: the same over some of the ranks; under torchrun every rank calls this, and the others get None."""
    import torch.distributed as dist

    if len(ranks) != plan.num_ranks:
        raise ValueError(
            f"plan {plan} uses {plan.num_ranks} ranks, but {len(ranks)} were started; "
            f"make the product of cfg, layers, ulysses and {' or '.join(EXCHANGES)} equal to the number of ranks"
        )
    if plan.num_ranks == 1 and not dist.is_initialized():
        return planned_mesh(plan, 0)
    from . import process_groups

    # All groups of all ranks, in one order, whoever is in them: torch has every rank make every group.
    keys = [_key(axis, ranks, each) for number in range(plan.num_ranks) for axis, each in members(plan, number).items()]
    ways = [(process_groups.Use.WAYS, each) for number in range(plan.num_ranks) for each in _ways(plan, ranks, number)]
    process_groups.make([key for key in keys if len(key[1]) > 1] + ways)
    if dist.get_rank() not in ranks:
        return None
    own = list(ranks).index(dist.get_rank())
    found: dict[Axis, Group] = {}
    for axis, numbers in members(plan, own).items():
        use, among = _key(axis, ranks, numbers)
        found[axis] = Group(among, numbers.index(own), process_groups.group_of(among, use) if len(among) > 1 else None)
    line = found[Axis.LAYERS]
    pairs = {
        pair: Group(each, pair.index(line.index), process_groups.group_of(each, process_groups.Use.WAYS), line.count)
        for each, pair in _ways(plan, ranks, own).items()
        if line.index in pair
    }
    return Mesh(plan, own, found, pairs)


def _ways(plan: ParallelPlan, ranks: Sequence[int], number: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Every two ranks along the layers axis through the plan's rank of that number, and their indices on it."""
    line = members(plan, number)[Axis.LAYERS]
    return {(ranks[line[i]], ranks[line[j]]): (i, j) for i in range(len(line)) for j in range(len(line)) if i != j}


def _key(axis: Axis, ranks: Sequence[int], numbers: Sequence[int]) -> tuple[Use, tuple[int, ...]]:
    # Axes of the same ranks share a group, which costs memory and time to connect. Weights have their own: NCCL runs
    # what one group is asked for in order, and a gather ahead would wait behind an exchange.
    from .process_groups import Use

    return Use.WEIGHTS if axis == Axis.WEIGHTS else Use.WORK, tuple(ranks[each] for each in numbers)


def mesh_of(plan: ParallelPlan, device_mesh: DeviceMesh) -> Mesh:
    """Collective: our mesh over the whole of a torch DeviceMesh whose dims are named like the plan's axes; others have
    size 1."""
    names = device_mesh.mesh_dim_names or ()
    wanted = [name for name in DIMS if name in names]
    sizes = {name: device_mesh.size(names.index(name)) for name in wanted}
    others = [name for name in DIMS if name not in wanted]
    fits = all(getattr(plan, name) == sizes.get(name, 1) for name in (*wanted, *others))
    more = [name for name in names if name not in wanted]
    if any(device_mesh.size(names.index(name)) > 1 for name in more) or not wanted or not fits:
        shape = tuple(device_mesh.shape)
        dims = dict(zip(names, shape, strict=True)) if names else f"{shape} without names"
        raise ValueError(
            f"plan {plan}: the device mesh has dims {dims}; name its dims {DIMS_TOLD}, "
            "with the plan's degrees as sizes, and leave no other dim larger than 1"
        )
    ordered = device_mesh.mesh.permute(*(names.index(name) for name in (*wanted, *more))).flatten().tolist()
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
        from .process_groups import num_at_work

        return num_at_work()
    if plan.num_ranks == 1:
        return 1
    raise ValueError(
        f"plan {plan} uses {plan.num_ranks} ranks, but this process has joined no process group; "
        f"start it with torchrun --nproc-per-node {plan.num_ranks} and call torch.distributed.init_process_group"
    )
