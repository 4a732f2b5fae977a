"""Where a run may read and write files, and the provenance that its results carry."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..pipelines.file_hash import sha256_of
from ..pipelines.values import Place
from .atomic import write_failure

READ = "read"


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A run's folders. Every path is resolved; reading or writing outside the roots is refused.

    `roots` None means anywhere: a call made by hand in Python is the user's own code.
    """

    output_dir: Path = field(default_factory=lambda: Path("output"))
    roots: tuple[Path, ...] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Written into every picture and video, such as the workflow that made it; names are ASCII."""
    claims: dict[Path, object] | None = field(default=None, compare=False)
    """Files that this run reads or writes, so that no two of its nodes meet in one. None: nobody keeps count."""

    place: Place = field(default_factory=Place)
    """Where the models of this run work, whatever the workflow says; no devices: where it says."""

    def input_path(self, path: str, *, socket: str) -> Path:
        """The existing file or folder that `path` names, relative to the first root that has it.

        Raises `ValueError` when it is missing or lies outside the roots (links followed).
        """
        if "\0" in path or not path.strip():
            raise ValueError(f"{socket} is {path!r}; give the path of a file")
        candidates = [Path(path)] if Path(path).is_absolute() else [root / path for root in self.roots or (Path.cwd(),)]
        try:
            found = next((c.resolve() for c in candidates if c.exists()), None)
        except OSError as error:
            raise ValueError(f"{socket} {path[:200]!r} cannot be opened: {error.strerror}; give another path") from None
        if self.roots is not None and not any((found or candidates[0].resolve()).is_relative_to(r) for r in self.roots):
            allowed = ", ".join(map(str, self.roots))
            raise ValueError(
                f"{socket} {path!r} lies outside the allowed folders ({allowed}); "
                "move it there, or allow its folder (--allow DIR on the command line)"
            )
        if found is None:
            where = ", ".join(str(c.parent) for c in candidates)
            raise ValueError(f"{socket} {path!r} does not exist (looked in {where}); check the path")
        if self.claims is not None and self.claims.setdefault(found, READ) != READ:
            raise ValueError(f"{socket} {path!r} is written by another node of this run; wire the two nodes instead")
        return found

    def output_path(self, name: str, *, socket: str) -> Path:
        """Where an output called `name` goes; folders in it are made. Raises `ValueError` outside `output_dir`."""
        root = self.output_dir.resolve()
        target = (root / name).resolve() if "\0" not in name else root
        if target.name.startswith(".") or not target.is_relative_to(root) or target == root:
            raise ValueError(f"{socket} is {name!r}; give a name inside the output folder, such as 'picture'")
        mine = object()
        if self.claims is not None and (other := self.claims.setdefault(target, mine)) is not mine:
            what = "is read by this run" if other == READ else "is written by another node of this run"
            raise ValueError(f"{socket} {name!r} {what}; give each file of a run a name of its own")
        return target

    def check_writable(self) -> None:
        """Raises `ValueError` now rather than after the work, when nothing can be written to `output_dir`."""
        try:
            self.output_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.output_dir) as probe:
                probe.write(b"?")
        except OSError as error:
            raise ValueError(write_failure(self.output_dir, error)) from None


def content_hash(file: Path, *, socket: str) -> str:
    """sha256 of a file's bytes. Raises `ValueError` when it is no readable file."""
    try:
        return sha256_of(file)
    except OSError as error:
        raise ValueError(f"{socket} {str(file)!r} cannot be read ({error.strerror}); give a file") from None


HERE = Workspace()
