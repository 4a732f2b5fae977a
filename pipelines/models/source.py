"""Where a model's files are: from its source, as the user wrote it, to a folder on this machine.

A *source* is a folder in diffusers format, `FILE.safetensors@BASE` or `FILE.gguf@BASE`, the id of a model on the
Hugging Face hub, or `builtin:NAME`. Nothing here downloads: of the hub, only what was pulled before is found, in its
client's cache, as the client's documentation lays it out: `models--ORG--NAME/refs/REVISION` holds a commit, and
`snapshots/COMMIT` the files. (The client itself takes 0.2 s of CPU to be imported.)

FILE is a transformer. Of two experts (Wan 2.2) one is named, and the other lies beside it: they are published in pairs
whose names differ in one word, `high_noise` and `low_noise`, however it is written, in the file's name and, where each
has a folder of its own, in that as well.
"""

import difflib
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ..values import Model
from .outlines import Outlines, known_ids

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,199}")
PICKLES = (".bin", ".ckpt", ".pkl", ".pickle", ".pt", ".pth")
# `FILE.safetensors@BASE`: the transformer comes from FILE, all else from BASE.
JOINT = re.compile(r"(\.safetensors|\.gguf)@", re.IGNORECASE)
BUILTINS = {"bobbin": Path(__file__).parents[1] / "bobbin" / "model"}
COMMIT = re.compile(r"[0-9a-f]{40}")
NOISE = re.compile(r"(high|low)(?=[_\- ]?noise)", re.IGNORECASE)
PICTURES = re.compile(r"(?<![a-z])ref", re.IGNORECASE)  # MiniMax H3's second, for reference pictures (ref2v)
OPPOSITES = {"high": "low", "low": "high"}
EXPERTS = {"high": "transformer", "low": "transformer_2"}


@dataclass(frozen=True, kw_only=True)
class ResolvedSource:
    """A model's place on this machine. For a single file, `folder` is the base that gives what the file lacks."""

    kind: Literal["folder", "file", "hub", "builtin"]
    folder: Path
    file: Path | None = None
    id: str  # the source with paths made absolute: means the same from any working folder
    revision: str = ""  # the commit of a hub model; empty for any other

    @property
    def is_local(self) -> bool:
        """Whether the user named a place on this machine, for which the allowed folders hold."""
        return self.kind in ("folder", "file")


class OutsideRoots(BadInput):
    """A path outside the allowed folders. A host may have another remedy than to move it: `what` goes before that."""

    code = "outside-roots"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what}; move it there")


class NotPulled(BadInput):
    """A hub id whose files are not here. A host without our command line has another remedy: `what` goes before it."""

    code = "not-pulled"

    def __init__(self, name: str, revision: str, *, planned: Collection[str] = ()) -> None:
        self.what = worded("model {!r} is not on this machine", name)
        if planned:  # these can be, and this one has no outline
            near = ", ".join(difflib.get_close_matches(name, planned, n=3, cutoff=0.0))
            self.what = f"{self.what}, nor is its size known, as those of {len(planned)} others are ({near}, ...)"
        pull = f"latentloom models pull {name}" + (f" --revision {revision}" if revision else "")
        super().__init__(worded("{}; run `{}` first", self.what, pull))


def resolve_source(
    source: str, *, revision: str = "", roots: Sequence[Path] | None = None, outlines: Outlines | None = None
) -> ResolvedSource:
    """Find the files of a folder, `FILE.safetensors@BASE`, hub id in the local cache, or `builtin:NAME`.

    With `roots`, local paths outside of them are refused (links followed). With `outlines`, which only who plans
    gives, a hub id that is not here is its outline. Raises `ValueError`, never downloads.
    """
    source = source.strip()
    if not source or "\0" in source or len(source) > 4096:
        raise BadInput("source is {!r}; give a model folder, a hub id like org/name, or builtin:bobbin", source[:100])
    is_builtin = source.startswith("builtin:")
    if not is_builtin and (JOINT.search(source) or source.lower().endswith((".safetensors", ".gguf", *PICKLES))):
        return _resolve_file(source, revision=revision, roots=roots, outlines=outlines)
    # a folder called org/name is meant before the model of that id: what lies here was put here by the user
    if not is_builtin and HUB_ID.fullmatch(source) and _find(source, roots) is None:
        return _resolve_hub(source, revision, outlines=outlines)
    if not is_builtin:
        found = _resolve_folder(source, roots)
    elif (name := source.removeprefix("builtin:")) in BUILTINS:
        found = ResolvedSource(kind="builtin", folder=BUILTINS[name], id=source)
    else:
        near = difflib.get_close_matches(name, BUILTINS, n=1, cutoff=0.0)
        raise BadInput("there is no built-in model {!r}; did you mean builtin:{}?", name[:100], near[0])
    if revision:
        raise BadInput(
            "revision {!r} was given for {!r}; only hub ids have revisions, leave it empty", revision, source
        )
    return found


def split_source(source: str) -> tuple[str, str]:
    """(path of the single file or "", base) of a source."""
    joint = JOINT.search(source)
    return (source[: joint.end() - 1], source[joint.end() :]) if joint else ("", source)


def checkpoints_of(file: Path, components: Collection[str]) -> dict[str, Path]:
    """The file of each transformer that is read from one, in a model of these components.

    Raises `ValueError` for one of two experts whose name does not say which it is, or without the other.
    """
    if "transformer_2" not in components:
        if "transformer" not in components:
            raise BadInput("{} is a transformer, and its base has none; use another base", file)
        looks = "transformer_ref" in components and PICTURES.search(file.name)
        return {"transformer_ref" if looks else "transformer": file}
    said = NOISE.search(file.name)
    if said is None:
        raise BadInput(
            "{} is one transformer, but its base has 2, and its name does not say which (high_noise or low_noise); "
            "name both so, or use a model folder",
            file,
        )
    folders = (file.parent, file.parent.parent / _opposite(file.parent.name))
    places = [folder / _opposite(file.name) for folder in folders]
    other = next((place for place in places if place.is_file()), None)
    if other is None:
        raise BadInput("{} is one of two experts; put the other, {}, beside it", file, places[0].name)
    which = said[1].lower()
    return {EXPERTS[which]: file, EXPERTS[OPPOSITES[which]]: other}


def single_files(model: Model, components: Collection[str]) -> dict[str, Path]:
    """The same for a model that was described; empty where all comes from its folder."""
    file, _ = split_source(model.source)
    return checkpoints_of(Path(file), components) if file else {}


def _opposite(name: str) -> str:
    def swapped(found: re.Match[str]) -> str:
        word = OPPOSITES[found[1].lower()]
        return word.upper() if found[1].isupper() else word.title() if found[1][0].isupper() else word

    return NOISE.sub(swapped, name)


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def is_allowed(path: Path, roots: Sequence[Path] | None) -> bool:
    """Whether `path` lies inside one of `roots`, links followed."""
    if roots is None:
        return True
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)


def _resolve_folder(source: str, roots: Sequence[Path] | None) -> ResolvedSource:
    found, told = _find(source, roots), source[:300]
    if found is None:
        hint = " (a hub id looks like org/name)" if "/" not in source and "\\" not in source else ""
        raise BadInput("source {!r} does not exist; give a model folder{}, or builtin:bobbin", told, hint)
    if not found.is_dir():
        raise BadInput("source {!r} is a file; give the folder that holds model_index.json", told)
    return ResolvedSource(kind="folder", folder=found, id=str(found))


def _resolve_file(
    source: str, *, revision: str, roots: Sequence[Path] | None, outlines: Outlines | None
) -> ResolvedSource:
    file, base = split_source(source) if JOINT.search(source) else (source, "")
    told, name, suffix = file[:300], Path(file).name, Path(file).suffix
    if file.lower().endswith(PICKLES):
        raise BadInput("source {!r} is a pickle, which can run code when opened; get the safetensors file", told)
    found = _find(file, roots)
    if found is None:
        raise BadInput("source file {!r} does not exist; check the path", told)
    if not found.is_file():
        raise BadInput("source {!r} is not a file; give the folder without {}, or the file itself", told, suffix)
    if not base:
        raise BadInput(
            "source {!r} holds a transformer only; say which model gives the text encoders and the "
            "VAE: '{}@FOLDER' or '{}@org/name'",
            told,
            name,
            name,
        )
    rest = resolve_source(base, revision=revision, roots=roots, outlines=outlines)
    if rest.file is not None:
        raise BadInput("source {!r}: what follows '@' must be a model folder or a hub id, not a file", source[:300])
    return ResolvedSource(kind="file", folder=rest.folder, file=found, id=f"{found}@{rest.id}", revision=rest.revision)


def _resolve_hub(name: str, revision: str, *, outlines: Outlines | None) -> ResolvedSource:
    if revision and not REVISION.fullmatch(revision):
        raise BadInput("revision {!r} is no branch, tag or commit; leave it empty for the default", revision[:100])
    if (folder := find_snapshot(name, revision)) is None:
        if outlines is not None and (outline := outlines(name, revision)) is not None:
            return ResolvedSource(kind="hub", folder=outline, id=name)
        raise NotPulled(name, revision, planned=known_ids() if outlines is not None else ())
    return ResolvedSource(kind="hub", folder=folder, id=name, revision=folder.name)


def _find(path: str, roots: Sequence[Path] | None) -> Path | None:
    """The existing absolute path, relative ones looked up in each root. Raises `ValueError` outside the roots."""
    given = Path(path).expanduser() if roots is None and path.startswith("~") else Path(path)
    places = [given] if given.is_absolute() else [root / given for root in ((Path.cwd(),) if roots is None else roots)]
    existing = [place for place in places if exists(place)]
    inside = [place for place in existing if is_allowed(place, roots)]
    # an absolute path outside is refused whether or not it exists: the answer must not tell which
    if (existing and not inside) or (given.is_absolute() and not is_allowed(given, roots)):
        allowed = ", ".join(map(str, roots or ()))
        raise OutsideRoots(worded("source {!r} lies outside the allowed folders ({})", path[:300], allowed))
    return inside[0].absolute() if inside else None


def hub_cache() -> Path:
    """Where the hub client keeps what was fetched."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def home_of(cache: Path, model_id: str) -> Path:
    return cache / f"models--{model_id.replace('/', '--')}"


def snapshot_of(home: Path, commit: str) -> Path:
    return home / "snapshots" / commit


def ref_of(home: Path, revision: str) -> Path:
    """Of the default where the revision is empty."""
    return home / "refs" / (revision or "main")


def find_snapshot(model_id: str, revision: str = "") -> Path | None:
    """The folder of a branch, tag or commit, named by its commit; None if it was never fetched."""
    home = home_of(hub_cache(), model_id)
    commit = revision if COMMIT.fullmatch(revision) else commit_in(ref_of(home, revision))
    # what a ref holds is checked before it becomes a path: anybody who writes there could lead out of the cache
    folder = snapshot_of(home, commit) if COMMIT.fullmatch(commit) else None
    return folder if folder is not None and folder.is_dir() else None


def commit_in(ref: Path) -> str:
    """The commit; "" where there is no such ref, or it is a folder of refs."""
    try:
        with ref.open() as file:
            return file.read(128).strip()
    except (OSError, ValueError):
        return ""
