"""Fetching a model from the Hugging Face hub: the only place that downloads, and only when the user asks for it.

The access token is the hub client's business (its login, or HF_TOKEN); nothing here reads, prints or stores it.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .folder import INDEX, MODULAR_INDEX, components_of, find_family, inspect_model, read_index
from .source import HUB_ID, REVISION

logger = logging.getLogger("latentloom")

TOP_LEVEL = (INDEX, MODULAR_INDEX, "latentloom.json", "LICENSE*", "README.md")
SUFFIXES = (".safetensors", ".json", ".txt", ".model", ".jinja")
LEFT_OUT = ("*.fp16.*", "*.bf16.*", "*.non_ema.*", "*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl", "*.msgpack", "*.onnx")
"""Variants no run reads, and formats that are refused when loading."""


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
    if not HUB_ID.fullmatch(model_id):
        raise ValueError(f"{model_id[:100]!r} is no hub id; give one such as Qwen/Qwen-Image")
    if revision and not REVISION.fullmatch(revision):
        raise ValueError(f"revision {revision[:100]!r} is no branch, tag or commit; leave it empty for the default")
    api = _hub() if hub is None else hub
    try:
        info = api.model_info(model_id, revision=revision or None, files_metadata=True)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        name = _index(model_id, files)
        report(_terms(model_id, info))
        index = Path(api.hf_hub_download(model_id, name, revision=revision or None))
        patterns = _patterns(index.parent, model_id)
        _check_weights(model_id, files, patterns)
        num_bytes = sum(size for file, size in files.items() if _is_wanted(file, patterns))
        report(f"{model_id}: {num_bytes / 2**30:.1f} GiB, kept in {index.parent}")
        _check_room(index.parent, num_bytes)
        folder = Path(
            api.snapshot_download(
                model_id, revision=revision or None, allow_patterns=patterns, ignore_patterns=list(LEFT_OUT)
            )
        )
    except ValueError as error:
        if type(error) is ValueError:
            raise
        raise ValueError(_refusal(model_id, revision, error)) from None
    except Exception as error:  # the hub client's own classes, requests' and the system's
        raise ValueError(_refusal(model_id, revision, error)) from None
    inspect_model(folder)
    return folder


def _hub() -> Hub:
    import huggingface_hub

    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    return huggingface_hub.HfApi(library_name="latentloom")


def _index(model_id: str, files: dict[str, int]) -> str:
    """The name of its index."""
    found = next((name for name in (INDEX, MODULAR_INDEX) if name in files), None)
    if found is None:
        raise ValueError(
            f"{model_id} is not in diffusers format (no {INDEX}); look for its diffusers version on the hub"
        )
    return found


def _terms(model_id: str, info: Any) -> str:
    card = info.card_data or {}
    licence = card.get("license_name") or card.get("license") or "not stated, ask its makers"
    gating = "its makers ask you to accept terms on the hub first" if info.gated else "open to all"
    return f"{model_id}: licence {licence}; access: {gating}; terms at https://huggingface.co/{model_id}"


def _patterns(folder: Path, model_id: str) -> list[str]:
    """The files of the components that model_index.json names; a repository may hold the weights twice."""
    index = read_index(folder, home=model_id)
    find_family(str(index["_class_name"]))
    return [*TOP_LEVEL, *(f"{name}/*{suffix}" for name in sorted(components_of(index)) for suffix in SUFFIXES)]


def _is_wanted(file: str, patterns: Sequence[str]) -> bool:
    from fnmatch import fnmatch

    return any(fnmatch(file, p) for p in patterns) and not any(fnmatch(file, p) for p in LEFT_OUT)


def _check_weights(model_id: str, files: dict[str, int], patterns: Sequence[str]) -> None:
    if not any(file.endswith(".safetensors") and _is_wanted(file, patterns) for file in files):
        raise ValueError(f"{model_id} has no safetensors weights, and pickles are refused; look for another version")


def _check_room(folder: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise ValueError(
            f"{num_bytes / 2**30:.1f} GiB are needed and {free / 2**30:.1f} GiB are free at {folder}; "
            "free some room, or set HF_HOME to another disk"
        )


def _refusal(model_id: str, revision: str, error: Exception) -> str:
    """One sentence; the error's own text is left out, which may quote request headers."""
    kind = type(error).__name__
    reasons = {
        "GatedRepoError": f"{model_id} is gated: accept its terms at https://huggingface.co/{model_id}, run "
        "`hf auth login`, and pull again",
        "RepositoryNotFoundError": f"there is no model {model_id} on the hub, or it is private: check the name, or run "
        "`hf auth login`",
        "RevisionNotFoundError": f"{model_id} has no revision {revision!r}; leave it empty for the default",
        "OfflineModeIsEnabled": "the hub client is set to offline; unset HF_HUB_OFFLINE and pull again",
    }
    if kind in reasons:
        return reasons[kind]
    if isinstance(error, OSError) and error.strerror:
        return f"{model_id} could not be pulled ({error.strerror}); nothing is lost, pull again to go on"
    return f"{model_id} could not be pulled ({kind}); check the connection and pull again to go on where it stopped"
