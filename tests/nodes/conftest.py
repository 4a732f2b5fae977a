"""Toy nodes for graph tests: they count their calls, and none of them knows a model."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load_toys() -> ModuleType:
    """`toys.py` beside this file, found without a package because of pytest's --import-mode=importlib."""
    if "latentloom_toys" not in sys.modules:
        spec = importlib.util.spec_from_file_location("latentloom_toys", Path(__file__).with_name("toys.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["latentloom_toys"] = module
        spec.loader.exec_module(module)
    return sys.modules["latentloom_toys"]


@pytest.fixture
def toys() -> ModuleType:
    module = load_toys()
    module.reset()
    return module


@pytest.fixture
def specs(toys: ModuleType) -> dict:
    return toys.SPECS
