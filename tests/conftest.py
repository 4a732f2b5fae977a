"""Tiny model folders and warm ranks for all tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import support.checkout  # noqa: F401 (makes the checkout importable)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tiny(family)` is the folder of that tiny model; do not change what is in it."""
    root = tmp_path_factory.mktemp("tiny")

    def folder(family: str) -> Path:
        if not (root / family).exists():
            from support.tiny_models import write_tiny

            write_tiny(family, root / family)
        return root / family

    return folder


@pytest.fixture(scope="session")
def ranks() -> Iterator[Any]:
    """Four warm gloo ranks, shared by all tests: `ranks.run("module:function", ...)`."""
    from support.ranks import Ranks

    with Ranks(4) as ranks:
        yield ranks
