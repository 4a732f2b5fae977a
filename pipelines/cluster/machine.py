"""A machine of a Ray cluster as the host sees it: its agent, asked by name, and Ray's errors in our words.

Only this module and `head.py` know Ray. It starts nothing but actors, which end with this process.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...parallel.errors import LoomError, RankFailed
from ...parallel.machine.deadline import within
from .agent import unpack, versions
from .head import count_gpus

ANSWER_S = 30.0  # for an agent that is there to answer a question
AGAIN_S = 0.2  # between attempts to reach an agent that Ray is starting again
KILL_S = 5.0  # for Ray to take the order to end an agent
MAX_CALLS = 64  # how many calls an agent answers at a time: two for each job, and cancels


class MachineLost(LoomError):
    """An agent died, its machine is gone, or it is silent. `machine` is set by whoever asked."""

    code = "machine-lost"
    machine: RayMachine


class RayMachine:
    """One agent. The actor comes back by itself where Ray can start it again, with a new pool."""

    def __init__(
        self, node: Mapping[str, Any], *, devices: Sequence[str], replicas: int, preload: Sequence[str]
    ) -> None:
        self.node: str = node["NodeID"]
        self.name = f"machine {node['NodeManagerAddress']} ({self.node[:6]})"
        self.jobs: Counter[str] = Counter()  # how many are under way, by lane
        self.done: set[str] = set()  # what it has done before, and so has loaded
        self.problem = ""  # why it can never work for us
        self.is_ready = False
        # GPUs count from 0 on each machine, among those that Ray has set apart for the agent.
        numbers = iter(range(len(devices)))
        renumbered = [f"cuda:{next(numbers)}" if device.startswith("cuda") else device for device in devices]
        config = {"devices": renumbered, "replicas": replicas, "preload": list(preload)}
        config["address"] = node["NodeManagerAddress"]
        self._actor = _start_agent(self.node, num_gpus=count_gpus(devices), config=config)
        self._hello: Any = None
        self._ask_time = 0.0

    def ask(self, method: str, *args: Any) -> Any:
        """A reference to the agent's answer, which `answer` waits for."""
        return self._actor.ask.remote(method, *args)

    def look(self) -> None:
        """Find out, without waiting, whether the agent has become ready or has a problem."""
        if self.is_ready or self.problem:
            return
        if self._hello is None:
            if time.monotonic() - self._ask_time >= AGAIN_S:
                self._hello, self._ask_time = self.ask("hello"), time.monotonic()
        elif ready([self._hello], timeout_s=0):
            reference, self._hello = self._hello, None
            with contextlib.suppress(MachineLost):  # Ray is starting it, or knows soon that the machine is gone
                self._meet(answer(reference))

    def lose(self, lost: MachineLost, *, is_silent: bool = False) -> MachineLost:
        """Count the machine's agent as lost: its pool is gone, and whatever that had loaded."""
        lost.machine = self
        self.is_ready, self.done = False, set()
        if is_silent:
            _kill(self._actor, no_restart=False)
        return lost

    def close(self) -> None:
        import ray

        if ray.is_initialized():
            _kill(self._actor, no_restart=True)

    def _meet(self, hello: str) -> None:
        if not hello.startswith("{"):
            self.problem = f"{self.name}: {hello}"
            return
        told = json.loads(hello)
        for name, ours in versions().items():
            if (theirs := told["versions"][name]) != ours:
                self.problem = f"{self.name} has {name} {theirs}, and this one has {ours}; install the same"
                return
        self.is_ready = told["is_ready"]


def ready(references: Sequence[Any], *, timeout_s: float) -> list[Any]:
    """Which of the calls have an answer; waits until one has."""
    import ray

    found, _ = ray.wait(list(references), timeout=timeout_s)
    return found


def answer(reference: Any, *, timeout_s: float = ANSWER_S) -> Any:
    """What an agent has answered. Raises `MachineLost`."""
    import ray
    import ray.exceptions

    try:
        return ray.get(reference, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError:
        raise MachineLost(f"gave no answer in {timeout_s:g} s") from None
    except ray.exceptions.ActorUnavailableError:
        raise MachineLost("lost its agent, or cannot be reached") from None
    except ray.exceptions.ActorDiedError:
        raise MachineLost("lost its agent, which was killed, or is gone altogether") from None
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise MachineLost(f"failed in Ray: {lines[-1][:300]}") from None


def plain_answer(reference: Any, *, timeout_s: float = ANSWER_S) -> Any:
    """What an agent has answered in packed bytes; one that was started again and is broken says why instead."""
    found = answer(reference, timeout_s=timeout_s)
    if isinstance(found, str):
        raise MachineLost(f"cannot work: {found}")
    return unpack(found)


def share(data: bytes) -> Any:
    """Put into the cluster's memory what several machines will read."""
    import ray
    import ray.exceptions

    try:
        return ray.put(data)
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise RankFailed(
            f"the request of {len(data) >> 20} MiB does not fit into Ray's object store: {reason}"
        ) from None


def _kill(actor: Any, *, no_restart: bool) -> None:
    """Have Ray kill an agent, as far as the head can be asked to."""
    import ray

    with contextlib.suppress(TimeoutError):
        within(lambda: ray.kill(actor, no_restart=no_restart), timeout_s=KILL_S)


def _start_agent(node: str, *, num_gpus: int, config: Mapping[str, Any]) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    package = (__package__ or "").partition(".")[0]
    options = {
        "num_cpus": 1,
        "num_gpus": num_gpus,
        "max_restarts": -1,
        # `Cluster.call` tries a job again. Ray's own retry waits for this actor on this machine, also where another is
        # well or this one is gone, and tells nobody; and of a job over several machines it would repeat one part,
        # whose others have left their meeting.
        "max_task_retries": 0,
        "max_concurrency": MAX_CALLS,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
    }
    actor: Any = ray.remote(_boot())
    return actor.options(**options).remote(package, str(Path(__file__).resolve().parents[2]), dict(config))


def _boot() -> type:
    """The actor's class, which Ray carries over as code, because its machine may find our package elsewhere."""

    class Boot:
        def __init__(self, package: str, root: str, config: dict[str, Any]) -> None:
            import importlib
            import importlib.util
            import sys

            self.problem, self.agent = "", None
            try:
                if importlib.util.find_spec(package) is None:  # the host's folder may be on this machine too
                    spec: Any = importlib.util.spec_from_file_location(
                        package, f"{root}/__init__.py", submodule_search_locations=[root]
                    )
                    sys.modules[package] = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(sys.modules[package])
                found = importlib.import_module(f"{package}.pipelines.cluster.agent")
                self.agent = found.Agent(**config)
            except FileNotFoundError:
                self.problem = f"{package} is not installed there; install it into the Python that Ray runs with"
            except Exception as error:  # one that ends the actor would be told at length, and never mended
                self.problem = f"{package} does not start there: {type(error).__name__}: {error}"

        def ask(self, method: str, *args: Any) -> Any:
            return self.problem or getattr(self.agent, method)(*args)

    return Boot
