"""Toy nodes for graph tests: they count their calls, and none of them knows a model."""

from types import ModuleType

import pytest

import support.toys


@pytest.fixture
def toys() -> ModuleType:
    support.toys.reset()
    return support.toys


@pytest.fixture
def specs(toys: ModuleType) -> dict:
    return toys.SPECS
