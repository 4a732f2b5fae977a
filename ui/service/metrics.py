"""What a service tells Prometheus, made anew for each look: queue, runs, stages, memory, ranks, predictions.

It is imported where somebody asks: prometheus-client need not be installed.
"""

import logging
import time
from collections.abc import Iterator, Mapping

import psutil
from prometheus_client import CollectorRegistry, Metric, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily

from ...parallel.machine.now import devices_now
from ..runs.tally import ALL, COUNTS, Seconds
from ..server import Server
from .health import Health

logger = logging.getLogger("latentloom")

PREFIX = "latentloom_"


class Metrics:
    """A collector."""

    def __init__(self, server: Server, health: Health) -> None:
        self._server, self._health = server, health
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def listen(self, port: int) -> None:
        """Answer on the loopback, without a token, until the process ends. Raises `ValueError`."""
        try:
            start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except (OSError, OverflowError) as error:
            raise ValueError(f"--metrics-port {port} cannot be listened on ({error}); give another") from None

    def collect(self) -> Iterator[Metric]:
        yield from self._queue()
        yield from list(self._runs())  # at once: it holds a lock
        yield from self._machine()

    def _queue(self) -> Iterator[Metric]:
        waiting, running, left_s = self._server.runs.book.queue()
        oldest = min((run.created for run in waiting), default=time.time())
        yield _gauge("queue_runs", "Runs that wait.", len(waiting))
        yield _gauge("queue_oldest_seconds", "For how long the oldest of them has waited.", time.time() - oldest)
        yield _gauge("queue_seconds", "What runs that wait and run will take, as far as that is known.", left_s)
        yield _gauge("running_runs", "Runs that are under way.", len(running))
        yield _gauge("ready", "Whether it may be sent work, as /readyz says.", float(self._health.state() == "ok"))

    def _runs(self) -> Iterator[Metric]:
        tally = self._server.runs.book.tally
        with tally.lock:
            for name, (labels, says) in COUNTS.items():
                yield _counter(name, says, labels, tally.counts[name])
            yield _histogram("wait_seconds", "For how long runs waited before they began.", tally.waited)
            yield _histogram("run_seconds", "What runs took from their beginning.", tally.took)
            stages = SummaryMetricFamily(PREFIX + "stage_seconds", "What nodes took, by their type.", labels=["stage"])
            for stage, seconds in tally.stages.items():
                stages.add_metric([stage], count_value=seconds.counts[ALL], sum_value=seconds.sum_s)
            yield stages

    def _machine(self) -> Iterator[Metric]:
        work = self._server.runs.work
        yield _counter("rank_restarts", "Ranks that died and were replaced.", "", {(): work.restarts})
        yield _counter("worker_restarts", "Workers that died and were replaced.", "", {(): max(0, work.starts - 1)})
        memory = GaugeMetricFamily(PREFIX + "memory_bytes", "Resident memory.", labels=["process"])
        for name, num_bytes in resident_bytes(work.pid).items():
            memory.add_metric([name], num_bytes)
        yield memory
        used = GaugeMetricFamily(PREFIX + "device_used_bytes", "Memory in use, whoever uses it.", labels=["device"])
        try:
            for device in devices_now():
                used.add_metric([device.name], device.used_bytes)
        except Exception:  # all other numbers are told without it
            logger.warning("the devices could not be looked at", exc_info=True)
        yield used


def resident_bytes(worker: int) -> dict[str, int]:
    """Of the server, of the worker, and of its ranks with the process that forks them; shared memory counts in each."""
    found = {"server": psutil.Process().memory_info().rss, "worker": 0, "ranks": 0}
    try:
        process = psutil.Process(worker) if worker else None
        for each in [process, *process.children(recursive=True)] if process is not None else []:
            found["worker" if each is process else "ranks"] += each.memory_info().rss
    except psutil.Error:  # one has just ended
        pass
    return found


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, says, value=value)


def _counter(name: str, says: str, labels: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, says, labels=labels.split())
    for key, value in (values or ({} if labels else {(): 0})).items():
        family.add_metric(key, value)
    return family


def _histogram(name: str, says: str, seconds: Seconds) -> Metric:
    return HistogramMetricFamily(PREFIX + name, says, buckets=[*seconds.counts.items()], sum_value=seconds.sum_s)
