"""Fetching a model's files one after the other, each from where it stopped, each checked when it is there.

The command `latentloom models pull` has all of them fetched by the hub client itself, by Xet where that is quicker.

The bytes come into a file of ours: since 2.x the hub's client begins every file anew by itself. Xet, its other way to
large files, is not needed.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...parallel.wording import worded
from ..models.component_files import inspect_model
from ..models.source import home_of
from .cache import blob_of, is_there, part_of, put
from .listing import (
    LEFT_OUT,
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
from .look import HubFile, HubModel, bring

CHUNK_BYTES = 1 << 16  # what is on the way when a fetch is ended is lost
HASH_BYTES = 8 << 20
LOCK_S = 2.0

Report = Callable[[int, int], None]  # takes the bytes that are there, and the files that are whole


def fetch(model: HubModel, cache: Path, report: Report) -> Path:
    """The model's folder, once all of it is there; what was there before is not fetched again. Raises `ValueError`."""
    try:
        with _alone(cache, model):
            return _fetch(model, home_of(cache, model.id), report)
    except Exception as error:
        raise error if is_ours(error) else refusal(model.id, model.revision, error) from None


def _fetch(model: HubModel, home: Path, report: Report) -> Path:
    (home / "blobs").mkdir(parents=True, exist_ok=True)
    done_bytes = 0
    had: set[str] = set()
    for number, file in enumerate(model.files):
        if file.hash not in had:
            if not is_there(home, model, file):
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
            bring(model.id, model.commit, file, opened, had=had, told=told)
        opened.flush()
        if _hash(opened, file, told) != file.hash:
            opened.truncate(0)
            raise NotFetched(worded("{} of {} came damaged, and was thrown away; try again", file.name, model.id))
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


@contextmanager
def _alone(cache: Path, model: HubModel) -> Iterator[None]:
    """Two who write one part would damage it. Raises `NotFetched` where another program fetches it now."""
    from filelock import Timeout
    from huggingface_hub.utils import WeakFileLock

    place = cache / ".locks" / home_of(cache, model.id).name / "latentloom.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with WeakFileLock(place, timeout=LOCK_S):
            yield
    except Timeout:
        raise NotFetched(worded("another program fetches {} now; wait for it, then try again", model.id)) from None


def pull(model_id: str, *, revision: str = "", report: Callable[[str], None] = print) -> Path:
    """Download what a run needs of `org/name`; tells licence, gating and size first. Returns the folder.

    Raises `ValueError` for what cannot be pulled: unknown, gated without access, no supported pipeline, no room.
    """
    check_id(model_id, revision)
    api = open_hub()
    try:
        info = api.model_info(model_id, revision=revision or None, files_metadata=True)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        name = index_in(model_id, files)
        licence = licence_of(info) or "not stated, ask its makers"
        gating = "its makers ask you to accept terms on the hub first" if info.gated else "open to all"
        report(f"{model_id}: licence {licence}; access: {gating}; terms at https://huggingface.co/{model_id}")
        index = Path(api.hf_hub_download(model_id, name, revision=revision or None))
        _, patterns = patterns_of(index.parent, model_id)
        check_weights(model_id, files, patterns)
        num_bytes = sum(size for file, size in files.items() if is_wanted(file, patterns))
        report(f"{model_id}: {num_bytes / 2**30:.1f} GiB, kept in {index.parent}")
        if (free := shutil.disk_usage(index.parent).free) < num_bytes:
            raise ValueError(
                worded(
                    "{:.1f} GiB are needed and {:.1f} GiB are free at {}; "
                    "free some room, or set HF_HOME to another disk",
                    num_bytes / 2**30,
                    free / 2**30,
                    index.parent,
                )
            )
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
