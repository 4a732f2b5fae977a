"""The gate: what it says of true pictures, and of pictures of something else."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bobbin import evaluate
from bobbin.world.render import render
from bobbin.world.scene import Scene, Thing
from bobbin.world.wording import caption

pytestmark = pytest.mark.by_hand
NUMS = {1: 1, 2: 1, 3: 1}
RED_CUBE = Scene(things=(Thing(colour="red", shape="cube", material="matte"),))


def whole(scene: Scene) -> Scene:
    """With what the prompt leaves open."""
    things = tuple(replace(thing, size=thing.size or "large") for thing in scene.things)
    return replace(scene, things=things, ground=scene.ground or "sand")


def run_gate(monkeypatch: pytest.MonkeyPatch, sheet: Path, *, is_true: bool) -> int:
    """The exit code, when a picture shows what its prompt says, or always a red cube."""
    asked = [scene for n, num in NUMS.items() for scene in evaluate.prompts(n, num)]
    scenes = {caption(scene): scene for scene in asked} if is_true else {}

    def rendered(captions: Sequence[str], **options: Any) -> list[np.ndarray]:
        shown = [whole(scenes.get(text, RED_CUBE)) for text in captions]
        return list(render(shown, random.Random(0)).numpy())

    monkeypatch.setattr(evaluate, "draw", rendered)
    monkeypatch.setattr(evaluate, "NUMS", NUMS)
    monkeypatch.setattr(evaluate, "SHEET", 2)
    monkeypatch.setattr("sys.argv", ["evaluate", "--model", "unused", "--sheet", str(sheet)])
    return evaluate.main()


@pytest.mark.parametrize(("is_true", "code", "told"), [(True, 0, "held"), (False, 1, "missed")])
def test_the_gate_is_held_by_true_pictures_and_missed_by_others(
    is_true: bool,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_gate(monkeypatch, tmp_path / "sheet.png", is_true=is_true) == code
    printed = capsys.readouterr().out
    assert f"1 object: the gate of 98% is {told}" in printed and f"2 objects: the gate of 90% is {told}" in printed
    assert (tmp_path / "sheet.png").is_file()


def test_another_series_has_other_prompts() -> None:
    assert evaluate.prompts(2, 5) == evaluate.prompts(2, 5)
    assert evaluate.prompts(2, 5) != evaluate.prompts(2, 5, series="other")
