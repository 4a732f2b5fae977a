"""What a node's progress tells: phases, steps with their pace, and how work was spread."""

import sys
import threading
from typing import Any

import pytest

from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.watch import NodeProgress, Watch
from latentloom.nodes.headless.terminal import ProgressBars
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import RankWork

RANKS = [RankWork(rank=0, device="cpu", seconds=1.0, sent_bytes=8, exchanges=2)]


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    now = {"s": 0.0}
    monkeypatch.setattr("latentloom.nodes.execution.watch.time.perf_counter", lambda: now["s"])
    return now


def test_steps_tell_how_long_they_took_and_what_is_left(told: list[Event], clock: dict[str, float]) -> None:
    progress = NodeProgress("denoise", Watch(told.append, threading.Event(), previews=False))
    clock["s"] = 10.0
    progress.phase("denoising")
    for done, now in ((1, 15.0), (2, 17.0), (3, 19.0), (4, 22.0), (5, 24.0)):
        clock["s"] = now
        progress.step(done, 5)
    steps = [(event.done, event.seconds, event.left_s) for event in told if event.kind == "progress"]
    # the first step warms up and predicts nothing, one more may be a hiccup, and after the last none is left
    assert steps == [(1, 5.0, None), (2, 2.0, None), (3, 2.0, 4.0), (4, 3.0, 7 / 3), (5, 2.0, None)]
    assert "left_s" not in told[1].to_plain()  # rather than 0


def test_another_phase_is_timed_anew(told: list[Event], clock: dict[str, float]) -> None:
    progress = NodeProgress("denoise", Watch(told.append, threading.Event(), previews=False))
    for offset in (0.0, 100.0):
        progress.phase("denoising")
        for done in (1, 2, 3):
            clock["s"] = offset + done * (1 + offset)
            progress.step(done, 9)
    assert [event.left_s for event in told if event.kind == "progress"] == [None, None, 6.0, None, None, 606.0]


def test_a_cancel_is_raised_by_a_look_too(told: list[Event]) -> None:
    token = threading.Event()
    progress = NodeProgress("denoise", Watch(told.append, token, previews=False))
    progress.check()
    token.set()
    with pytest.raises(Cancelled):
        progress.check()


def test_how_work_was_spread_is_an_event_and_kept(told: list[Event]) -> None:
    progress = NodeProgress("denoise", Watch(told.append, threading.Event(), previews=False))
    progress.spread("ring=2", RANKS)
    plain: dict[str, Any] = told[0].to_plain()
    assert (progress.plan, progress.ranks) == ("ring=2", tuple(RANKS))
    assert plain["message"] == "ring=2" and plain["ranks"][0]["sent_bytes"] == 8


@pytest.mark.parametrize("is_terminal", [True, False])
def test_people_are_shown_what_loads_whatever_its_text_and_what_fails_and_a_file_whole_lines(
    told: list[Event], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    progress = NodeProgress("n", Watch(told.append, threading.Event(), previews=False))
    progress.phase("charge le transformer", is_loading=True)
    progress.phase("loading is over")
    assert [event.to_plain().get("is_loading") for event in told] == [True, None]
    bars = ProgressBars({})
    for step in range(1, 9):
        progress.step(step, 8)
    ends = [Event(kind="failed", run="", node="m"), Event(kind="run_cancelled", run=told[0].run)]
    for event in (*told, *ends):
        bars(event)
    written = capsys.readouterr().err
    lines = [line for line in written.splitlines() if line.strip() and "step/s" not in line]
    steps = [] if is_terminal else [f"n                  {done} of 8 steps" for done in (2, 4, 6, 8)]
    assert lines == ["n                  charge le transformer", *steps, "m                  failed"]
    assert ("\r" in written, bool(bars._bars)) == (is_terminal, False)
