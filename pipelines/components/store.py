"""The component store: a process's loaded text encoders, transformers, VAEs, kept under a byte budget.

A component is what a model's `model_index.json` names. The store is keyed by the `Model`, a description: two nodes that
describe the same model use the same weights.
"""

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...parallel.group import Axis
from ...parallel.mesh import Mesh, is_current, mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.progress import SILENT, Progress, finish
from ...parallel.together import Readers, highest, start_agreeing, who_reads
from ...parallel.wording import worded
from ..models.component_files import ComponentFiles
from ..models.describe import check_engine, check_shareable
from ..models.source import single_files
from ..values import Model, StepCache
from . import tensorrt
from .loading import load_component, load_share, one_sentence
from .loans import ONE_RANK, Key, Use, condition_of, is_transformer, may_rest
from .memory import SMALL_BYTES, bytes_of, expected_bytes, is_quantized
from .prepared import Prepared
from .shelf import Shelf, StoredComponent


class ComponentStore(Shelf):
    """Loads components when first asked for, keeps them, and drops the least recently used beyond the budget.

    `budget_bytes` holds for each memory (host, each accelerator) by itself; None means 60 % of the machine's memory,
    divided by the ranks on it, and 85 % of an accelerator's, or less where what is computed needs more of it. So a
    component stays where it is until others need its room; then it is dropped, and read again from its files, which
    the system has mapped or cached: no copy of it is made on the host. What one call asks for is never dropped by it:
    a model beyond the budget is loaded with a warning. Nor are shares of weights, until shares of another model are
    loaded, which all ranks do together: a rank that dropped its own would leave the others waiting. Models that differ
    in their LoRAs share one transformer, which is re-fitted when it is loaded: use what `load` gave before the next
    `load`, from one thread at a time, or in any thread within `lent`.
    """

    def __init__(self, budget_bytes: int | None = None) -> None:
        super().__init__(budget_bytes)
        self._num_uses = 0
        # Called before anything is loaded: what else this process keeps loaded is to be dropped.
        self.make_way: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def lent(
        self,
        model: Model,
        names: Sequence[str],
        progress: Progress = SILENT,
        *,
        plan: ParallelPlan = ONE_RANK,
        step_cache: StepCache = "none",
        num_steps: int = 0,
        working_bytes: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """What `load` gives, as it gives it until the end, for so many steps of a denoise: within it no other thread
        changes a component. Collective with a plan of several ranks.

        Threads wait for each other where conditions differ, or one needs a transformer alone. A transformer whose use
        fails is prepared anew for the next.
        """
        # The modules themselves are shared by all threads, which is safe: in diffusers 0.42 and transformers 5.23 their
        # forwards set nothing on them (tests/bench/threads.py looks again), but for the VAE's, which gets a copy, and
        # the tokenizers (`building.one_call_at_a_time`). What does change them is ours: LoRAs are exchanged on a shared
        # transformer, step caches and sharding hang hooks on it.
        use, files = self._use(model, names, plan, step_cache, working_bytes)
        with self._loaned(use, files, progress.check) as use:
            try:
                readers = self._readers(use, files)
                gathers = use.mesh if use.mesh is not None and _gathers(model, use.mesh) else None
                parts = self._load(use, files, progress, readers=readers, gathers=gathers)
                entries = [self._entries[key] for each in files if (key := use.key(each.name)) in self._entries]
                for entry in entries:
                    if entry.prepared is not None:
                        entry.prepared.begin(num_steps)
                try:
                    yield parts
                finally:
                    from ...parallel.sharding.operator import leave_all

                    leave_all()
            except BaseException:
                # where hooks know of one use only, nobody knows in which state this one left them
                if any(use.is_alone(each.name) for each in files):
                    self._unprepare([use.key(each.name) for each in files])
                raise

    def load(
        self,
        model: Model,
        names: Sequence[str],
        progress: Progress = SILENT,
        *,
        plan: ParallelPlan = ONE_RANK,
        keep: Sequence[str] = (),
        working_bytes: int = 0,
    ) -> dict[str, Any]:
        """Components by name, on the model's device; a name ending in `?` may be absent. A scheduler is always
        new: it holds the state of one denoise. So is a VAE, but for its weights: it keeps frames between its steps.
        What is there of `keep` stays, beside what is asked for, and `working_bytes` of the device are left free.

        With a plan of several ranks, Collective the first time: a transformer is spread by it, and with `weights` over
        1 it is this rank's share until the process group is made anew; `handles` are theirs. It stays so,
        and compiled if the model is, until a load wants it otherwise. Raises `ValueError` naming the component and its
        folder.
        """
        use, files = self._use(model, names, plan, "none", working_bytes)
        return self._load(use, files, progress, keep=keep)

    def _use(
        self, model: Model, names: Sequence[str], plan: ParallelPlan, step_cache: StepCache, working_bytes: int
    ) -> tuple[Use, list[ComponentFiles]]:
        """Collective with a plan of several ranks of GPUs: what rests on one does on all, since what is whole is read,
        modulated and replayed together."""
        use = Use(model, _mesh(model, plan), condition_of(model, plan, step_cache), working_bytes)
        with self._lock:
            files = self._asked(model, names)
            rests = frozenset(self._rooms(use, files, set()))
        ours = [each.name for each in files if is_transformer(each.name)]
        if ours and use.mesh is not None and use.mesh.voters is not None and model.device.startswith("cuda"):
            found = highest(use.mesh, *(int(name in rests) for name in ours))
            rests |= {name for name, does in zip(ours, found, strict=True) if does}
        return dataclasses.replace(use, rests=rests), files

    @contextlib.contextmanager
    def _loaned(self, use: Use, files: Sequence[ComponentFiles], check: Callable[[], None]) -> Iterator[Use]:
        """Within it no other thread changes these. What began to rest while this one waited is asked for anew, alone:
        blocks that stream are in one forward at a time."""
        while True:
            with self._loans.of(use.wanted([each.name for each in files]), check):
                shared = {use.key(each.name): each.name for each in files if not use.is_alone(each.name)}
                rests = {shared[key] for key, entry in [*self._entries.items()] if key in shared and entry.resting}
                if not rests:
                    yield use
                    return
            use = dataclasses.replace(use, rests=use.rests | rests)

    def _load(
        self,
        use: Use,
        files: Sequence[ComponentFiles],
        progress: Progress,
        *,
        keep: Sequence[str] = (),
        readers: Readers | None = None,
        gathers: Mesh | None = None,
    ) -> dict[str, Any]:
        from ..denoising.schedulers import fresh
        from .resting import NO_WISH

        with self._lock:
            for key in [key for key, entry in self._entries.items() if entry.share and not is_current(entry.share[0])]:
                self._drop(key)  # of shares of weights the other holders may be gone
            kept = {use.key(name.rstrip("?")) for name in (*(each.name for each in files), *keep)}
            rooms, parts = self._rooms(use, files, kept), dict[str, Any]()
            for each in files:
                entry, denoises = self._get(use, each, progress, kept, readers), is_transformer(each.name)
                mesh = gathers if denoises or entry.resting is not None else None
                if entry.resting is not None:
                    room, needed = rooms[each.name], entry.num_bytes + entry.resting.least_bytes
                    if keeps := mesh is not None and not denoises:  # ranks hold a text encoder between them
                        needed = entry.resting.shared_bytes(mesh[Axis.SEQUENCE])
                    self._evict(entry.place, int(min(room, needed)) - entry.device_bytes, kept, use.working_bytes)
                    most = self._eased_to(use.key(each.name), use.working_bytes)
                    entry.resting.begin(room, mesh, most=most, keeps=keeps)
                elif mesh is not None:  # which the others wait to hear
                    start_agreeing(NO_WISH, None, mesh)
                parts[each.name] = copy.copy(entry.component) if each.name == "vae" else entry.component
                if entry.prepared is not None and entry.prepared.handle is not None:
                    parts.setdefault("handles", []).append(entry.prepared.handle)
                if each.kind == "scheduler":
                    parts[each.name] = fresh(entry.component)
            if use.working_bytes:  # also where all of them were there
                self._make_room(use.model.device, 0, kept, use.working_bytes)
            return parts

    def _get(
        self, use: Use, files: ComponentFiles, progress: Progress, keep: set[Key], readers: Readers | None
    ) -> StoredComponent:
        model, mesh, condition, key = use.model, use.mesh, use.condition, use.key(files.name)
        entry, denoises, must_rest = self._entries.get(key), is_transformer(files.name), files.name in use.rests
        if entry is not None and entry.prepared is not None and not entry.prepared.fits(condition, mesh):
            entry.unprepare()
        if denoises and (entry is None or entry.prepared is None):
            # before anything is loaded
            check_engine(condition.engine, device=model.device, quantization=model.quantization)
            if condition.engine == "tensorrt":
                tensorrt.check_built(model.device)
            if condition.graphs == "on" and must_rest:
                raise ValueError(
                    f"{model.device} has no room for all of {files.name}, and blocks that come from the host's memory "
                    "are not captured in CUDA graphs; set graphs to auto, or allow more memory"
                )
        if entry is not None and not self._fits(use, files, entry):
            entry.unprepare()
            self._drop(key)
            entry = None
        if entry is None:
            progress.phase(worded("loading {}", files.name), is_loading=True)
            self.make_way()
            place = model.device if files.kind == "model" else "cpu"
            if use.shares is not None and denoises:
                self._drop_shares(keep)
            num_bytes = expected_bytes(files, model, weights=mesh.plan.num_shares if mesh else 1)
            pins = True
            if must_rest:
                pins = self._make_host_room(num_bytes, use.contents(files.name), keep)
                num_bytes = 0  # as many of its blocks come as others leave room for
            self._make_room(place, num_bytes, keep, use.working_bytes if place == model.device else 0)
            entry = self._entries[key] = self._new_entry(use, files, place, readers, pins=pins)
            finish(place)  # who uses it next may do so on another stream
        is_changed = mesh is not None or condition.engine != "eager" or condition.graphs != "off"
        if denoises and entry.prepared is None and is_changed:
            share = entry.share[1] if entry.share else None
            rests = entry.resting is not None
            entry.unprepare()  # blocks that stream are wrapped last
            entry.prepared = Prepared(entry.component, condition, mesh, share=share, rests=rests)
        self._num_uses += 1
        entry.last_use, entry.working_bytes = self._num_uses, use.working_bytes
        return entry

    def _readers(self, use: Use, files: Sequence[ComponentFiles]) -> Readers | None:
        """Collective if this may be: with whom this rank reads the transformers that it lacks."""
        model, mesh = use.model, use.mesh
        if mesh is None or not _reads_together(model, mesh):
            return None
        wanted = [each.name for each in files if is_transformer(each.name)]
        if use.rests.intersection(wanted):  # on all ranks: the host's memory has them for all
            return None
        lacking = [name for name in wanted if use.key(name) not in self._entries]
        # also where this rank lacks nothing: the others wait for its answer
        return who_reads([(model.fingerprint, model.dtype, model.quantization, *lacking)] if lacking else [], mesh)

    def _new_entry(
        self, use: Use, files: ComponentFiles, place: str, readers: Readers | None, *, pins: bool
    ) -> StoredComponent:
        from ..spreading.transformer import leave_padding_out
        from . import lora

        model, denoises = use.model, is_transformer(files.name)
        model_files, rests = self._files_of(model), files.name in use.rests
        share, resting = None, None
        asked: dict[str, Any] = {
            "dtype": model.dtype,
            "device": place,
            "checkpoint": single_files(model, model_files.components).get(files.name),
            "quantization": model.quantization if is_quantized(files.name) else "none",
        }
        if use.mesh is not None and use.shares is not None and denoises:
            num_alike = sum(map(is_transformer, model_files.components))
            beside = {"working_bytes": use.working_bytes, "num_alike": num_alike}
            component, handle = load_share(files, use.mesh, **asked, **beside)
            share = use.mesh, handle
        else:
            component = load_component(files, readers=readers if denoises else None, rests=rests, **asked)
        if files.kind != "model":
            return StoredComponent(component, SMALL_BYTES, "cpu", 0)
        if model.loras:
            lora.fit(component, files.name, loras=model.loras, pipeline=model_files.pipeline)
        num_bytes = bytes_of(component, is_share=share is not None)
        with one_sentence(files, None):
            if rests:
                from .resting import Resting

                resting = Resting(component, files.name, place, key=use.contents(files.name), pins=pins)
            elif share is None:
                component.to(place)
        if denoises and share is None:
            leave_padding_out(component)
        return StoredComponent(component, num_bytes, place, 0, model.loras, share, resting=resting)

    def _fits(self, use: Use, files: ComponentFiles, entry: StoredComponent) -> bool:
        """Whether a kept component will do; it carries the model's LoRAs then."""
        from . import lora

        model = use.model
        if entry.resting is None and files.name in use.rests:
            return False  # it has no room whole any more
        if entry.resting is not None and not may_rest(files, use):
            return False  # it is wanted for an engine that takes no blocks that rest
        if files.kind != "model" or entry.loras == model.loras or files.name not in lora.TAKERS:
            return True
        if entry.resting is not None and entry.resting.host_bytes and entry.resting.key != use.contents(files.name):
            return False  # the old pages go with the last of its blocks
        if not is_transformer(files.name) or model.quantization != "none":
            return False
        try:
            if entry.resting is not None:
                entry.unprepare()
            lora.refit(entry.component, files.name, loras=model.loras, pipeline=self._files_of(model).pipeline)
            if entry.resting is not None:
                entry.resting.refitted(use.contents(files.name))
        except BaseException:
            self._drop(use.key(files.name))  # it may carry half of them
            raise
        entry.loras = model.loras
        return True


@functools.cache
def store() -> ComponentStore:
    """This process's store."""
    return ComponentStore()


def _mesh(model: Model, plan: ParallelPlan) -> Mesh | None:
    """Collective the first time: the mesh of a plan of several ranks."""
    if plan.num_ranks == 1:
        return None
    if plan.num_shares > 1:
        check_shareable(model, plan)
    return mesh_for(plan)


def _reads_together(model: Model, mesh: Mesh) -> bool:
    """Whether ranks that lack the same weights gather them from each other: those of GPUs, between which bytes are
    quicker than from the host. Weights that are shared are read in shares anyway."""
    between = [group for group in mesh.groups.values() if group.size > 1]
    return mesh.plan.num_shares == 1 and model.device.startswith("cuda") and all(group.packs for group in between)


def _gathers(model: Model, mesh: Mesh) -> bool:
    """Whether ranks that share tokens bring shares of the blocks that rest, and gather them from each other."""
    return mesh[Axis.SEQUENCE].size > 1 and _reads_together(model, mesh)
