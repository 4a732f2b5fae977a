"""The hub client's cache, read: where the files of a hub model lie that somebody fetched before.

As its documentation lays it out: `models--ORG--NAME/refs/REVISION` holds a commit, and `snapshots/COMMIT` the files.
Read here, because the client itself takes 0.2 s of CPU to be imported.
"""

from __future__ import annotations

import re
from pathlib import Path

DEFAULT_REVISION = "main"
COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_cache() -> Path:
    """Where the hub client keeps what was fetched."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def home_of(cache: Path, model_id: str) -> Path:
    return cache / f"models--{model_id.replace('/', '--')}"


def snapshot_of(home: Path, commit: str) -> Path:
    return home / "snapshots" / commit


def ref_of(home: Path, revision: str) -> Path:
    """Empty for the default."""
    return home / "refs" / (revision or DEFAULT_REVISION)


def find_snapshot(model_id: str, revision: str = "") -> Path | None:
    """The folder of a branch, tag or commit, named by its commit; None if it was never fetched."""
    home = home_of(hub_cache(), model_id)
    commit = revision if COMMIT.fullmatch(revision) else commit_in(ref_of(home, revision))
    folder = snapshot_of(home, commit)
    return folder if COMMIT.fullmatch(commit) and folder.is_dir() else None


def commit_in(ref: Path) -> str:
    """The commit; "" where there is no such ref, or it is a folder of refs."""
    try:
        with ref.open() as file:
            return file.read(128).strip()
    except (OSError, ValueError):
        return ""
