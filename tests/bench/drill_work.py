"""The work of a drill: pictures of the built-in model, made by a warm pool, and what its ranks do meanwhile."""

import contextlib
import dataclasses
import itertools
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.progress import SILENT, Progress
from latentloom.pipelines import placement
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.requests import Decode, Denoise, EncodeText
from latentloom.pipelines.values import Conditioning, Latents, Model, Place

PLANS = {2: "ulysses=2", 3: "allgather=3", 4: "cfg=2,allgather=2"}
DEADLINE_S = 120.0  # for every wait of a drill: whatever takes longer hangs
SEEDS = 2
LOAD_S = 0.5  # from the beginning of a denoise, what new ranks load by then
NOTICE_S = 10.0
MOMENTS = ("load", "encode", "step", "decode", "idle")


class Moment(Progress):
    """Where a job is, and when each of its stages and steps began."""

    def __init__(self) -> None:
        self.stage = ""
        self.steps: list[float] = []
        self.starts: dict[str, float] = {}
        # What is done when a stage begins, or once a step was told: `step 2`.
        self.hooks: dict[str, Callable[[], object]] = {}

    def enter(self, stage: str) -> None:
        self.stage = stage
        self.starts[stage] = time.monotonic()
        self.hooks.get(stage, lambda: None)()

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self.steps.append(time.monotonic())
        self.hooks.pop(f"step {done}", lambda: None)()  # once: a job may be tried again


class Log(logging.Handler):
    """What the pool has told of its ranks, and when."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((time.monotonic(), record.getMessage()))

    def first(self, words: str, *, since: float) -> float | None:
        return next((when for when, line in list(self.lines) if when >= since and words in line), None)

    def last(self, words: str, *, since: float) -> float | None:
        return next((when for when, line in reversed(self.lines) if when >= since and words in line), None)


@dataclass(frozen=True, kw_only=True)
class Struck:
    """A picture during which something was done."""

    time: float
    is_equal: bool  # whether every byte is as it is undisturbed
    took_s: float


class Work:
    """A pool on these devices; pictures of seeds, and what they look like undisturbed."""

    def __init__(
        self,
        devices: Sequence[str],
        *,
        steps: int = 8,
        size: int = 64,
        limits: Limits | None = None,
        is_measured: bool = True,
        spare_ranks: bool = False,
    ) -> None:
        bench = str(Path(__file__).resolve().parent)
        os.environ["PYTHONPATH"] = os.pathsep.join([bench, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        place = Place(devices=tuple(devices), plan=PLANS[len(devices)])
        self.model: Model = dataclasses.replace(describe_model("builtin:bobbin", device=devices[0]), place=place)
        self.num_steps = steps
        self.size = size
        self.devices = place.devices
        self.num_ranks = len(devices)
        self.limits = limits or Limits()
        self.log = Log()
        logger = logging.getLogger("latentloom")
        logger.addHandler(self.log)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        preload = [*placement.preloads(self.model), "drill_bodies"]
        self.pool = Pool(place.devices, preload=preload, limits=self.limits, spare_ranks=spare_ranks)
        self._using, placement.POOLS.using = placement.POOLS.using, lambda *_: contextlib.nullcontext(self.pool)
        self._threads = ThreadPoolExecutor(4)
        self.expected = [self.picture(seed) for seed in range(SEEDS)] if is_measured else []
        self.durations = self._durations() if is_measured else {}

    def close(self) -> None:
        placement.POOLS.using = self._using
        self.pool.close()
        self._threads.shutdown()
        logging.getLogger("latentloom").removeHandler(self.log)

    def __enter__(self) -> "Work":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def named(self, rank: int) -> str:
        """A rank as the pool calls it."""
        return f"rank {rank} ({self.devices[rank]})"

    def start(self, seed: int, progress: Progress = SILENT) -> "Future[bytes]":
        return self._threads.submit(self.picture, seed, progress)

    def result(self, future: "Future[bytes]") -> bytes:
        """Raises TimeoutError for what hangs."""
        return future.result(DEADLINE_S)

    def picture(self, seed: int, progress: Progress = SILENT) -> bytes:
        """From prompt to pixels, each stage where the model's place says."""
        enter = progress.enter if isinstance(progress, Moment) else lambda stage: None
        enter("encode")
        conditioning = placement.encode_text(EncodeText(model=self.model, prompt="a red star"), progress)
        enter("step")
        latents = placement.denoise(self.denoise_request(conditioning, seed), progress)
        enter("decode")
        pixels = placement.decode(Decode(model=self.model, latents=latents), progress).pixels
        enter("idle")
        return pixels.numpy().tobytes()

    def denoise_request(self, conditioning: Conditioning, seed: int) -> Denoise:
        canvas = Latents(family=self.model.family, width=self.size, height=self.size)
        return Denoise(model=self.model, conditioning=conditioning, latents=canvas, seed=seed, steps=self.num_steps)

    def struck(self, moment: str, seed: int, strike: Callable[[], None], *, chance: random.Random) -> "Struck":
        """A picture, and what is done at a random time within one of its stages; `load` is that of the denoise."""
        progress, times = Moment(), list[float]()
        while not all(rank.is_ready for rank in self.pool._supervisor._crew.spares.ranks):
            time.sleep(0.002)

        def act() -> None:
            times.append(time.monotonic())
            strike()

        if moment == "load":
            self.forget()
        stage = "step" if moment == "load" else moment
        wait_s = chance.random() * (LOAD_S if moment == "load" else self.durations.get(stage, 0.0))
        progress.hooks[stage] = lambda: (later(wait_s, act), None)[1]
        start = time.monotonic()
        pixels = self.result(self.start(seed, progress))
        took_s = time.monotonic() - start
        while not times:  # the stage was over sooner than thought
            time.sleep(0.001)
        return Struck(time=times[0], is_equal=pixels == self.expected[seed], took_s=took_s)

    def forget(self) -> None:
        """Replace all ranks, so that the next job loads."""
        since = time.monotonic()
        for state in self.pool.states():
            os.kill(state.pid, signal.SIGKILL)
        self.wait_ready(since)

    def noticed(self, words: str, *, since: float) -> float:
        """When the pool said so; waits for it, as the job itself may have."""
        end = max(since, time.monotonic()) + NOTICE_S
        while (found := self.log.first(words, since=since)) is None:
            said = [line for _, line in self.log.lines[-5:]]
            assert time.monotonic() < end, f"{words!r} was not said in {NOTICE_S:g} s; the pool said {said}"
            time.sleep(0.001)
        return found

    def wait_ready(self, since: float = 0.0) -> float:
        """Until all ranks are there and have joined one another after `since`; when they had."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            joined = self.log.last("have joined", since=since)
            born = self.log.last("is ready", since=since)
            if all(state.is_ready for state in self.pool.states()) and joined and joined >= (born or 0):
                return joined
            time.sleep(0.002)
        raise TimeoutError("the ranks have not come back")

    def _durations(self) -> dict[str, float]:
        """Seconds of each stage and of a step, warm; the shortest of them all."""
        found: dict[str, list[float]] = {}
        for seed in range(SEEDS):
            moment = Moment()
            self.picture(seed, moment)
            stages = [*moment.starts.items()]
            for (name, start), (_, end) in itertools.pairwise(stages):
                found.setdefault(name, []).append(end - start)
            gaps = [b - a for a, b in itertools.pairwise(moment.steps)]
            found.setdefault("one step", []).append(max(gaps))
        return {name: min(values) for name, values in found.items()}


def later(seconds: float, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(max(0.0, seconds), act)
    timer.daemon = True
    timer.start()
    return timer
