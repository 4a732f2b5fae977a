"""Tiny model folders and warm ranks for all tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

GROUPS = {
    "ranks": [
        "tests/parallel/",
        "tests/test_devices.py",
        "tests/test_doors.py",
        "tests/test_ranks.py",
        *(
            f"tests/pipelines/test_{name}.py"
            for name in ("cluster", "drills", "loaded", "masked", "placement", "rank_work", "shared_pages", "split_vae")
        ),
        *(f"tests/pipelines/test_{name}.py" for name in ("step_cache", "stored_shares", "verify")),
    ],
    "page": ["tests/ui/test_page_", "tests/ui/test_bundle.py"],
}
"""What shares warm processes, by how its path begins: it starts ranks, or a browser. These take longest."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker of `-n 2`: what shares warm processes comes first, so that both workers end at about one time."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _group(item.nodeid) not in GROUPS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `-n 2` one worker runs what starts ranks, the other the page's tests; then both the rest, file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByGroup(config, log)


def _group(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((group for group, paths in GROUPS.items() if file.startswith(tuple(paths))), file)


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
