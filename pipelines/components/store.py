"""The component store: a process's loaded text encoders, transformers, VAEs, kept under a byte budget.

A component is what a model's `model_index.json` names. The store is keyed by the `Model`, a description: two nodes that
describe the same model use the same weights.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...parallel.mesh import Mesh, mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.progress import SILENT, Progress
from ...parallel.together import Readers, who_reads
from ...parallel.wording import worded
from ..models.component_files import ComponentFiles, ModelFiles, inspect_model
from ..models.describe import fingerprint_of
from ..models.packed.experts import single_files
from ..spreading.measured import finish
from ..values import Model, StepCache
from .loading import load_component, one_sentence
from .loans import unshared
from .memory import (
    SMALL_BYTES,
    bytes_of,
    expected_bytes,
    is_quantized,
    tensor_bytes,
)
from .prepared import ONE_RANK, Condition, Prepared, check_engine_here, condition_of
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
        self._files: dict[tuple[str, str], ModelFiles] = {}
        self._num_uses = 0
        self.make_way: Callable[[], None] = lambda: None
        """Called before anything is loaded: what else this process keeps loaded is to be dropped."""

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

        The modules themselves are shared by all threads, which is safe: in diffusers 0.42 and transformers 5.23 their
        forwards set nothing on them (tests/bench/threads.py looks again), but for the VAE's, which gets a copy, and
        the tokenizers (see prompt.py). What does change them is ours: LoRAs are exchanged on a shared transformer,
        step caches and sharding hang hooks on it. So threads wait for each other where conditions differ, or one needs
        a transformer alone. A transformer whose use fails is prepared anew for the next.
        """
        mesh, condition = _mesh(model, plan), condition_of(model, plan, step_cache)
        keys = [self._key(model, name.rstrip("?"), mesh) for name in names]
        with self._loans.of(self._wanted(model, names, mesh, condition), progress.check):
            try:
                parts = self.load(
                    model,
                    names,
                    progress,
                    plan=plan,
                    step_cache=step_cache,
                    working_bytes=working_bytes,
                    readers=self._readers(model, names, mesh),
                )
                for prepared in [self._entries[key].prepared for key in keys if key in self._entries]:
                    if prepared is not None:
                        prepared.begin(num_steps)
                try:
                    yield parts
                finally:
                    from ...parallel.sharding.operator import leave_all

                    leave_all()
            except BaseException:
                if condition.is_alone:
                    self._unprepare(keys)
                raise

    def load(
        self,
        model: Model,
        names: Sequence[str],
        progress: Progress = SILENT,
        *,
        plan: ParallelPlan = ONE_RANK,
        step_cache: StepCache = "none",
        keep: Sequence[str] = (),
        working_bytes: int = 0,
        readers: Readers | None = None,
    ) -> dict[str, Any]:
        """Components by name, on the model's device; a name ending in `?` may be absent. A scheduler is always
        new: it holds the state of one denoise. So is a VAE, but for its weights: it keeps frames between its steps.
        What is there of `keep` stays, beside what is asked for, and `working_bytes` of the device are left free.

        With a plan of several ranks, Collective the first time: a transformer is spread by it, and with `weights` over
        1 it is this rank's share until the process group is made anew; `handle` is the last one's handle. It stays so,
        and compiled if the model is, until a load wants it otherwise. Raises `ValueError` naming the component and its
        folder.
        """
        mesh = _mesh(model, plan)
        condition = condition_of(model, plan, step_cache)
        from ..denoising.schedulers import fresh

        with self._lock:
            self._drop_stale()
            kept = {self._key(model, name.rstrip("?"), mesh) for name in (*names, *keep)}
            parts = {}
            for name in names:
                files = self._files_of(model).components.get(name.rstrip("?"))
                if files is not None:
                    entry = self._get(
                        model,
                        files,
                        progress=progress,
                        keep=kept,
                        mesh=mesh,
                        condition=condition,
                        working_bytes=working_bytes,
                        readers=readers,
                    )
                    parts[files.name] = copy.copy(entry.component) if files.name == "vae" else entry.component
                    if entry.prepared is not None and entry.prepared.handle is not None:
                        parts["handle"] = entry.prepared.handle
                    if files.kind == "scheduler":
                        parts[files.name] = fresh(entry.component)
                elif not name.endswith("?"):
                    raise ValueError(
                        f"model {model.source} has no {name}; it cannot do this step, choose another model"
                    )
            if working_bytes:  # also where all of them were there
                self._make_room(model.device, 0, kept, working_bytes)
            return parts

    def clear(self) -> None:
        """Forget the models' files, too."""
        with self._lock:
            super().clear()
            self._files.clear()

    def _wanted(
        self, model: Model, names: Sequence[str], mesh: Mesh | None, condition: Condition
    ) -> dict[Hashable, Hashable]:
        """In which condition these components are wanted."""
        from .lora import takes_loras

        wanted: dict[Hashable, Hashable] = {}
        for name in (name.rstrip("?") for name in names):
            key = self._key(model, name, mesh)
            if _is_transformer(name):
                wanted[key] = unshared() if condition.is_alone else condition
            else:
                wanted[key] = Condition(loras=model.loras if takes_loras(name) else ())
        if model.is_compiled and any(map(_is_transformer, names)):
            wanted["torch.compile"] = (
                unshared()
            )  # it promises nothing of threads: its flags of tracing are the process's
        return wanted

    def _get(
        self,
        model: Model,
        files: ComponentFiles,
        *,
        progress: Progress,
        keep: set[tuple[Any, ...]],
        mesh: Mesh | None,
        condition: Condition,
        working_bytes: int,
        readers: Readers | None,
    ) -> StoredComponent:
        key = self._key(model, files.name, mesh)
        entry = self._entries.get(key)
        if entry is not None and entry.prepared is not None and not entry.prepared.fits(condition, mesh):
            entry.unprepare()
        if _is_transformer(files.name) and (entry is None or entry.prepared is None):
            check_engine_here(model, condition.engine)  # before anything is loaded
        if entry is not None and not self._fit_loras(model, files, entry):
            self._drop(key)
            entry = None
        if entry is None:
            progress.phase(worded("loading {}", files.name), is_loading=True)
            self.make_way()
            place = model.device if files.kind == "model" else "cpu"
            if _shares(mesh) and _is_transformer(files.name):
                self._drop_shares(keep)
            num_bytes = expected_bytes(files, model, weights=mesh.plan.weights if mesh else 1)
            self._make_room(place, num_bytes, keep, working_bytes if place == model.device else 0)
            entry = self._entries[key] = self._new_entry(model, files, place, mesh, readers)
            finish(place)  # who uses it next may do so on another stream
        if (
            _is_transformer(files.name)
            and entry.prepared is None
            and (mesh is not None or condition.engine != "eager" or condition.is_captured)
        ):
            share = entry.share[1] if entry.share else None
            entry.prepared = Prepared(entry.component, condition, mesh, share=share)
        self._num_uses += 1
        entry.last_use = self._num_uses
        return entry

    def _readers(self, model: Model, names: Sequence[str], mesh: Mesh | None) -> Readers | None:
        """Collective if this may be: with whom this rank reads the transformers that it lacks."""
        if mesh is None or not _reads_together(model, mesh):
            return None
        held = self._files_of(model).components
        wanted = [name.rstrip("?") for name in names if _is_transformer(name) and name.rstrip("?") in held]
        lacking = [name for name in wanted if self._key(model, name, mesh) not in self._entries]
        return who_reads([(model.fingerprint, model.dtype, model.quantization, *lacking)] if lacking else [], mesh)

    def _new_entry(
        self, model: Model, files: ComponentFiles, place: str, mesh: Mesh | None, readers: Readers | None
    ) -> StoredComponent:
        from ..spreading.transformer import leave_padding_out
        from . import lora

        is_transformer = _is_transformer(files.name)
        if mesh is not None and mesh.plan.weights > 1 and is_transformer:
            return _new_share(model, files, mesh)
        component = load_component(
            files,
            dtype=model.dtype,
            device=place,
            checkpoint=single_files(model, self._files_of(model).components).get(files.name),
            quantization=model.quantization if is_quantized(files.name) else "none",
            readers=readers if is_transformer else None,
        )
        if files.kind != "model":
            return StoredComponent(component, SMALL_BYTES, "cpu", 0)
        if model.loras:
            lora.fit(component, files.name, loras=model.loras, pipeline=self._files_of(model).pipeline)
        with one_sentence(files, None):
            component.to(place)
        if is_transformer:
            leave_padding_out(component)
        return StoredComponent(component, bytes_of(component), place, 0, model.loras)

    def _fit_loras(self, model: Model, files: ComponentFiles, entry: StoredComponent) -> bool:
        """Make a kept component carry the model's LoRAs; False when it has to be loaded again."""
        from . import lora

        if files.kind != "model" or entry.loras == model.loras:
            return True
        if not lora.takes_loras(files.name):
            return True
        if not _is_transformer(files.name) or model.quantization != "none":
            return False
        try:
            lora.refit(entry.component, files.name, loras=model.loras, pipeline=self._files_of(model).pipeline)
        except BaseException:
            self._drop(self._key(model, files.name))  # it may carry half of them
            raise
        entry.loras = model.loras
        return True

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

    def _key(self, model: Model, name: str, mesh: Mesh | None = None) -> tuple[Any, ...]:
        quantization = model.quantization if is_quantized(name) else "none"
        shares = (_shares(mesh),) if _is_transformer(name) else ()
        return (model.folder, model.fingerprint, name, model.dtype, model.device, quantization, *shares)


@functools.cache
def store() -> ComponentStore:
    """This process's store."""
    return ComponentStore()


def _is_transformer(name: str) -> bool:
    return name.startswith("transformer")


def _mesh(model: Model, plan: ParallelPlan) -> Mesh | None:
    """Collective the first time: the mesh of a plan of several ranks."""
    if plan.num_ranks == 1:
        return None
    if plan.weights > 1:
        from ..models.checks import check_shareable

        check_shareable(model, plan)
    return mesh_for(plan)


def _reads_together(model: Model, mesh: Mesh) -> bool:
    """Whether ranks that lack the same weights gather them from each other: those of GPUs, between which bytes are
    quicker than from the host. Weights that are shared are read in shares anyway."""
    between = [group for group in mesh.groups.values() if group.size > 1]
    return mesh.plan.weights == 1 and model.device.startswith("cuda") and all(group.packs for group in between)


def _shares(mesh: Mesh | None) -> ParallelPlan | None:
    """The plan by which the ranks of a mesh share weights, if they do."""
    return mesh.plan if mesh is not None and mesh.plan.weights > 1 else None


def _new_share(model: Model, files: ComponentFiles, mesh: Mesh) -> StoredComponent:
    from ...parallel.sharding.weights import own_bytes
    from .streamed import load_share

    component, handle = load_share(files, mesh, dtype=model.dtype, device=model.device)
    num_bytes = own_bytes(component) + sum(map(tensor_bytes, component.buffers()))
    return StoredComponent(component, num_bytes, model.device, 0, share=(mesh, handle))
