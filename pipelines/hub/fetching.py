"""Fetching a model's files one after the other into the hub client's cache, each from where it stopped, each checked
when it is there.

The command `latentloom models pull` has all of them fetched by the hub client itself, by Xet where that is quicker.

The bytes come into a file of ours: since 2.x the hub's client begins every file anew by itself. Xet, its other way to
large files, is not needed.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO

from ...parallel.errors import BadInput
from ..models.component_files import inspect_model
from ..models.folder import INDEX, MODULAR_INDEX
from ..models.source import commit_in, home_of, ref_of, snapshot_of
from . import look
from .look import HubFile, HubModel, NotFetched

CHUNK_BYTES = 1 << 16  # what is on the way when a fetch is ended is lost
HASH_BYTES = 8 << 20
LOCK_S = 2.0

Report = Callable[[int, int], None]  # takes the bytes that are there, and the files that are whole


def fetch(model: HubModel, cache: Path, report: Report) -> Path:
    """The model's folder, once all of it is there; what was there before is not fetched again. Raises `ValueError`.

    Not beside another program that fetches it: two who write one part would damage it.
    """
    from filelock import Timeout
    from huggingface_hub.utils import WeakFileLock

    home = home_of(cache, model.id)
    lock = cache / ".locks" / home.name / "latentloom.lock"
    with look.in_our_words(model.id, model.revision):
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            with WeakFileLock(lock, timeout=LOCK_S):
                return _fetch(model, home, report)
        except Timeout:
            raise NotFetched("another program fetches {} now; wait for it, then try again", model.id) from None


def _fetch(model: HubModel, home: Path, report: Report) -> Path:
    (home / "blobs").mkdir(parents=True, exist_ok=True)
    done_bytes = 0
    had: set[str] = set()
    for number, file in enumerate(model.files):
        if file.hash not in had:
            if _place_of(home, model, file) is None:
                _fetch_file(model, home, file, lambda here, at=(done_bytes, number): report(at[0] + here, at[1]))
            done_bytes += file.num_bytes
            had.add(file.hash)
        report(done_bytes, number + 1)
    return put(home, model, inspect_model)


def _fetch_file(model: HubModel, home: Path, file: HubFile, told: Callable[[int], None]) -> None:
    part = part_of(home, file)
    # to go on with, or new; no link is followed
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(part, flags, 0o644), "r+b") as opened:
        had = opened.seek(0, os.SEEK_END)
        if had > file.num_bytes:
            had = opened.seek(0)
            opened.truncate()
        if had < file.num_bytes:
            look.bring(model.id, model.commit, file, opened, had=had, told=told)
        opened.flush()
        if _hash(opened, file, told) != file.hash:
            opened.truncate(0)
            raise NotFetched("{} of {} came damaged, and was thrown away; try again", file.name, model.id)
        os.fsync(opened.fileno())
    part.replace(blob_of(home, file))


def _hash(opened: IO[bytes], file: HubFile, told: Callable[[int], None]) -> str:
    """As the hub lists it: git's own of a small file, of a large one its sha256. Takes seconds of many GiB."""
    digest = hashlib.sha256() if len(file.hash) == 64 else hashlib.sha1(usedforsecurity=False)
    if len(file.hash) == 40:
        digest.update(f"blob {file.num_bytes}\0".encode())
    opened.seek(0)
    while chunk := opened.read(HASH_BYTES):
        digest.update(chunk)
        told(file.num_bytes)
    return digest.hexdigest()


def pull(
    model_id: str, *, revision: str = "", without: Collection[str] = (), report: Callable[[str], None] = print
) -> Path:
    """Download what a run needs of `org/name`, `without` parts that not every run needs; tells licence, gating and size
    first. Returns the folder.

    Raises `ValueError` for what cannot be pulled: unknown, gated without access, no supported pipeline, no room.
    """
    look.check_id(model_id, revision)
    api = look.open_hub()
    with look.in_our_words(model_id, revision):
        info = api.model_info(model_id, revision=revision or None, files_metadata=True)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        name = look.index_in(model_id, files)
        licence = look.licence_of(info) or "not stated, ask its makers"
        gating = "its makers ask you to accept terms on the hub first" if info.gated else "open to all"
        report(f"{model_id}: licence {licence}; access: {gating}; terms at https://huggingface.co/{model_id}")
        index = Path(api.hf_hub_download(model_id, name, revision=revision or None))
        family, patterns = look.patterns_of(index.parent, model_id)
        if needed := {*without} - {family.looker}:
            raise BadInput("every run of {} needs {}; pull the model with it", model_id, ", ".join(sorted(needed)))
        patterns = [pattern for pattern in patterns if pattern.partition("/")[0] not in without]
        look.check_weights(model_id, files, patterns)
        num_bytes = sum(size for file, size in files.items() if look.is_wanted(file, patterns))
        report(f"{model_id}: {num_bytes / 2**30:.1f} GiB, kept in {index.parent}")
        if (free := shutil.disk_usage(index.parent).free) < num_bytes:
            raise BadInput(
                "{:.1f} GiB are needed and {:.1f} GiB are free at {}; free some room, or set HF_HOME to another disk",
                num_bytes / 2**30,
                free / 2**30,
                index.parent,
            )
        folder = Path(
            api.snapshot_download(
                model_id, revision=revision or None, allow_patterns=patterns, ignore_patterns=list(look.LEFT_OUT)
            )
        )
    inspect_model(folder)
    return folder


# ---- The hub client's cache: where a model's files lie, and how one is put there whole, its index last.
#
# As its documentation lays it out: `models--ORG--NAME/blobs/HASH`, `snapshots/COMMIT/FILE` links to a blob, and
# `refs/REVISION` holds a commit. What is half there is `blobs/HASH.part`, ours alone: the client itself keeps nothing
# that it could go on with, and removes what it has where it fails.


def blob_of(home: Path, file: HubFile) -> Path:
    return home / "blobs" / file.hash


def part_of(home: Path, file: HubFile) -> Path:
    return home / "blobs" / f"{file.hash}.part"


def had_bytes(home: Path, model: HubModel) -> int:
    """Bytes of it that need not be fetched any more."""
    had = {
        file.hash: file.num_bytes if _place_of(home, model, file) else max(0, _size(part_of(home, file)))
        for file in model.files
    }
    return sum(had.values())


def is_whole(home: Path, model: HubModel) -> bool:
    folder = snapshot_of(home, model.commit)
    return all(_size(folder / file.name) == file.num_bytes for file in model.files)


def free_bytes(cache: Path) -> int:
    """Of its disk; of the folder above where it is not made yet."""
    here = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    return shutil.disk_usage(here).free


def put(home: Path, model: HubModel, check: Callable[[Path], object]) -> Path:
    """Files that were fetched become the model; it is not seen before it is whole and `check` has read its folder.

    Raises that error, and `OSError`; nothing is there then, nor where this process is ended meanwhile.
    """
    # Put together beside the place where models are looked for: a process that is ended meanwhile leaves nothing that
    # seems to be one.
    folder, made = snapshot_of(home, model.commit), _made_of(home, model)
    try:
        shutil.rmtree(made, ignore_errors=True)
        for file in model.files:
            place = _place_of(home, model, file)
            assert place is not None, "it was fetched"
            _link(made / file.name, place)
        check(made)
        is_new = _move(made, folder, model)
        try:
            name_commit(home, model.revision, model.commit, looked=model.looked)
        except OSError:
            if is_new:
                shutil.rmtree(folder)
            raise
    finally:
        _clear(made)
    return folder


def name_commit(home: Path, revision: str, commit: str, *, looked: float) -> None:
    """From now on the model of this revision is that commit's, as the hub said at that time, unless somebody named
    another one since; empty for the default. Raises `OSError`.
    """
    ref = ref_of(home, revision)
    with contextlib.suppress(OSError):  # there is none yet
        if ref.stat().st_mtime > looked and commit_in(ref) != commit:
            return
    if revision == commit:
        return
    ref.parent.mkdir(parents=True, exist_ok=True)
    part = home / f".{commit}.part"
    part.write_text(commit)
    part.replace(ref)


def remove(home: Path, model: HubModel, *, spared: Collection[str] = ()) -> None:
    """What was fetched of a model that did not become one; blobs that a commit has stay, and those `spared` by hash."""
    _clear(_made_of(home, model))
    used = {os.path.realpath(path) for path in home.glob("snapshots/*/**/*") if path.is_symlink()}
    for file in (file for file in model.files if file.hash not in spared):
        for path in (part_of(home, file), blob_of(home, file)):
            if os.path.realpath(path) not in used:
                with contextlib.suppress(OSError):
                    path.unlink()


def _made_of(home: Path, model: HubModel) -> Path:
    """Where a model is put together: as deep as `snapshots/COMMIT`, so that its links hold there."""
    return home / "latentloom" / model.commit


def _place_of(home: Path, model: HubModel, file: HubFile) -> Path | None:
    """Where it is whole, fetched by us or by another program; None where it is not."""
    places = (blob_of(home, file), snapshot_of(home, model.commit) / file.name)
    return next((place for place in places if _size(place) == file.num_bytes), None)


def _move(made: Path, folder: Path, model: HubModel) -> bool:
    """Whether the folder is new; into one that another program made goes what it lacks, the index last."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        made.rename(folder)
        return True
    for file in sorted(model.files, key=lambda file: file.name in (INDEX, MODULAR_INDEX)):
        pointer = folder / file.name
        if _size(pointer) != file.num_bytes:
            pointer.parent.mkdir(parents=True, exist_ok=True)
            (made / file.name).replace(pointer)
    return False


def _clear(made: Path) -> None:
    shutil.rmtree(made, ignore_errors=True)
    with contextlib.suppress(OSError):  # where another model is put together there
        made.parent.rmdir()


def _link(pointer: Path, place: Path) -> None:
    pointer.parent.mkdir(parents=True, exist_ok=True)
    try:
        pointer.symlink_to(os.path.relpath(place, pointer.parent))
    except OSError:  # a disk, or Windows, without links: the client then keeps the file itself
        shutil.copyfile(place, pointer)


def _size(path: Path) -> int:
    """-1 for what is no file, or a link to none."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1
