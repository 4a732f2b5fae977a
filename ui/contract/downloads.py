"""What the page is told of models on the hub, and of those that are being fetched."""

from __future__ import annotations

from typing import Literal

from .answer import FROM_DISK, Answer

DownloadState = Literal["waiting", "fetching", "done", "failed", "cancelled"]


class HubLook(Answer):
    """A model on the hub, without its weights; `problem` is why it cannot be fetched, or not now."""

    id: str
    revision: str
    commit: str
    licence: str
    """As its makers name it; empty where they do not."""
    licence_url: str
    """Its text, where they say where."""
    is_gated: bool
    """Whether its makers ask for their terms to be accepted on the hub first."""
    family: str
    does: str
    """What its family makes of what."""
    num_files: int
    num_bytes: int
    """Of all that a run needs."""
    had_bytes: int
    """Of these, what is on the server's disk already."""
    free_bytes: int
    """What the disk takes yet."""
    room_bytes: int | None
    """What the user may keep yet; null where that is not counted."""
    problem: str
    code: str


class Download(Answer):
    """One model that the user had fetched. Bytes and files are those that are there."""

    model_config = FROM_DISK

    id: str
    model: str
    revision: str
    commit: str
    licence: str
    state: DownloadState
    done_bytes: int
    total_bytes: int
    done_files: int
    total_files: int
    bytes_per_s: float | None
    """Of late; null where nobody can tell."""
    left_s: float | None
    num_before: int
    """How many of this server's go first."""
    error: str
    """Why it failed, in a sentence."""
    code: str
