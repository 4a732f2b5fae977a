"""Where this user's results, measurements and choices are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path | None:
    """Below `XDG_CACHE_HOME`, else the home; None for a user without a home."""
    return user_folder("XDG_CACHE_HOME", ".cache")


def user_folder(variable: str, below_home: str) -> Path | None:
    try:
        base = os.environ.get(variable) or _home() / below_home
    except RuntimeError:
        return None
    return Path(base) / "latentloom"


def _home() -> Path:
    return Path.home()
