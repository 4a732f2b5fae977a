"""Tiny model folders and warm ranks for all tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import support.checkout

RANKS = {"tests/parallel", "tests/test_devices.py", "tests/test_ranks.py"} | {
    f"tests/pipelines/test_{name}.py"
    for name in ("cluster", "drills", "loaded", "placement", "rank_work", "shared_pages", "verify")
}
"""Folders and files that start ranks, or look at what processes of this machine leave."""
GROUPS = {"ranks": {"ranks", "pair"}, "page": {"start_page", "web", "new_profile"}}
"""The fixtures whose tests share warm processes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under `-n 2 --dist loadgroup` one process runs what starts ranks, and the other what does not, file by file.

    So ranks and pages are warm once, no two tests with deadlines run side by side, and fixtures of a module are made
    once. Without pytest-xdist, or with one process, nothing is changed.
    """
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    path = item.path.relative_to(support.checkout.ROOT)
    if not RANKS.isdisjoint(map(str, (path, *path.parents))):
        return "ranks"
    fixtures = set(getattr(item, "fixturenames", ()))
    return next((group for group, shared in GROUPS.items() if not shared.isdisjoint(fixtures)), path.stem)


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
