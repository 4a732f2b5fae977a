"""A model on the hub, looked at without its weights: licence, access, size, family, and the files that a run needs.

Of the repository only the index and its components' configs are read, beside the hub client's cache: a model that is
not whole must not seem to be there.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...parallel.errors import code_of
from ..families.family import Family
from ..models.config import foreign_entry
from ..models.folder import allowed_keys, components_of, kind_of, read_index
from ..models.json_file import read_object
from .listing import (
    NotFetched,
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

MOST_INDEX_BYTES = 1 << 20
"""Of a component's config, too."""
MOST_FILES = 2000
MOST_DEPTH = 2
"""A component's folder, and a file in it; what lies deeper no run reads."""
LONGEST = 200
"""Characters of what a model's card says of its licence."""
PART = re.compile(r"[A-Za-z0-9_][\w.()+ -]{0,199}")
"""Of a file's name: nothing that leads elsewhere, and nothing hidden."""
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of a repository. Raises `NotFetched` for one that could not be kept under its name."""

    name: str
    num_bytes: int
    hash: str
    """The sha256 of a large file; of another what git calls it: the name of its content in the cache."""

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if len(parts) > MOST_DEPTH or not all(map(PART.fullmatch, parts)):
            raise NotFetched(f"the file {self.name[:100]!r} leads out of its folder; this model is not fetched")
        if not HASH.fullmatch(self.hash) or self.num_bytes < 0:
            raise NotFetched(f"the hub does not tell size and hash of {self.name[:100]!r}; try again later")


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """One commit of a model on the hub, and what of it a run needs. With `problem`, why it cannot be had."""

    id: str
    revision: str
    """As it was asked for; empty for the default."""
    commit: str
    licence: str
    """Empty where its makers do not say."""
    licence_url: str
    is_gated: bool
    """Whether the makers ask for their terms to be accepted first."""
    family: str = ""
    does: str = ""
    """What its family makes of what."""
    files: tuple[HubFile, ...] = ()
    problem: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        check_id(self.id, self.revision)
        if not COMMIT.fullmatch(self.commit):
            raise NotFetched(f"the hub does not tell a commit of {self.id}; try again later")

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def sizes(self) -> dict[str, int]:
        """By hash: what is there under two names is fetched once."""
        return {file.hash: file.num_bytes for file in self.files}

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> HubModel:
        return cls(**{**plain, "files": tuple(HubFile(**file) for file in plain["files"])})


def look(model_id: str, revision: str = "") -> HubModel:
    """Raises `ValueError` where the hub tells nothing of it."""
    check_id(model_id, revision)
    api = open_hub()
    try:
        info = api.model_info(model_id, revision=revision or None, files_metadata=True)
        known = HubModel(
            id=model_id,
            revision=revision,
            commit=str(info.sha),
            licence=_plain(licence_of(info)),
            licence_url=_address((info.card_data or {}).get("license_link")),
            is_gated=bool(info.gated),
        )
    except Exception as error:
        raise error if is_ours(error) else refusal(model_id, revision, error) from None
    try:
        family, files = _what_runs(api, known, info.siblings or ())
    except Exception as error:
        told = error if is_ours(error) else refusal(model_id, revision, error)
        return replace(known, problem=str(told), code=code_of(told))
    return replace(known, family=family.title, does=family.does, files=files)


def _what_runs(api: Any, model: HubModel, listed: Any) -> tuple[Family, tuple[HubFile, ...]]:
    sizes = {str(file.rfilename): file.size or 0 for file in listed}
    index = index_in(model.id, sizes)
    if sizes[index] > MOST_INDEX_BYTES or len(sizes) > MOST_FILES:
        raise NotFetched(f"{model.id} has an index of {sizes[index]} bytes and {len(sizes)} files, which is no model's")
    with tempfile.TemporaryDirectory(prefix="latentloom-") as folder:
        api.hf_hub_download(model.id, index, revision=model.commit, local_dir=folder)
        family, patterns = patterns_of(Path(folder), model.id)
        check_weights(model.id, sizes, patterns)
        _check_configs(api, model, Path(folder), sizes)
    return family, tuple(_file(each) for each in listed if _is_read(each.rfilename, patterns))


def _check_configs(api: Any, model: HubModel, folder: Path, sizes: Mapping[str, int]) -> None:
    """What a config alone refuses, such as weights in another library's packing: not after they were fetched."""
    for name, (library, class_name) in components_of(read_index(folder, home=model.id)).items():
        config = f"{name}/config.json"
        if kind_of(class_name) != "model" or not 0 < sizes.get(config, 0) <= MOST_INDEX_BYTES:
            continue
        api.hf_hub_download(model.id, config, revision=model.commit, local_dir=folder)
        plain = read_object(folder / config, what=f"config of {name}")
        allowed = allowed_keys(plain) if library == "diffusers" else ()
        if reason := foreign_entry({key: value for key, value in plain.items() if key not in allowed}):
            raise NotFetched(f"component {name} of {model.id} {reason}; this model is not fetched")


def _is_read(name: str, patterns: list[str]) -> bool:
    """A name that leads elsewhere passes, to be refused."""
    return is_wanted(name, patterns) and (name.count("/") < MOST_DEPTH or ".." in name.split("/"))


def _file(listed: Any) -> HubFile:
    lfs = listed.lfs
    return HubFile(
        name=str(listed.rfilename),
        num_bytes=-1 if listed.size is None else int(listed.size),
        hash=str((lfs.sha256 if lfs is not None else listed.blob_id) or ""),
    )


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:LONGEST].strip()


def _address(link: Any) -> str:
    """Of the licence's text, where it is one that a page may lead to."""
    return link if isinstance(link, str) and re.fullmatch(r"https://[\w.-]+(/[!-~]{0,400})?", link) else ""
