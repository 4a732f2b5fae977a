"""Tiny model folders for the tests of this folder, each written once per session, when first asked for."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).resolve().parent.parent


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
