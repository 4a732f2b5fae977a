"""A model on the hub, looked at without its weights: licence, access, size, family, and the files that a run needs.

Of the repository only the index and its components' configs are read, beside the hub client's cache: a model that is
not whole must not seem to be there. What the hub's refusals mean is said in one sentence.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

from ...parallel.errors import BadInput, code_of
from ..families.family import Family
from ..models.component_files import allowed_keys
from ..models.config import foreign_entry
from ..models.folder import INDEX, MODULAR_INDEX, components_of, find_family, kind_of, read_index
from ..models.regular_file import read_object
from ..models.source import COMMIT, HUB_ID, REVISION

TOP_LEVEL = (INDEX, MODULAR_INDEX, "latentloom.json", "LICENSE", "LICENSE.md", "LICENSE.txt", "README.md")
SUFFIXES = (".safetensors", ".json", ".txt", ".model", ".jinja")
# Variants no run reads, and formats that are refused when loading.
LEFT_OUT = ("*.fp16.*", "*.bf16.*", "*.non_ema.*", "*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl", "*.msgpack", "*.onnx")
MOST_INDEX_BYTES = 1 << 20  # of a component's config, too
MOST_CONFIG_BYTES = 16 << 20  # of all its components' configs
MOST_FILES = 2000
MOST_DEPTH = 2  # a component's folder, and a file in it; what lies deeper no run reads
LONGEST = 200  # characters of what a model's card says of its licence
# Of a file's name: nothing that leads elsewhere, and nothing hidden.
PART = re.compile(r"[A-Za-z0-9_][\w.()+ -]{0,199}")
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
ADDRESS = re.compile(r"https://[\w.-]+(/[!-~]{0,400})?")  # of a licence's text, where it is one that a page may lead to
Told = Callable[[int], None]


class NotFetched(BadInput):
    """A model could not be had from the hub, or is not one that runs here; the message says what to do."""

    code = "not-fetched"


class Gated(NotFetched):
    """The makers ask for their terms to be accepted first, by the account whose token the hub client has."""

    code = "gated"


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of a repository. Raises `NotFetched` for one that could not be kept under its name."""

    name: str
    num_bytes: int
    hash: str  # the sha256 of a large file; of another what git calls it: the name of its content in the cache

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if len(parts) > MOST_DEPTH or not all(map(PART.fullmatch, parts)):
            raise NotFetched("the file {!r} leads out of its folder; this model is not fetched", self.name[:100])
        if not HASH.fullmatch(self.hash) or self.num_bytes < 0:
            raise NotFetched("the hub does not tell size and hash of {!r}; try again later", self.name[:100])


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """One commit of a model on the hub, and what of it a run needs. With `problem`, why it cannot be had."""

    id: str
    revision: str  # as it was asked for; empty for the default
    commit: str
    licence: str  # empty where its makers do not say
    licence_url: str
    is_gated: bool  # whether the makers ask for their terms to be accepted first
    family: str = ""
    does: str = ""  # what its family makes of what
    files: tuple[HubFile, ...] = ()
    problem: str = ""
    code: str = ""
    looked: float = field(default=0.0, compare=False)  # when the hub told it, in seconds since the epoch

    def __post_init__(self) -> None:
        check_id(self.id, self.revision)
        if not COMMIT.fullmatch(self.commit):
            raise NotFetched("the hub does not tell a commit of {}; try again later", self.id)
        sizes, names = self.sizes, {file.name for file in self.files}
        if len(names) < len(self.files) or any(sizes[file.hash] != file.num_bytes for file in self.files):
            raise NotFetched(
                "the hub lists a file of {} twice, or one content with two sizes; this model is not fetched",
                self.id,
            )

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def sizes(self) -> dict[str, int]:
        """By hash: what is there under two names is fetched once."""
        return {file.hash: file.num_bytes for file in self.files}


def look(model_id: str, revision: str, folder: Path) -> HubModel:
    """Index and configs are left in the folder, an empty one. Raises `ValueError` where the hub tells nothing of it."""
    check_id(model_id, revision)
    with in_our_words(model_id, revision):
        info = open_hub().model_info(model_id, revision=revision or None, files_metadata=True)
        link = (info.card_data or {}).get("license_link")
        known = HubModel(
            id=model_id,
            revision=revision,
            commit=str(info.sha),
            licence="".join(c for c in licence_of(info) if c.isprintable())[:LONGEST].strip(),
            licence_url=link if isinstance(link, str) and ADDRESS.fullmatch(link) else "",
            is_gated=bool(info.gated),
            looked=time.time(),
        )
    try:
        with in_our_words(model_id, revision):
            family, files = _what_runs(known, info.siblings or (), folder)
    except ValueError as error:
        return replace(known, problem=str(error), code=code_of(error))
    return replace(known, family=family.title, does=family.does, files=files)


def _what_runs(model: HubModel, siblings: Sequence[Any], folder: Path) -> tuple[Family, tuple[HubFile, ...]]:
    from huggingface_hub.constants import MAX_HTTP_DOWNLOAD_SIZE

    listed = {str(each.rfilename): each for each in siblings}
    sizes = {name: each.size or 0 for name, each in listed.items()}
    index = index_in(model.id, sizes)
    if sizes[index] > MOST_INDEX_BYTES or len(siblings) > MOST_FILES:
        size, count = sizes[index], len(siblings)
        raise NotFetched("{} has an index of {} bytes and {} files, which is no model's", model.id, size, count)
    keep_small(model, _file(listed[index]), folder)
    family, patterns = patterns_of(folder, model.id)
    check_weights(model.id, sizes, patterns)
    _check_configs(model, folder, listed)
    # what lies deeper no run reads; but a name that leads elsewhere passes, to be refused
    wanted = [each for each in siblings if is_wanted(each.rfilename, patterns)]
    near = [each for each in wanted if each.rfilename.count("/") < MOST_DEPTH or ".." in each.rfilename.split("/")]
    files = tuple(map(_file, near))
    if large := next((file for file in files if file.num_bytes > MAX_HTTP_DOWNLOAD_SIZE), None):
        raise NotFetched(
            "{} of {} is too large to come over HTTP; who runs this server can fetch it with `latentloom models pull`",
            large.name,
            model.id,
        )
    return family, files


def _check_configs(model: HubModel, folder: Path, listed: Mapping[str, Any]) -> None:
    """What a config alone refuses, such as weights in another library's packing: not after they were fetched."""
    parts = components_of(read_index(folder, home=model.id)).items()
    asked = {name: library for name, (library, class_name) in parts if kind_of(class_name) == "model"}
    found = {name: listed[f"{name}/config.json"] for name in asked if f"{name}/config.json" in listed}
    configs = {name: _file(each) for name, each in found.items() if 0 < (each.size or 0) <= MOST_INDEX_BYTES}
    if (num_bytes := sum(file.num_bytes for file in configs.values())) > MOST_CONFIG_BYTES:
        raise NotFetched("{} has configs of {} bytes, which is no model's", model.id, num_bytes)
    for name, file in configs.items():
        keep_small(model, file, folder)
        plain = read_object(folder / file.name, what=f"config of {name}")
        allowed = allowed_keys(plain) if asked[name] == "diffusers" else ()
        if reason := foreign_entry({key: value for key, value in plain.items() if key not in allowed}):
            raise NotFetched("component {} of {} {}; this model is not fetched", name, model.id, reason)


def keep_small(model: HubModel, file: HubFile, folder: Path) -> None:
    """As it is on the hub. Raises as `bring` does."""
    target = folder / file.name
    target.parent.mkdir(exist_ok=True)
    with target.open("w+b") as opened:
        bring(model.id, model.commit, file, opened, had=0, told=lambda here: None)


def _file(listed: Any) -> HubFile:
    lfs = listed.lfs
    return HubFile(
        name=str(listed.rfilename),
        num_bytes=-1 if listed.size is None else int(listed.size),
        hash=str((lfs.sha256 if lfs is not None else listed.blob_id) or ""),
    )


def bring(model_id: str, commit: str, file: HubFile, opened: IO[bytes], *, had: int, told: Told) -> None:
    """What is left of a file, after the `had` bytes at whose end `opened` stands; `told` how many are there by then.

    Raises what the client raises, and `NotFetched` where more comes than was listed.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    # What comes is written as it is: compressed, it could not be gone on with.
    headers = {**build_hf_headers(library_name="latentloom"), "Accept-Encoding": "identity"}
    http_get(
        hf_hub_url(model_id, file.name, revision=commit),
        cast(Any, Counted(opened, file, told)),
        resume_size=had,
        headers=headers,
        expected_size=file.num_bytes,
    )


class Counted:
    """A file as the hub's client writes it: tells how long it is by now, and takes no more than was listed."""

    def __init__(self, opened: IO[bytes], file: HubFile, told: Told) -> None:
        self._opened, self._file, self._told = opened, file, told
        self.seek, self.tell, self.truncate = opened.seek, opened.tell, opened.truncate

    def write(self, chunk: bytes) -> int:
        if self._opened.tell() + len(chunk) > self._file.num_bytes:
            raise NotFetched("{} is larger than the hub says; this model is not fetched", self._file.name)
        written = self._opened.write(chunk)
        self._told(self._opened.tell())
        return written


# ---- What a repository holds, which of it a run reads, and what the hub's refusals mean. The access token is the hub
# client's business (its login, or HF_TOKEN); nothing here reads, prints or stores it.


def open_hub() -> Any:
    """The hub's client, without telemetry."""
    from huggingface_hub import HfApi, constants

    constants.HF_HUB_DISABLE_TELEMETRY = True
    return HfApi(library_name="latentloom")


def check_id(model_id: str, revision: str) -> None:
    """Raises `ValueError` for what the hub has no model by."""
    if not HUB_ID.fullmatch(model_id):
        raise BadInput("{!r} is no hub id; give one such as Qwen/Qwen-Image", model_id[:100])
    if revision and (not REVISION.fullmatch(revision) or ".." in revision):
        raise BadInput("revision {!r} is no branch, tag or commit; leave it empty for the default", revision[:100])


def index_in(model_id: str, files: Mapping[str, int]) -> str:
    """The name of its index. Raises `NotFetched`."""
    found = next((name for name in (INDEX, MODULAR_INDEX) if name in files), None)
    if found is None:
        raise NotFetched(
            "{} is not in diffusers format (no {}); look for its diffusers version on the hub", model_id, INDEX
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
        raise NotFetched("{} has no safetensors weights, and pickles are refused; look for another version", model_id)


def licence_of(info: Any) -> str:
    """As its makers name it; empty where they do not."""
    card = info.card_data or {}
    return str(card.get("license_name") or card.get("license") or "")


@contextlib.contextmanager
def in_our_words(model_id: str, revision: str) -> Iterator[None]:
    """Within it, what the hub's client, its libraries and the system raise becomes `NotFetched`. What was written here
    stays: it holds nothing that the hub was asked with."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BadInput) or type(error) is ValueError:
            raise
        raise _refusal(model_id, revision, error) from None


def _refusal(model_id: str, revision: str, error: Exception) -> NotFetched:
    """One sentence; the error's own text is left out, which may quote request headers."""
    kind = type(error).__name__
    if kind == "GatedRepoError":
        told = "{} is gated: accept its terms at https://huggingface.co/{}, run `hf auth login`, and pull again"
        return Gated(told, model_id, model_id)
    if kind == "RepositoryNotFoundError":
        told = "there is no model {} on the hub, or it is private: check the name, or run `hf auth login`"
        return NotFetched(told, model_id)
    if kind == "RevisionNotFoundError":
        return NotFetched("{} has no revision {!r}; leave it empty for the default", model_id, revision)
    if kind == "OfflineModeIsEnabled":
        return NotFetched("the hub client is set to offline; unset HF_HUB_OFFLINE and pull again")
    if isinstance(error, OSError) and error.strerror:
        told = "{} could not be pulled ({}); nothing is lost, pull again to go on"
        return NotFetched(told, model_id, error.strerror)
    told = "{} could not be pulled ({}); check the connection and pull again to go on where it stopped"
    return NotFetched(told, model_id, kind)
