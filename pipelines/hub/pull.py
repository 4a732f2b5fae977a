"""The command `latentloom models pull`: a model into the hub client's cache, after its licence and size are told."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ..models.component_files import inspect_model
from .listing import (
    LEFT_OUT,
    check_id,
    check_weights,
    index_in,
    is_ours,
    is_wanted,
    licence_of,
    open_hub,
    patterns_of,
    refusal,
)


class Hub(Protocol):
    """The part of `huggingface_hub.HfApi` used here."""

    def model_info(self, repo_id: str, *, revision: str | None, files_metadata: bool) -> Any: ...

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None) -> Any: ...

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str], ignore_patterns: list[str]
    ) -> Any: ...


def pull(model_id: str, *, revision: str = "", hub: Hub | None = None, report: Callable[[str], None] = print) -> Path:
    """Download what a run needs of `org/name`; tells licence, gating and size first. Returns the folder.

    Raises `ValueError` for what cannot be pulled: unknown, gated without access, no supported pipeline, no room.
    """
    check_id(model_id, revision)
    api = open_hub() if hub is None else hub
    try:
        info = api.model_info(model_id, revision=revision or None, files_metadata=True)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        name = index_in(model_id, files)
        report(_terms(model_id, info))
        index = Path(api.hf_hub_download(model_id, name, revision=revision or None))
        _, patterns = patterns_of(index.parent, model_id)
        check_weights(model_id, files, patterns)
        num_bytes = sum(size for file, size in files.items() if is_wanted(file, patterns))
        report(f"{model_id}: {num_bytes / 2**30:.1f} GiB, kept in {index.parent}")
        _check_room(index.parent, num_bytes)
        folder = Path(
            api.snapshot_download(
                model_id, revision=revision or None, allow_patterns=patterns, ignore_patterns=list(LEFT_OUT)
            )
        )
    except Exception as error:  # the hub client's own classes, requests' and the system's
        if is_ours(error):
            raise
        raise refusal(model_id, revision, error) from None
    inspect_model(folder)
    return folder


def _terms(model_id: str, info: Any) -> str:
    licence = licence_of(info) or "not stated, ask its makers"
    gating = "its makers ask you to accept terms on the hub first" if info.gated else "open to all"
    return f"{model_id}: licence {licence}; access: {gating}; terms at https://huggingface.co/{model_id}"


def _check_room(folder: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise ValueError(
            f"{num_bytes / 2**30:.1f} GiB are needed and {free / 2**30:.1f} GiB are free at {folder}; "
            "free some room, or set HF_HOME to another disk"
        )
