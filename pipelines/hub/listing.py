"""What a repository on the hub holds, which of it a run reads, and what the hub's refusals mean.

The access token is the hub client's business (its login, or HF_TOKEN); nothing here reads, prints or stores it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ..families.family import Family
from ..models.folder import INDEX, MODULAR_INDEX, components_of, find_family, read_index
from ..models.source import HUB_ID, REVISION

TOP_LEVEL = (INDEX, MODULAR_INDEX, "latentloom.json", "LICENSE", "LICENSE.md", "LICENSE.txt", "README.md")
SUFFIXES = (".safetensors", ".json", ".txt", ".model", ".jinja")
# Variants no run reads, and formats that are refused when loading.
LEFT_OUT = ("*.fp16.*", "*.bf16.*", "*.non_ema.*", "*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl", "*.msgpack", "*.onnx")


class NotFetched(BadInput):
    """A model could not be had from the hub, or is not one that runs here; the message says what to do."""

    code = "not-fetched"


class Gated(NotFetched):
    """The makers ask for their terms to be accepted first, by the account whose token the hub client has."""

    code = "gated"


def open_hub() -> Any:
    """The hub's client, without telemetry."""
    from huggingface_hub import HfApi, constants

    constants.HF_HUB_DISABLE_TELEMETRY = True
    return HfApi(library_name="latentloom")


def check_id(model_id: str, revision: str) -> None:
    """Raises `ValueError` for what the hub has no model by."""
    if not HUB_ID.fullmatch(model_id):
        raise ValueError(worded("{!r} is no hub id; give one such as Qwen/Qwen-Image", model_id[:100]))
    if revision and (not REVISION.fullmatch(revision) or ".." in revision):
        raise ValueError(
            worded("revision {!r} is no branch, tag or commit; leave it empty for the default", revision[:100])
        )


def index_in(model_id: str, files: Mapping[str, int]) -> str:
    """The name of its index. Raises `NotFetched`."""
    found = next((name for name in (INDEX, MODULAR_INDEX) if name in files), None)
    if found is None:
        raise NotFetched(
            worded("{} is not in diffusers format (no {}); look for its diffusers version on the hub", model_id, INDEX)
        )
    return found


def patterns_of(folder: Path, model_id: str) -> tuple[Family, list[str]]:
    """Its family, and the files of the components that model_index.json names; a repository may hold the weights twice.

    Raises `ValueError` for a model that no family reads.
    """
    index = read_index(folder, home=model_id)
    family = find_family(str(index["_class_name"]))
    return family, [*TOP_LEVEL, *(f"{name}/*{suffix}" for name in sorted(components_of(index)) for suffix in SUFFIXES)]


def is_wanted(file: str, patterns: Sequence[str]) -> bool:
    from fnmatch import fnmatch

    return any(fnmatch(file, p) for p in patterns) and not any(fnmatch(file, p) for p in LEFT_OUT)


def check_weights(model_id: str, files: Mapping[str, int], patterns: Sequence[str]) -> None:
    """Raises `NotFetched` where there are none that may be read."""
    if not any(file.endswith(".safetensors") and is_wanted(file, patterns) for file in files):
        raise NotFetched(
            worded("{} has no safetensors weights, and pickles are refused; look for another version", model_id)
        )


def is_ours(error: Exception) -> bool:
    """Whether its text was written here, and so holds nothing that the hub was asked with."""
    return isinstance(error, BadInput) or type(error) is ValueError


def licence_of(info: Any) -> str:
    """As its makers name it; empty where they do not."""
    card = info.card_data or {}
    return str(card.get("license_name") or card.get("license") or "")


def refusal(model_id: str, revision: str, error: Exception) -> NotFetched:
    """One sentence; the error's own text is left out, which may quote request headers."""
    kind = type(error).__name__
    if kind == "GatedRepoError":
        return Gated(
            worded(
                "{} is gated: accept its terms at https://huggingface.co/{}, run `hf auth login`, and pull again",
                model_id,
                model_id,
            )
        )
    if kind == "RepositoryNotFoundError":
        told = worded(
            "there is no model {} on the hub, or it is private: check the name, or run `hf auth login`", model_id
        )
    elif kind == "RevisionNotFoundError":
        told = worded("{} has no revision {!r}; leave it empty for the default", model_id, revision)
    elif kind == "OfflineModeIsEnabled":
        told = "the hub client is set to offline; unset HF_HUB_OFFLINE and pull again"
    elif isinstance(error, OSError) and error.strerror:
        told = worded("{} could not be pulled ({}); nothing is lost, pull again to go on", model_id, error.strerror)
    else:
        told = worded(
            "{} could not be pulled ({}); check the connection and pull again to go on where it stopped", model_id, kind
        )
    return NotFetched(told)
