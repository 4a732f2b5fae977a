"""Toy nodes for graph tests: they count their calls, and none of them knows a model."""

from collections.abc import Iterator
from types import ModuleType

import pytest

import support.toys
from latentloom.pipelines.whole import called


@pytest.fixture(autouse=True, scope="module")
def _dropped() -> Iterator[None]:
    yield
    called.forget()


@pytest.fixture
def toys() -> ModuleType:
    support.toys.reset()
    return support.toys


@pytest.fixture
def specs(toys: ModuleType) -> dict:
    return toys.SPECS
