"""`latentloom verify`: a real model both ways on new ranks, and what it says when they are not equal."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from latentloom.__main__ import main
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.verify import Verdict, _references, verdict_of

pytestmark = pytest.mark.usefixtures("warm_pools")


def test_a_plan_that_is_exact_passes(tiny: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["verify", "--model", str(tiny("flux")), "--plan", "ring=2", "--plan", "cfg=2", "--json"])
    ring, cfg = json.loads(capsys.readouterr().out)
    assert code == 0
    assert ring["is_equal"] and cfg["is_equal"]
    assert ring["sent_bytes"][0] > cfg["sent_bytes"][0] > 0


@pytest.mark.parametrize("name", ["wan22_i2v", "wan_flf2v"])
def test_a_model_with_a_first_frame_is_verified_with_one(name: str, tiny: Callable[[str], Path]) -> None:
    """And with a last frame, where it needs that too."""
    plans = [f"--plan={each}=2" for each in ("ulysses", "allgather", "cfg", "ring")]
    assert main(["verify", "--model", str(tiny(name)), *plans, "--size", "32x48"]) == 0


def test_a_model_that_needs_a_picture_is_verified_with_one(tiny: Callable[[str], Path]) -> None:
    seen = [
        _references(describe_model(str(tiny(name)), device="cpu")) for name in ("qwen_image_edit_plus", "flux_kontext")
    ]
    assert seen[0] is not None and len(seen[0].pictures) == 1
    assert seen[1] is None


def verdict(**changes: object) -> Verdict:
    values = {
        "plan": "ulysses=2",
        "difference": 2e-5,
        "largest": 3.0,
        "tolerance": 1e-5,
        "sent_bytes": (1_000_000, 2_000_000),
        "calls": (4, 4),
        "is_same_everywhere": True,
    }
    return Verdict(**{**values, **changes})


def test_a_verdict_says_what_was_found() -> None:
    said = str(verdict())
    assert said.startswith("ulysses=2: pass, largest difference 2e-05 of 3")
    assert "each rank sent 2.00 MB in 4 exchanges" in said


@pytest.mark.parametrize("changes", [{"difference": 4e-5}, {"is_same_everywhere": False}, {"difference": float("nan")}])
def test_a_difference_fails(changes: dict[str, object]) -> None:
    assert not verdict(**changes).is_equal
    assert "FAIL" in str(verdict(**changes))


NEAR, FAR, NONE = (1e-3, 1000.0), (1e-3, 1.0), (float("nan"), 1.0)


@pytest.mark.parametrize(
    ("ranks", "is_equal"),
    [((NEAR, NEAR), True), ((NEAR, FAR), False), ((FAR, NEAR), False), ((NEAR, NONE), False), ((NONE, NEAR), False)],
)
def test_the_verdict_is_that_of_the_rank_which_is_farthest_off(
    ranks: tuple[tuple[float, float], ...], is_equal: bool
) -> None:
    answers = [
        {"difference": difference, "largest": largest, "mark": 1, "sent_bytes": 1, "calls": 1}
        for difference, largest in ranks
    ]
    assert verdict_of(ParallelPlan(ulysses=2), answers, tolerance=1e-5).is_equal == is_equal


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plan", "spiral=2"], "'spiral=2' is no axis"),
        (["--size", "big"], "write width and height in pixels, like 512x768"),
        (["--size", "0x512"], "write width and height in pixels, like 512x768"),
        (["--plan", "ulysses=2", "--plan", "ulysses=3"], "verify them one by one"),
        (["--plan", "ulysses=1"], "verify one of several: ulysses=2"),
        (["--plan", "ulysses=2", "--size", "33x64"], "no size that"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: list[str], words: str, tiny: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(tiny("flux"))
    capsys.readouterr()  # what diffusers said if this test was the first to make it
    assert main(["verify", "--model", model, *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
