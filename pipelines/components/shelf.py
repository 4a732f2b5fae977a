"""What a process has loaded, each memory within its budget, and what of a model has no room for all of it."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...parallel.mesh import Mesh
from ...parallel.ranks.heap import give_back_rest
from ..models.component_files import ModelFiles, inspect_model
from ..models.describe import fingerprint_of
from ..models.source import single_files
from ..values import Lora, Model
from .loans import ONE_RANK, Loans, Use, condition_of, is_transformer, may_rest
from .memory import Held, default_budget, expected_bytes, memory_limit, spare_bytes

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

    @property
    def device_bytes(self) -> int:
        """What it takes of its device, but for graphs."""
        return self.num_bytes if self.resting is None else self.resting.num_bytes

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
        self._entries: dict[tuple[Any, ...], StoredComponent] = {}
        self._files: dict[tuple[str, str], ModelFiles] = {}
        self._crowded: set[tuple[Any, ...]] = set()  # what was there whole when memory ran out
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

    def ease(self, model: Model, names: Sequence[str]) -> bool:
        """After memory ran out in spite of all that was reckoned: keep fewer blocks of these on the device from now on.
        Whether there was any to spare."""
        if not (model.device.startswith("cuda") or memory_limit()):
            return False
        use, found = Use(model, None, condition_of(model, ONE_RANK, "none")), False
        with self._lock:
            for name in (name.rstrip("?") for name in names):
                entry = self._entries.get(use.key(name))
                if entry is None or not may_rest(self._files_of(model).components[name], use):
                    continue
                if model.graphs == "on" and name.startswith("transformer"):  # which what rests has none of
                    continue
                if entry.resting is not None:
                    found = entry.resting.ease() or found
                elif not self._loans.is_lent(use.key(name)):
                    self._crowded.add(use.key(name))
                    self._drop(use.key(name))
                    found = True
            if not found:  # the next use may be a smaller one
                for key in map(use.key, (name.rstrip("?") for name in names)):
                    self._crowded.discard(key)
                    if key in self._entries and self._entries[key].resting and not self._loans.is_lent(key):
                        self._drop(key)
            self._release(model.device)
        return found

    def give_way(self) -> None:
        """Drop what may be dropped, for something else that this process loads: neither shares of weights nor loans."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if entry.share is None and not self._loans.is_lent(key):
                    self._drop(key)

    @property
    def num_bytes(self) -> int:
        """What the components here take, all memories together."""
        return sum(entry.device_bytes for entry in list(self._entries.values()))

    def _make_room(self, place: str, num_bytes: int, keep: set[tuple[Any, ...]], working_bytes: int) -> None:
        """For components to be loaded, and what is then computed beside them."""
        budget = self._evict(place, num_bytes, keep, working_bytes)
        if num_bytes and self._used_bytes(place) + num_bytes > budget:
            needed = (self._used_bytes(place) + num_bytes) / 2**30
            logger.warning(
                "components need %.1f GiB on %s, more than its budget of %.1f", needed, place, budget / 2**30
            )

    def _make_host_room(self, num_bytes: int, keep: set[tuple[Any, ...]]) -> None:
        """For what is to be pinned: others that nobody uses now are no longer."""
        resting = {key: entry for key, entry in self._entries.items() if entry.resting and entry.resting.host_bytes}
        for key in sorted(resting.keys() - keep, key=lambda key: resting[key].last_use):
            pinned = sum(entry.resting.host_bytes for entry in self._entries.values() if entry.resting)
            if pinned + num_bytes <= default_budget("cpu"):
                return
            if not self._loans.is_lent(key):
                self._drop(key)

    def _evict(self, place: str, num_bytes: int, keep: set[tuple[Any, ...]], working_bytes: int) -> float:
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
        pinned = [entry.resting.host_bytes for entry in self._entries.values() if entry.resting and place == "cpu"]
        return sum(entry.device_bytes + entry.graph_bytes for entry in held) + sum(pinned)

    def _rooms_of(
        self, use: Use, names: Sequence[str], keep: set[tuple[Any, ...]], working_bytes: int
    ) -> dict[str, float]:
        """Which of these have no room for all of them, and what of the device is for each that has not."""
        model = use.model
        if not (model.device.startswith("cuda") or memory_limit()):
            return {}
        held = self._files_of(model).components
        keys = {use.key(name): name for name in names if name in held and may_rest(held[name], use)}
        sizes = {
            key: self._entries[key].num_bytes if key in self._entries else expected_bytes(held[name], model)
            for key, name in keys.items()
        }
        splits = use.mesh is not None and not any(map(is_transformer, names))  # ranks hold text encoders between them
        known = {key for key, name in keys.items() if splits or name in use.rests or key in self._crowded}
        rooms = self._rooms(model.device, sizes, rests=known, keep=keep, working_bytes=working_bytes)
        return {keys[key]: room for key, room in rooms.items()}

    def _rooms(
        self,
        place: str,
        sizes: Mapping[tuple[Any, ...], int],
        *,
        rests: Set[tuple[Any, ...]],
        keep: Set[tuple[Any, ...]],
        working_bytes: int,
    ) -> dict[tuple[Any, ...], float]:
        """Of components that are used together, those that do not fit whole, and what of the device is for each.

        Small ones come whole first. `sizes` are those of whole ones; what is there already stays as it is, and those
        of `rests` are known not to fit.
        """
        left = self._budget(place, working_bytes)
        if self._budget_bytes is None:  # what is computed leaves some of its share
            left += max(0, spare_bytes(place) - working_bytes)
        for key, entry in self._entries.items():
            stays = key in keep or entry.share or self._loans.is_lent(key)
            if entry.place == place and stays and key not in sizes:
                left -= entry.device_bytes + entry.graph_bytes
        there = {key: self._entries[key].resting is not None for key in sizes if key in self._entries}
        found: dict[tuple[Any, ...], int] = {}
        for key, size in sorted(sizes.items(), key=lambda item: (there.get(item[0], True), item[1])):
            if key in rests or there.get(key, size > left):
                found[key] = size
            else:
                left -= size
        return {key: left * size / sum(found.values()) for key, size in found.items()}

    def _rest(self, key: tuple[Any, ...]) -> None:
        entry = self._entries[key]
        if entry.resting is not None:
            entry.resting.end()
            self._release(entry.place)

    def _forget_graphs(self, key: tuple[Any, ...]) -> None:
        prepared = self._entries[key].prepared
        if prepared is not None:
            prepared.forget_graphs()

    def _drop(self, key: tuple[Any, ...]) -> None:
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

    def _unprepare(self, keys: Sequence[tuple[Any, ...]]) -> None:
        with self._lock:
            for key in keys:
                if key in self._entries:
                    self._entries[key].unprepare()

    def _drop_shares(self, keep: set[tuple[Any, ...]]) -> None:
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
