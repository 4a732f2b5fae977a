"""Seeded damaged copies of a model: each gives one ValueError or loads; no other error, no hang, no code run."""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import describe_model
from support.audit import Audit
from support.damage import damage_model


@pytest.mark.parametrize("num_copies", [50, pytest.param(300, marks=pytest.mark.by_hand)])
def test_damaged_models_give_one_sentence_or_load(
    tiny: Callable[[str], Path], tmp_path: Path, audit: Audit, num_copies: int
) -> None:
    originals = [tiny("flux"), tiny("wan_i2v")]
    for original in originals:  # imports and first-use caches are not what is watched
        load_everything(original)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.json").write_text("{}")
    outcomes = {"refused": 0, "loaded": 0}
    for seed in range(num_copies):
        copy = tmp_path / f"copy{seed}"
        shutil.copytree(originals[seed % 2], copy, copy_function=os.link)
        what = damage_model(copy, random.Random(seed))
        began = time.monotonic()
        with audit.watching(copy):
            outcome = try_to_load(copy, what)
        assert time.monotonic() - began < 20, f"seed {seed}: {what} took too long"
        assert not audit.offences, f"seed {seed}: {what}: {audit.offences[:5]}"
        assert not (tmp_path / "CANARY").exists() and not Path("CANARY").exists(), f"seed {seed}: {what}"
        outcomes[outcome] += 1
        shutil.rmtree(copy)
    assert outcomes["refused"] > num_copies / 2, outcomes


def try_to_load(folder: Path, what: str) -> str:
    try:
        load_everything(folder)
    except ValueError as error:
        message = str(error)
        assert 20 < len(message) < 1500, f"{what}: {message!r}"
        assert "\n" not in message, f"{what}: {message!r}"
        return "refused"
    return "loaded"


def load_everything(folder: Path) -> None:
    model = describe_model(str(folder), device="cpu", roots=[folder.parent / folder.name])
    ComponentStore().load(model, tuple(inspect_model(folder).components))


@pytest.fixture(scope="module")
def audit() -> Iterator[Audit]:
    yield Audit()
