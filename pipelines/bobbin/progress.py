"""How far a training run has come, and the loop that takes it further."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

REPORT_STEPS = 100


@dataclass(kw_only=True)
class Progress:
    """What a run's checkpoint tells besides its tensors. `curve` holds [step, processor seconds, mean loss] rows."""

    step: int = 0
    cpu_s: float = 0.0
    curve: list[list[float]] = field(default_factory=list)


def advance(
    progress: Progress,
    learn: Callable[[int], float],
    *,
    keep: Callable[[], None],
    last_step: int,
    minutes: float,
) -> None:
    """Call `learn(step)`, which returns a loss, until `last_step` or until this call has used its minutes of processor
    time (others may share the processor); report and `keep` every 100 steps and at the end."""
    losses: list[float] = []
    begin = time.process_time() - progress.cpu_s
    stop_s = progress.cpu_s + 60 * minutes
    while progress.step < last_step and progress.cpu_s < stop_s:
        losses.append(learn(progress.step))
        progress.step += 1
        progress.cpu_s = time.process_time() - begin
        if progress.step % REPORT_STEPS == 0:
            row = [progress.step, round(progress.cpu_s, 1), round(float(np.mean(losses)), 5)]
            print("step {}, {} s, loss {}".format(*row), flush=True)
            progress.curve.append(row)
            losses.clear()
            keep()
    keep()
