"""Make the checkout importable as `latentloom`, whatever its folder is called, and give tests tiny model folders."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
if str(TESTS) not in sys.path:  # what ranks run is imported by name, here and there
    sys.path.append(str(TESTS))

if importlib.util.find_spec("latentloom") is None:
    spec = importlib.util.spec_from_file_location(
        "latentloom", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["latentloom"] = module
    spec.loader.exec_module(module)


def load_by_path(name: str) -> ModuleType:
    """Import `tests/NAME.py`; under importmode=importlib the tests' folder is not on the path."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tiny(family)` is the folder of that tiny model; do not change what is in it."""
    root = tmp_path_factory.mktemp("tiny")

    def folder(family: str) -> Path:
        if not (root / family).exists():
            load_by_path("tiny_tokenizers")
            load_by_path("tiny_models").write_tiny(family, root / family)
        return root / family

    return folder


@pytest.fixture(scope="session")
def ranks() -> Iterator[Any]:
    """Four warm gloo ranks, shared by all tests: `ranks.run("module:function", ...)`."""
    from ranks import Ranks

    with Ranks(4) as ranks:
        yield ranks
