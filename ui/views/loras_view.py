"""The LoRAs that are here, and which of them fit a model, for the page's picker."""

from __future__ import annotations

import hashlib

from ...nodes.files.thumbnails import checked_picture, picture_thumbnail
from ...pipelines.models.describe import describe_model
from ...pipelines.models.loras.facts import LoraFacts
from ...pipelines.models.loras.installed import Fit, InstalledLoras, Verdict, fit_of, installed_loras
from ...pipelines.models.loras.lora_file import layers_of
from ...pipelines.values import Model
from ..contract.weights import LoraRow, LorasView
from ..errors import NotHere
from ..settings import Settings
from .latest import Latest

FRESH_S = 30.0
"""How long a look at the folders is good for."""
THUMB_SIDE = 192
ORDER: tuple[Verdict, ...] = ("fits", "likely", "unknown", "other")
UNASKED = Fit("unknown")


_LOOK: Latest[InstalledLoras] = Latest()


def _installed(settings: Settings, *, refresh: bool = False) -> InstalledLoras:
    last = _LOOK.last(settings.models_dirs)
    return _LOOK.of(
        settings.models_dirs,
        lambda: installed_loras(settings.models_dirs, roots=settings.roots()),
        fresh_s=0.0 if refresh or (last is not None and last.may_grow) else FRESH_S,
    )


def loras_view(settings: Settings, *, source: str = "", revision: str = "", refresh: bool = False) -> LorasView:
    """All of them, the fitting ones first, for a model by its source; without one nobody knows which fit."""
    found, problem, model = _installed(settings, refresh=refresh), "", None
    try:
        if source.strip():
            model = describe_model(source, revision=revision, device="cpu", roots=settings.roots(), is_here=False)
    except ValueError as error:
        problem = str(error)
    rows = [_row(lora, fit, settings) for lora, fit in zip(found.loras, _fits(found, model), strict=True)]
    rows.sort(key=lambda row: (ORDER.index(row.verdict), row.name.lower(), row.path))
    return LorasView(loras=rows, is_whole=found.is_whole, problem=problem)


def lora_picture(settings: Settings, id: str) -> bytes:
    """A small WebP of the picture beside a LoRA. Raises `NotHere`, or `ValueError` for one that is not sound."""
    known = _LOOK.last(settings.models_dirs)  # however old: a page shows the pictures of what it was told
    loras = known.loras if known and known.loras else _installed(settings).loras
    found = next((lora for lora in loras if _id(lora) == id), None)
    if found is None or found.picture is None:
        raise NotHere("there is no picture of this LoRA any more; open the list again")
    checked_picture(found.picture, name=found.picture.name, max_pixels=settings.max_pixels)
    return picture_thumbnail(found.picture, side=THUMB_SIDE, name=found.picture.name)


def _fits(found: InstalledLoras, model: Model | None) -> list[Fit]:
    if model is None:
        return [Fit("other", lora.problem) if lora.problem else UNASKED for lora in found.loras]
    held = layers_of(model)
    return [fit_of(lora, model, held) for lora in found.loras]


def _row(lora: LoraFacts, fit: Fit, settings: Settings) -> LoraRow:
    below = next((folder for folder in settings.models_dirs if lora.path.is_relative_to(folder)), lora.path.parent)
    return LoraRow(
        id=_id(lora),
        path=str(lora.path.absolute()),
        name=lora.path.stem,
        folder=lora.path.parent.relative_to(below).as_posix().removeprefix("."),
        bytes=lora.num_bytes,
        rank=lora.rank,
        made_for=lora.made_for,
        triggers=list(lora.triggers),
        title=lora.title,
        author=lora.author,
        licence=lora.licence,
        has_picture=lora.picture is not None,
        verdict=fit.verdict,
        why=fit.why,
    )


def _id(lora: LoraFacts) -> str:
    return hashlib.sha256(str(lora.path).encode()).hexdigest()[:16]
