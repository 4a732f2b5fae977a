"""The page's own files, built from `ui/web` and shipped: a fixed table, so that no request names a path."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain", ".json": "application/json"}
NEEDED = ("loom.js", "loom.css")
# What a script needs before it begins, as esbuild writes it; what it may want later it asks `import()` for.
IMPORTED = re.compile(r'(?:from|import)"\./([\w.]+)"')


@dataclass(frozen=True)
class Bundle:
    """`version` changes with any of the files, so that browsers may keep them for ever."""

    files: dict[str, Path]
    version: str
    parts: tuple[str, ...] = ()  # the scripts that `loom.js` needs before it begins

    def address(self, name: str) -> str:
        return f"loom/static/{name}?v={self.version}"


def read_bundle(folder: Path = STATIC) -> Bundle:
    """Raises `ValueError` where the page was not built."""
    files = {path.name: path for path in sorted(folder.glob("*")) if path.suffix in MEDIA_TYPES and path.is_file()}
    if missing := [name for name in NEEDED if name not in files]:
        raise ValueError(
            f"the page's files {' and '.join(missing)} are not in {folder}; install latentloom again, or build them "
            "in a checkout: cd ui/web && npm ci && npm run build"
        )
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(name.encode() + path.read_bytes())
    found = ["loom.js"]
    for name in found:  # grows meanwhile: by what each imports
        told = IMPORTED.findall(files[name].read_text(encoding="utf-8")) if name in files else []
        found += [part for part in dict.fromkeys(told) if part not in found]
    return Bundle(files=files, version=digest.hexdigest()[:12], parts=tuple(found[1:]))
