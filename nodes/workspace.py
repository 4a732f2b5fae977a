"""Where a run may read and write files, and the provenance that its results carry."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .atomic import replacing


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A run's folders. Every path is resolved; reading or writing outside the roots is refused.

    `roots` None means anywhere: a call made by hand in Python is the user's own code.
    """

    output_dir: Path = field(default_factory=lambda: Path("output").resolve())
    roots: tuple[Path, ...] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Written into every picture and video, such as the workflow that made it; names are ASCII."""

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
                f"{socket} {path!r} lies outside the allowed folders ({allowed}); move it there or allow its folder"
            )
        if found is None:
            where = ", ".join(str(c.parent) for c in candidates)
            raise ValueError(f"{socket} {path!r} does not exist (looked in {where}); check the path")
        return found

    def output_path(self, name: str, *, socket: str) -> Path:
        """Where an output called `name` goes; folders in it are made. Raises `ValueError` outside `output_dir`."""
        root = self.output_dir.resolve()
        target = (root / name).resolve() if "\0" not in name else root
        if target.name.startswith(".") or not target.is_relative_to(root) or target == root:
            raise ValueError(f"{socket} is {name!r}; give a name inside the output folder, such as 'picture'")
        return target

    def check_writable(self) -> None:
        """Raises `ValueError` now rather than after the work, when nothing can be written to `output_dir`."""
        with replacing(self.output_dir / "writable") as probe:
            probe.write_bytes(b"?")
        (self.output_dir / "writable").unlink()


def content_hash(file: Path, *, socket: str) -> str:
    """sha256 of a file's bytes. Raises `ValueError` when it is no readable file."""
    try:
        with file.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{socket} {str(file)!r} cannot be read ({error.strerror}); give a file") from None


HERE = Workspace()
