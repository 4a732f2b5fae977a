"""The process groups within the process group of all ranks: what each is for, and that each is made once.

Torch has every rank make every group, and so it is under torchrun. In a pool all ranks of a replica are in one process
group for good, and a job takes the first so many of them: there a group is made by its members alone, since the others
do not know of the job.
"""

import inspect
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _register_process_group, _unregister_process_group
from torch.distributed import ProcessGroup
from torch.distributed.distributed_c10d import _new_process_group_helper, _world

from .collectives import set_up
from .group import Axis
from .machine.deadline import or_end

# Longer than any wait that the pool allows: it knows more than a rank, and ends waits by aborting.
COLLECTIVE = timedelta(hours=6)
# For NCCL to connect ranks that are all there, and for their first collective: most of a minute where it loads its
# kernels at once for a new GPU (NVIDIA/nccl 1646).
CONNECT_S = 120.0


class Use(StrEnum):
    WORK = "work"
    WEIGHTS = "weights"  # of the same ranks as others may be: a gather would wait behind an exchange
    WAYS = "ways"  # from the first of two ranks to the second: what comes back would wait behind what is sent
    VOTES = "votes"  # on the CPU, whatever the device, where no kernel holds them up


Key = tuple[Use, tuple[int, ...]]


@dataclass
class _Within:
    """What was made within one process group."""

    device: torch.device | None = None  # of a pool's rank; None under torchrun
    num_at_work: int = 0  # how many ranks have the job that this rank works on; 0 for all
    # Those that this rank knows of; it need not be in them. Never the one within which they are: it would hold itself,
    # and peers hear that a group of gloo was aborted when it is let go of.
    made: dict[Key, ProcessGroup] = field(default_factory=dict)


# By the process group that holds all ranks.
_within: weakref.WeakKeyDictionary[Any, _Within] = weakref.WeakKeyDictionary()
_waiting: set[int] = set()  # threads in a rendezvous


def is_in_rendezvous() -> bool:
    """Whether a thread of this process waits in one."""
    return bool(_waiting)


def begin(device: torch.device) -> None:
    """A pool's rank, with this device, has joined the present process group."""
    _within[dist.group.WORLD] = _Within(device)


def work_among(num_ranks: int) -> None:
    """From now on a job has the first `num_ranks` ranks of the process group; that of one rank needs none."""
    if dist.is_initialized():
        _here().num_at_work = num_ranks


def num_at_work() -> int:
    return _here().num_at_work or dist.get_world_size()


def at_work() -> ProcessGroup:
    """Collective the first time: the group of all ranks at work; give it up after the job."""
    device = _here().device
    # Of ranks with GPUs the process group of all is one of sockets: NCCL connects groups within it.
    if device is None or (device.type != "cuda" and num_at_work() == dist.get_world_size()):
        return cast("ProcessGroup", dist.group.WORLD)
    return group_of(range(num_at_work()))


def ballot() -> ProcessGroup:
    """Collective the first time: the group on which all ranks at work vote."""
    return group_of(range(num_at_work()), Use.VOTES)


def group_of(ranks: Sequence[int], use: Use = Use.WORK) -> ProcessGroup:
    """Collective the first time: the group of these ranks for this use, or what torch gives ranks that are not in it.

    Under torchrun every rank calls this, in a pool each of these ranks.
    """
    key = (use, tuple(ranks))
    make([key])
    return _here().made[key]


def make(keys: Iterable[Key]) -> None:
    """Collective: make the groups that are not yet, all ranks in the same order."""
    within, made = _here(), list[ProcessGroup]()
    # Aborting the process group does not reach a group which is not yet: who waits here has to be ended.
    thread = threading.get_ident()
    _waiting.add(thread)
    try:
        for key in keys:
            if key not in within.made:
                within.made[key] = _new_group(key, within.device)
                if dist.get_rank() in key[1]:
                    made.append(within.made[key])
        nccl = [group for group in made if dist.get_backend(group) == "nccl"]
        with _bounded("the first collective over NCCL", within.device if nccl else None):
            set_up(nccl)
    finally:
        _waiting.discard(thread)


def connected() -> list[ProcessGroup]:
    """The groups of a pool's rank that NCCL connects."""
    within, own = _here(), dist.get_rank()
    made = list(within.made.items())  # another thread may make one
    return [group for (use, ranks), group in made if own in ranks and _is_on_accelerator(use, within.device)]


def _here() -> _Within:
    return _within.setdefault(dist.group.WORLD, _Within())


def _is_on_accelerator(use: Use, device: torch.device | None) -> bool:
    return device is not None and device.type == "cuda" and use is not Use.VOTES


def _new_group(key: Key, device: torch.device | None) -> ProcessGroup:
    use, ranks = key
    if device is None:
        is_sortable = "sort_ranks" in inspect.signature(dist.new_group).parameters  # from torch 2.13 on
        order: dict[str, Any] = {"sort_ranks": False} if is_sortable and list(ranks) != sorted(ranks) else {}
        return cast("ProcessGroup", dist.new_group(list(ranks), backend="gloo" if use is Use.VOTES else None, **order))
    own = dist.get_rank()
    if own not in ranks:
        return cast("ProcessGroup", dist.GroupMember.NON_GROUP_MEMBER)
    # torch's `new_group(use_local_synchronization=True)` names a group by how many its rank is in, and so differently
    # on ranks that are in more, which then never meet (`_hash_ranks_to_str`, torch 2.13); otherwise it asks all ranks
    _, store = _world.pg_map[cast("ProcessGroup", dist.group.WORLD)]
    name, is_on_accelerator = f"{use} {' '.join(map(str, ranks))}", _is_on_accelerator(use, device)
    if is_on_accelerator:
        # All are waited for as long as the job may last, before NCCL connects, which has a bound: a rank that compiles
        # for minutes is late, and nothing hangs.
        store.set(f"{name}: {own}", "here")
        store.wait([f"{name}: {rank}" for rank in ranks], COLLECTIVE)
    with _bounded("connecting ranks by NCCL", device if is_on_accelerator else None):
        made, _ = _new_process_group_helper(
            len(ranks),
            ranks.index(own),
            list(ranks),
            "nccl" if is_on_accelerator else "gloo",
            store,
            cast("Any", name),
            timeout=COLLECTIVE,
            device_id=device if is_on_accelerator else None,  # so that its members are connected now
        )
    assert not isinstance(made, int), "a member's"
    _world.pg_group_ranks[made] = {rank: index for index, rank in enumerate(ranks)}
    return made


def _bounded(what: str, device: torch.device | None) -> AbstractContextManager[None]:
    """Of a pool's rank with an accelerator, which others replace; a process of the user's is never ended."""
    return nullcontext() if device is None else or_end(what, limit_s=CONNECT_S)


# ---- names by which graphs ask for groups

_slots: list[weakref.ref[threading.Thread]] = []
_named: dict[str, weakref.ref[Any]] = {}
_naming = threading.Lock()


def name_of(axis: Axis) -> str:
    """The name by which graphs ask for a group along this axis, in this thread."""
    # One for each axis, whoever is in the group: torch's own names count groups, so that a graph would be of one group
    # alone, or would find another group of the same number. Threads that live at the same time have names of their
    # own, for each may have a mesh of its own.
    return f"latentloom {axis} {_slot()}"


def point(name: str, group: ProcessGroup) -> None:
    """From now on graphs that ask for this name find this group."""
    known = _named.get(name)
    if known is not None and known() is group:
        return  # as in nearly each of a forward's blocks
    with _naming:
        if name in _named:
            _unregister_process_group(cast("Any", name))
        _register_process_group(cast("Any", name), group)
        _named[name] = weakref.ref(group)  # peers hear that a group is gone when it is let go of


def forget_names() -> None:
    """No graph finds a group any more: those there are go."""
    with _naming:
        while _named:
            _unregister_process_group(cast("Any", _named.popitem()[0]))


def _slot() -> int:
    """A small number that no other living thread has."""
    own = threading.current_thread()
    with _naming:
        for number, ref in enumerate(_slots):
            if ref() is own:
                return number
        for number, ref in enumerate(_slots):
            other = ref()
            if other is None or not other.is_alive():
                _slots[number] = weakref.ref(own)
                return number
        _slots.append(weakref.ref(own))
        return len(_slots) - 1
