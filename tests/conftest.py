"""Tiny model folders and warm ranks for all tests."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.machine import folders

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also of what tests start: more threads than cores only wait
os.environ["LATENTLOOM_SELF_CHECK"] = (
    "0"  # but for the tests of it: a check costs small steps, at each plan's first use
)
os.environ["LATENTLOOM_SAFETY_CHECKER"] = "0"  # its package is no dependency; tests of it set this otherwise
gc.disable()  # until all is collected: nothing of it is garbage, and each collection would go through it

ON_RANKS = """cluster cosmos drills loaded masked modular modular_blocks modulation noise placement pooled prepared
rank_work read_together requests rows self_check shared_pages split_vae spread step_cache stored_shares tensorrt
verified verify waiting"""
# What takes longest, by how its path begins, the longest first, as workers take it: it shares warm processes, which are
# ranks or a browser, or what is made once in a process: the tables that read bobbin's pictures, and all of diffusers
# imported. Clocks of faults and drills are in seconds that a process may want which was killed, or waits its turn,
# beside two groups more.
GROUPS = {
    "ranks of pipelines": [
        *(f"tests/test_{name}.py" for name in ("devices", "doors", "layers", "ranks", "readme")),
        *(f"tests/pipelines/test_{name}.py" for name in ON_RANKS.split()),
        *(f"tests/nodes/test_{name}.py" for name in ("python", "run_pipeline")),
    ],
    "ranks": ["tests/parallel/"],
    "page": [*(f"tests/ui/test_page_{begin}" for begin in (*"abcdeflm", "run.")), "tests/ui/test_ui_command.py"],
    "more of the page": [
        *(f"tests/ui/test_{name}" for name in ("page_", "readme_example.")),
        *(f"tests/ui/test_{name}." for name in ("bundle", "page_accessible")),  # what npm gets
    ],
    "bobbin": ["tests/bobbin/", "tests/pipelines/test_model_folder."],
    "diffusers": [f"tests/pipelines/test_{name}.py" for name in ("signatures", "tiny_pipelines")],
}


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported stays: no collection of garbage goes through it
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker("gpu")
    if mark is not None:
        from support.gpu import fits

        if not fits(mark.kwargs.get("or_cpu", "")):
            pytest.skip("needs a CUDA device: `pytest -m gpu` where there is one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker: the longest groups come first, so that all workers end at about one time."""
    if hasattr(config, "workerinput"):
        order = {group: number for number, group in enumerate(GROUPS)}
        items.sort(key=lambda item: order.get(_group(item.nodeid), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker runs each group; then all the rest, file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByGroup(config, log)


def _group(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    fits = [(len(path), group) for group, paths in GROUPS.items() for path in paths if file.startswith(path)]
    return max(fits, default=(0, file))[1]


def no_home() -> Path:
    raise RuntimeError("tests have no home")


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test has encoded, the next encodes again; and what its user measured of this machine, no test knows."""
    monkeypatch.setattr(folders, "_home", no_home)
    if (module := sys.modules.get("latentloom.pipelines.kept")) is not None:
        module.KEPT.clear()


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


@pytest.fixture(scope="session")
def warm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from support.warm_server import warm_server

    with warm_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def warm_pools(warm_server: Any) -> Iterator[None]:
    """The pools of a module start without importing what others have imported: seconds each time."""
    from support.warm_server import pools_from

    with pools_from(warm_server):
        yield
