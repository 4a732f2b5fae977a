"""How far a training run has come, and the loop that takes it further."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from .command import Stretch

REPORT_STEPS = 100


@dataclass(kw_only=True)
class Progress:
    """What a run's checkpoint tells besides its tensors. `curve` holds [step, seconds, mean loss] rows."""

    step: int = 0
    spent_s: float = 0.0
    curve: list[list[float]] = field(default_factory=list)


class Run(Protocol):
    """A training under way, of either network."""

    progress: Progress

    def learn(self, step: int) -> Tensor:
        """One step of the optimizer; returns the loss."""
        ...

    def save(self, path: Path) -> None: ...

    def restore(self, path: Path) -> None: ...


def clock_of(device: str) -> Callable[[], float]:
    """Seconds that count: on a CPU, where others may share it, those of all its threads; elsewhere wall time."""
    return time.process_time if device == "cpu" else time.perf_counter


def advance(run: Run, stretch: Stretch, state: Path, *, num_steps: int, batch: int, device: str) -> None:
    """Let the run learn to the end of its schedule of `num_steps`, or of the stretch. `state` is its checkpoint.

    Reports and saves every 100 steps and at the end; reads the losses only then, because reading one waits for the
    device. Minutes are those of `clock_of`.
    """
    if stretch.resume and state.exists():
        run.restore(state)
    progress = run.progress
    last_step = num_steps if stretch.last_step is None else stretch.last_step
    clock = clock_of(device)
    losses: list[Tensor] = []
    begin = clock() - progress.spent_s
    stop_s = progress.spent_s + 60 * stretch.minutes
    last_s = progress.spent_s
    while progress.step < last_step and progress.spent_s < stop_s:
        losses.append(run.learn(progress.step).detach())
        progress.step += 1
        if progress.step % REPORT_STEPS == 0:
            loss = torch.stack(losses).mean().item()
            progress.spent_s = clock() - begin
            rate = len(losses) * batch / (progress.spent_s - last_s)
            row = [progress.step, round(progress.spent_s, 1), round(loss, 5)]
            print(
                "{} step {}, {} s, loss {}".format(time.strftime("%H:%M:%S"), *row), f"{rate:.0f} samples/s", flush=True
            )
            progress.curve.append(row)
            losses.clear()
            run.save(state)
            last_s = progress.spent_s
        progress.spent_s = clock() - begin
    if losses:
        run.save(state)
