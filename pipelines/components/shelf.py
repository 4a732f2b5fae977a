"""What a process has loaded, each memory within its budget, and what of a model has no room for all of it."""

from __future__ import annotations

import gc
import logging
import math
import threading
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...parallel.machine.now import host_bytes
from ...parallel.mesh import Mesh
from ...parallel.ranks.heap import give_back_rest
from ..models.component_files import ComponentFiles, ModelFiles, inspect_model
from ..models.describe import fingerprint_of
from ..models.source import single_files
from ..values import Lora, Model
from .loans import ONE_RANK, Key, Loans, Use, condition_of, is_transformer, may_rest
from .memory import HOST_SHARE, Held, default_budget, expected_bytes, memory_limit, spare_bytes

if TYPE_CHECKING:
    from ..spreading.transformer import Handle
    from .prepared import Prepared
    from .resting import Resting

logger = logging.getLogger("latentloom")


@dataclass
class StoredComponent:
    component: Any
    num_bytes: int
    place: str  # the device it is on
    last_use: int
    loras: tuple[Lora, ...] = ()
    # Where this rank shares a transformer's weights with others: the mesh for which it is good, and the handle.
    share: tuple[Mesh, Handle] | None = None
    prepared: Prepared | None = None  # how a transformer is spread and compiled now
    resting: Resting | None = None  # where its device has no room for all of it
    working_bytes: int = 0  # what of the device its last use needed beside

    @property
    def device_bytes(self) -> int:
        """What it takes of its device, but for graphs."""
        return self.num_bytes if self.resting is None else self.resting.num_bytes

    @property
    def host_bytes(self) -> int:
        """What of it is pinned."""
        return 0 if self.resting is None else self.resting.host_bytes

    @property
    def graph_bytes(self) -> int:
        """What CUDA graphs hold of the device, beside the weights."""
        return 0 if self.prepared is None else self.prepared.num_bytes

    def unprepare(self) -> None:
        """As it was loaded."""
        if self.resting is not None:
            self.resting.end()
        if self.prepared is not None:
            self.prepared.end()
            self.prepared = None


class Shelf:
    """Loaded components by what describes them. Its lock is held by whoever changes what is there."""

    def __init__(self, budget_bytes: int | None) -> None:
        self._budget_bytes = budget_bytes
        self._entries: dict[Key, StoredComponent] = {}
        self._files: dict[tuple[str, str], ModelFiles] = {}
        # What memory ran out with: in uses that need so many bytes beside it, or more, it rests, and at most so many of
        # its blocks stay on the device.
        self._eased: dict[Key, tuple[int, float]] = {}
        self._num_ranks_here = 1
        self._lock = threading.RLock()  # held while components are loaded, never while somebody waits for a loan
        self._loans = Loans()

    def held(self) -> list[Held]:
        """What is here now and has weights; does not wait for a load under way."""
        return [
            Held(folder=key[0], component=key[2], device=entry.place, num_bytes=entry.device_bytes)
            for key, entry in list(self._entries.items())
            if hasattr(entry.component, "parameters")
        ]

    def share_host(self, num_ranks: int) -> None:
        """So many ranks, this one among them, load components into this machine's memory: each takes its part."""
        self._num_ranks_here = num_ranks

    def clear(self) -> None:
        """Forget everything, the models' files, too; memory is free once callers let go of what they hold."""
        with self._lock:
            for key in list(self._entries):
                self._drop(key)
            self._files.clear()
            self._eased.clear()

    def ease(self, model: Model, names: Sequence[str]) -> bool:
        """After memory ran out in spite of all that was reckoned: in uses that need as much beside them, or more, half
        as many blocks of these stay on the device, and none after that. Whether there was any to spare."""
        if not (model.device.startswith("cuda") or memory_limit()):
            return False
        use, found = Use(model, None, condition_of(model, ONE_RANK, "none")), False
        with self._lock:
            asked = {use.key(each.name): each for each in self._asked(model, names) if may_rest(each, use)}
            for key in asked.keys() & self._entries.keys():
                entry, (_, before) = self._entries[key], self._eased.get(key, (0, math.inf))
                if model.graphs == "on" and is_transformer(asked[key].name):  # which what rests has none of
                    continue
                if entry.resting is not None:
                    stayed = min(entry.resting.num_there, before)
                    most = stayed // 2 if before == math.inf else 0
                    found |= most < stayed
                elif not self._loans.is_lent(key):
                    self._drop(key)
                    most, found = math.inf, True
                else:
                    continue
                self._eased[key] = entry.working_bytes, most
            if not found:  # something else has taken it, which may be gone by the next use
                for key in asked:
                    self._eased.pop(key, None)
            self._release(model.device)
        return found

    def give_way(self) -> None:
        """Drop what may be dropped, for something else that this process loads: neither shares of weights nor loans."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if entry.share is None and not self._loans.is_lent(key):
                    self._drop(key)

    def drop_copies(self) -> None:
        """Of what this rank holds a share, and has whole as well, keep the share alone."""
        with self._lock:
            for key in [(*key[:-1], None) for key, entry in self._entries.items() if entry.share]:
                if key in self._entries and not self._loans.is_lent(key):
                    self._drop(key)

    @property
    def num_bytes(self) -> int:
        """What the components here take, all memories together."""
        return sum(entry.device_bytes for entry in list(self._entries.values()))

    def _make_room(self, place: str, num_bytes: int, keep: set[Key], working_bytes: int) -> None:
        """For components to be loaded, and what is then computed beside them."""
        budget = self._evict(place, num_bytes, keep, working_bytes)
        if num_bytes and self._used_bytes(place) + num_bytes > budget:
            needed = (self._used_bytes(place) + num_bytes) / 2**30
            logger.warning(
                "components need %.1f GiB on %s, more than its budget of %.1f", needed, place, budget / 2**30
            )

    def _make_host_room(self, num_bytes: int, contents: str, keep: set[Key]) -> bool:
        """For what is to be pinned, once for all ranks where they can share it: others that nobody uses now are no
        longer. Whether there is room now."""
        from ...parallel.streaming.pinned import shared_room

        num_bytes *= 1 if num_bytes <= shared_room(contents) else self._num_ranks_here
        pinned = {key: entry.host_bytes for key, entry in self._entries.items()}
        room = HOST_SHARE * host_bytes() - num_bytes - sum(pinned.values())
        for key in sorted(pinned.keys() - keep, key=lambda key: self._entries[key].last_use):
            if room < 0 < pinned[key] and not self._loans.is_lent(key):
                room += pinned[key]
                self._drop(key)
        return room >= 0

    def _evict(self, place: str, num_bytes: int, keep: set[Key], working_bytes: int) -> float:
        """Let go of what is used least, until so many bytes more are within the budget, which is given back."""
        # Graphs of what is kept hold what is computed beside it, or make way for that themselves.
        working_bytes -= sum(self._entries[key].graph_bytes for key in keep & self._entries.keys())
        budget = self._budget(place, working_bytes)
        candidates = [
            key
            for key, entry in self._entries.items()
            if entry.place == place and key not in keep and not entry.share and not self._loans.is_lent(key)
        ]
        candidates.sort(key=lambda key: self._entries[key].last_use)
        # Graphs of all, and blocks that rest beside their place, before weights of one: they are captured again in a
        # step and come again from memory, weights are read from a disk.
        for let_go in (self._forget_graphs, self._rest, self._drop):
            for key in candidates:
                if self._used_bytes(place) + num_bytes <= budget:
                    return budget
                let_go(key)
        return budget

    def _budget(self, place: str, working_bytes: float) -> float:
        """Bytes of a memory for components, beside so many for what is computed."""
        budget = self._budget_bytes
        if budget is None:
            budget = default_budget(place)
            if not place.startswith("cuda") and not memory_limit():
                budget /= self._num_ranks_here
        return budget - max(0, working_bytes - spare_bytes(place))

    def _used_bytes(self, place: str) -> int:
        held = [entry for entry in self._entries.values() if entry.place == place]
        pinned = sum(entry.host_bytes for entry in self._entries.values()) if place == "cpu" else 0
        return sum(entry.device_bytes + entry.graph_bytes for entry in held) + pinned

    def _rooms(self, use: Use, files: Iterable[ComponentFiles], keep: Set[Key]) -> dict[str, float]:
        """Of components that are used together, those that do not fit whole, and what of the device is for each.

        Small ones come whole first. What is there already stays as it is, but for what is known not to fit.
        """
        place, working_bytes = use.model.device, use.working_bytes
        if not (place.startswith("cuda") or memory_limit()):
            return {}
        left = self._budget(place, working_bytes)
        if self._budget_bytes is None:  # what is computed leaves some of its share
            left += max(0, spare_bytes(place) - working_bytes)
        ours = {use.key(each.name): each for each in files if may_rest(each, use)}
        for key, entry in self._entries.items():
            stays = key in keep or entry.share or self._loans.is_lent(key)
            if entry.place == place and stays and key not in ours:
                left -= entry.device_bytes + entry.graph_bytes
        sizes = {
            key: self._entries[key].num_bytes if key in self._entries else expected_bytes(each, use.model)
            for key, each in ours.items()
        }
        splits = use.mesh is not None and not any(is_transformer(each.name) for each in files)  # text encoders
        is_whole = {key: entry.resting is None for key, entry in self._entries.items()}
        found: dict[str, int] = {}
        for key in sorted(ours, key=lambda key: (not is_whole.get(key), sizes[key])):
            name, size = ours[key].name, sizes[key]
            is_known = splits or name in use.rests or self._eased_to(key, working_bytes) is not None
            if is_known or not is_whole.get(key, size <= left):
                found[name] = size
            else:
                left -= size
        return {name: left * size / sum(found.values()) for name, size in found.items()}

    def _eased_to(self, key: Key, working_bytes: int) -> float | None:
        """At most so many of its blocks stay beside so many bytes; None where memory never ran out there."""
        least, most = self._eased.get(key, (math.inf, math.inf))
        return most if working_bytes >= least else None

    def _rest(self, key: Key) -> None:
        entry = self._entries[key]
        if entry.resting is not None:
            entry.resting.end()
            self._release(entry.place)

    def _forget_graphs(self, key: Key) -> None:
        prepared = self._entries[key].prepared
        if prepared is not None:
            prepared.forget_graphs()

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key)
        if not self._loans.is_lent(key):
            entry.unprepare()
        if entry.resting is not None:  # lent to nobody else: what rests is used alone
            entry.resting.free()
        place, is_share = entry.place, entry.share is not None
        del entry
        if is_share:
            gc.collect()  # its hooks hold each other
        self._release(place)

    def _unprepare(self, keys: Sequence[Key]) -> None:
        with self._lock:
            for key in keys:
                if key in self._entries:
                    self._entries[key].unprepare()

    def _drop_shares(self, keep: set[Key]) -> None:
        """Forget the shares of other models and plans: whatever the budgets, so that all ranks do the same."""
        for key in [key for key, entry in self._entries.items() if entry.share and key not in keep]:
            self._drop(key)

    def _release(self, place: str) -> None:
        """Give memory back to the driver, which waits for the whole device: not while another thread computes on it.
        Torch itself does so when it finds no other. On a CPU small weights leave holes in the heap.
        """
        if place == "cpu":
            give_back_rest()
        if place.startswith("cuda") and not self._loans.are_others_at_work():
            import torch

            torch.cuda.empty_cache()

    def _asked(self, model: Model, names: Iterable[str]) -> list[ComponentFiles]:
        """The files of components by their names, but for those with a `?` that the model lacks. Raises `ValueError`
        for another that it lacks."""
        found = []
        for name in names:
            files = self._files_of(model).components.get(name.rstrip("?"))
            if files is not None:
                found.append(files)
            elif not name.endswith("?"):
                raise ValueError(f"model {model.source} has no {name}; it cannot do this step, choose another model")
        return found

    def _files_of(self, model: Model) -> ModelFiles:
        """The model's files, checked again before the first load: they may have changed since it was described."""
        key = (model.folder, model.fingerprint)
        if key not in self._files:
            files = inspect_model(Path(model.folder))
            found = fingerprint_of(files.fingerprint, single_files(model, files.components))
            if model.fingerprint not in ("", found):
                raise ValueError(f"the files of model {model.source} have changed since it was described; run again")
            self._files[key] = files
        return self._files[key]
