"""The hub client's cache on disk: where a model's files lie, and how one is put there whole, its index last.

As its documentation lays it out: `models--ORG--NAME/blobs/HASH`, `snapshots/COMMIT/FILE` links to a blob, and
`refs/REVISION` holds a commit. What is half there is `blobs/HASH.part`, ours alone: the client itself keeps nothing
that it could go on with, and removes what it has where it fails.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from ..models.folder import INDEX, MODULAR_INDEX
from ..models.source import commit_in, ref_of, snapshot_of
from .look import HubFile, HubModel


def blob_of(home: Path, file: HubFile) -> Path:
    return home / "blobs" / file.hash


def part_of(home: Path, file: HubFile) -> Path:
    return home / "blobs" / f"{file.hash}.part"


def is_there(home: Path, model: HubModel, file: HubFile) -> bool:
    """Whether it was fetched whole, by us or by another program."""
    return _place_of(home, model, file) is not None


def had_bytes(home: Path, model: HubModel) -> int:
    """Bytes of it that need not be fetched any more."""
    had = {
        file.hash: file.num_bytes if is_there(home, model, file) else max(0, _size(part_of(home, file)))
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
    """Where it is whole."""
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
