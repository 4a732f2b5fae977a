"""Runs a little into each other: their order, how many at a time, when the next one starts, and what ends them."""

import _thread
import itertools
import threading
import time

import pytest

from latentloom.nodes.execution.events import Event, Sink
from latentloom.nodes.execution.watch import Attempt, Token, overlapped
from latentloom.nodes.headless.lifetime import interrupts

WAIT_S = 10.0


class Runs:
    """Toy runs that tell of their steps when they are let to, and remember what happened."""

    def __init__(self) -> None:
        self.gates = [threading.Event() for _ in range(4)]
        self.ends = [threading.Event() for _ in range(4)]
        self.started = [threading.Event() for _ in range(4)]
        self.cancelled: list[int] = []
        self.lock = threading.Lock()
        self.active = self.most = 0

    def attempt(self, number: int) -> Attempt[int]:
        def run(sink: Sink, cancel: Token) -> int:
            with self.lock:
                self.active += 1
                self.most = max(self.most, self.active)
            self.started[number].set()
            assert self.gates[number].wait(WAIT_S)
            sink(progress(number))
            deadline = time.monotonic() + WAIT_S
            while not (self.ends[number].is_set() or cancel.is_set()):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            if cancel.is_set() and not self.ends[number].is_set():
                self.cancelled.append(number)
            with self.lock:
                self.active -= 1
            return number

        return run

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self.gates[number].set()
            self.ends[number].set()


def progress(number: int) -> Event:
    return Event(kind="progress", run=str(number))


def ignore(event: Event) -> None:
    pass


@pytest.mark.parametrize("width", [1, 2, 3])
def test_results_come_in_order_and_no_more_than_width_at_a_time(width: int) -> None:
    runs, told = Runs(), []
    runs.open(0, 1, 2, 3)
    found = list(overlapped(map(runs.attempt, range(4)), width=width, sink=told.append, cancel=None))
    assert found == [0, 1, 2, 3] == sorted(int(event.run) for event in told)
    assert runs.most <= width


def test_the_next_run_starts_when_the_steps_of_the_last_have_begun() -> None:
    runs = Runs()
    results = overlapped(map(runs.attempt, range(2)), width=2, sink=ignore, cancel=None)
    taker = threading.Thread(target=lambda: list(results))
    taker.start()
    assert runs.started[0].wait(WAIT_S)
    assert not runs.started[1].wait(0.1)
    runs.gates[0].set()
    assert runs.started[1].wait(WAIT_S)  # while the first one has not ended
    runs.open(0, 1)
    taker.join(WAIT_S)


def test_a_run_without_steps_lets_the_next_one_start_at_its_end() -> None:
    attempts: list[Attempt[int]] = [lambda sink, cancel, number=number: number for number in range(3)]
    assert list(overlapped(attempts, width=2, sink=ignore, cancel=None)) == [0, 1, 2]


def test_who_stops_taking_ends_the_rest_and_starts_no_more() -> None:
    runs = Runs()
    for gate in runs.gates[:3]:
        gate.set()

    def sink(event: Event) -> None:
        if event.run == "1":
            runs.ends[0].set()

    results = overlapped(map(runs.attempt, itertools.count()), width=2, sink=sink, cancel=None)
    assert next(results) == 0
    results.close()
    assert runs.cancelled == [1]
    assert not runs.started[2].is_set()


def test_what_is_over_is_told_before_another_run_starts() -> None:
    runs = Runs()
    runs.open(1)
    failed: Attempt[int] = lambda sink, cancel: 0  # noqa: E731 (as one that fails before its steps)
    results = overlapped([failed, runs.attempt(1)], width=4, sink=ignore, cancel=None)
    assert next(results) == 0
    results.close()  # as at a first error
    assert not runs.started[1].is_set()


def test_a_cancel_from_outside_reaches_all_runs() -> None:
    runs, cancel = Runs(), threading.Event()
    for gate in runs.gates:
        gate.set()

    def sink(event: Event) -> None:
        if event.run == "1":
            cancel.set()

    assert list(overlapped(map(runs.attempt, range(2)), width=2, sink=sink, cancel=cancel)) == [0, 1]
    assert sorted(runs.cancelled) == [0, 1]


@pytest.mark.parametrize("width", [1, 2])
def test_a_signal_that_comes_as_the_wait_begins_is_heard(width: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Python's own stand-in for one: it is marked as come, and wakes nobody."""
    cancel = threading.Event()

    def signalled(sink: Sink, token: Token) -> bool:
        time.sleep(0.3)  # the caller waits by now
        _thread.interrupt_main()
        return cancel.wait(WAIT_S)

    with interrupts(cancel):
        assert list(overlapped([signalled], width=width, sink=ignore, cancel=cancel)) == [True]
    assert "stopping at the next step" in capfd.readouterr().err


def test_a_fault_reaches_the_caller_and_ends_the_others() -> None:
    runs = Runs()
    runs.gates[1].set()

    def broken(sink: Sink, cancel: Token) -> int:
        sink(progress(0))
        assert runs.started[1].wait(WAIT_S)
        raise TypeError("a fault of ours")

    with pytest.raises(TypeError, match="a fault of ours"):
        list(overlapped([broken, runs.attempt(1)], width=2, sink=ignore, cancel=None))
    assert runs.cancelled == [1]
