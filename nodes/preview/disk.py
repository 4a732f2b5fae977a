"""Whether the disk has room for what a run will write, by what codings take at most."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Mapping

from ...parallel.wording import worded
from ...pipelines.forecast.remedies import MIB, amount
from ..files.workspace import Host, Workspace
from .walk import Walk

MOST_ASKED = 500
"""Nodes that save."""
FREE: Mapping[Host, str] = {
    "python": "free some space, or choose another output folder",
    "command line": "free some space, or choose another folder with --out",
    "page": "delete some results, or tell who runs this server",
    "comfyui": "free some space",
}


def written(walk: Walk, needed: Collection[str]) -> dict[str, int]:
    """How many bytes of files each of the needed nodes would save, where that is known."""
    found: dict[str, int] = {}
    saving = [name for name, spec in walk.specs.items() if spec.writes is not None and name in needed]
    for name in saving[:MOST_ASKED]:
        with contextlib.suppress(ValueError):
            num_bytes = walk.tells(name, "writes")
            found |= {name: num_bytes} if isinstance(num_bytes, int) and num_bytes else {}
    return found


def why_no_room(num_bytes: int, workspace: Workspace, *, what: str = "this run") -> str:
    """ "" where there is room in the output folder, or where nobody can tell."""
    folder = workspace.output_dir.absolute()
    try:
        disk = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir()))
    except OSError:
        return ""
    if num_bytes <= disk.free or not disk.total:  # none of a system's own folders, such as /proc
        return ""
    where = "the server's disk" if workspace.host == "page" else str(workspace.output_dir)
    return worded(
        "{} may write {} to {}, where {} are free; {}",
        what,
        amount(max(num_bytes, MIB)),
        where,
        amount(disk.free),
        FREE[workspace.host],
    )
