"""What is here: models, what fits on these devices, and what is loaded now."""

from __future__ import annotations

from collections.abc import Sequence

from ...nodes.preview.table import ModelRow, model_rows
from ...pipelines.components.memory import Held
from ..contract.shown import LoadedPart, ModelsView
from ..settings import Settings
from .devices import devices_now
from .latest import Latest

FRESH_S = 30.0
"""How long an answer is good for: reading the headers of many models takes seconds."""


_TABLE: Latest[list[ModelRow]] = Latest()


def models_view(settings: Settings, *, loaded: Sequence[Held] = (), refresh: bool = False) -> ModelsView:
    """`refresh` looks for models again. Raises `ValueError` for a folder of models that is not there."""
    now = devices_now()
    folders = settings.models_dirs
    models = _TABLE.of(folders, lambda: model_rows(folders, now), fresh_s=0.0 if refresh else FRESH_S)
    names = {model.location: model.name for model in models}
    held = [
        LoadedPart(
            name=names.get(each.folder, each.folder),
            component=each.component,
            device=each.device,
            bytes=each.num_bytes,
        )
        for each in loaded
    ]
    return ModelsView(models=models, devices=now, loaded=held)
