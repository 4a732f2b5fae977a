"""Names and folders that users give: any writing, but no control characters and nothing that could be a path."""

from __future__ import annotations

import unicodedata

MAX_NAME = 200
MAX_FOLDER = 200
MAX_DEPTH = 8
TURNS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"


def checked_name(name: str) -> str:
    """Raises `ValueError`."""
    name = name.strip()
    if not name or len(name) > MAX_NAME or _has_controls(name):
        got = f"has {len(name)} characters" if len(name) > MAX_NAME else f"is {name[:50]!r}"
        raise ValueError(f"the name {got}; give 1 to {MAX_NAME} characters, without line breaks")
    return name


def checked_folder(folder: str) -> str:
    """`a/b`, or nothing for the top. A folder is a label: it never becomes a path. Raises `ValueError`."""
    parts = [part.strip() for part in folder.split("/") if part.strip()]
    if len(folder) > MAX_FOLDER or len(parts) > MAX_DEPTH or _has_controls(folder) or {".", ".."} & set(parts):
        raise ValueError(
            f"the folder is {folder[:50]!r}; give names with / between them, at most {MAX_DEPTH} deep and "
            f"{MAX_FOLDER} characters in all"
        )
    return "/".join(parts)


def _has_controls(text: str) -> bool:
    """Line breaks, surrogates, and marks that turn the direction of the text around them."""
    return any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in TURNS for c in text)
