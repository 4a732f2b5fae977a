"""A Ray cluster that is called like a pool: jobs go to the agents of its machines, least busy first.

A job that fits into one machine goes to one; a denoise whose plan has k times the ranks of a machine goes to k, whole
branches of guidance to each. Ray starts agents and carries bytes; ranks stay with each machine's own pool.
"""

import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...parallel.errors import RankFailed
from ...parallel.pool.job import Lane
from ...parallel.pool.pool import CHECK_S, check_platform
from ...parallel.progress import SILENT, Progress
from ..values import Place
from .agent import pack
from .head import check_head, connect, count_gpus, machines_alive
from .job import ClusterJob, MachinePart
from .machine import MachineLost, RayMachine, plain_answer, share

logger = logging.getLogger("latentloom")

MAX_ATTEMPTS = 2
START_S = 180.0  # for an agent to import what it needs, or to come back
LOOK_S = 2.0  # between looks at which machines there are


class Cluster:
    """The machines of one cluster, each with an agent for the same devices. Agents end with this process."""

    def __init__(self, address: str, devices: Sequence[str], *, replicas: int = 1, preload: Sequence[str] = ()) -> None:
        check_platform()
        self.address = address
        self.size = len(devices) // replicas  # how many ranks of one machine work together
        self._devices = tuple(devices)
        self._start = partial(RayMachine, devices=self._devices, replicas=replicas, preload=preload)
        self._machines: dict[str, RayMachine] = {}
        self._lock = threading.Lock()
        self._look_time = 0.0
        self._is_asking = False  # whether a thread waits for Ray to say which machines there are
        self._is_gathered = False
        connect(address)
        self._look()

    def call(
        self,
        function: str,
        request: Mapping[str, Any],
        progress: Progress = SILENT,
        *,
        num_ranks: int = 1,
        lane: Lane = "main",
        rank: int = 0,
    ) -> Any:
        """Run a function on ranks and give the first one's answer, as `Pool.call` does. Where an agent or its machine
        is lost, the job is tried once more, elsewhere if it can be.
        """
        order = {"function": function, "num_ranks": min(num_ranks, self.size), "lane": lane, "rank": rank}
        order |= {"owner": progress.owner, "node": progress.node, "previews": progress.wants_previews}
        order |= {"world": None, "answers": True}
        subject = f"{function} {request.get('stage', '')}"
        check_head()
        reference = share(pack(request))
        num_machines = max(1, num_ranks // self.size)
        lost: RayMachine | None = None
        for attempt in range(MAX_ATTEMPTS):
            machines = self._take(num_machines, lane=lane, subject=subject, avoid=lost, progress=progress)
            try:
                orders = self._orders(machines, order, num_ranks)
                found = ClusterJob([MachinePart(machine, each, reference) for machine, each in orders]).run(progress)
            except MachineLost as error:
                lost, again = error.machine, f"{error.machine.name} {error}"
                if attempt + 1 == MAX_ATTEMPTS:
                    raise RankFailed(f"{again}, for the second time in this job, so it is given up") from None
                logger.warning("%s; the job starts again", again)
                progress.again(f"starting again: {again}")
            else:
                for machine in machines:
                    machine.done.add(subject)
                return found
            finally:
                self._release(machines, lane)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        for machine in self._machines.values():
            machine.close()
        self._machines.clear()

    def _orders(
        self, machines: Sequence[RayMachine], order: Mapping[str, Any], num_ranks: int
    ) -> list[tuple[RayMachine, dict[str, Any]]]:
        """What each machine is asked for. A group over several is made anew for each job: all must join it."""
        if len(machines) == 1:
            return [(machines[0], dict(order))]
        try:
            store = plain_answer(machines[0].ask("meeting"))
        except MachineLost as lost:
            raise machines[0].lose(lost) from None
        world = {"name": f"cluster-{uuid.uuid4().hex}", "store": store, "size": num_ranks}
        return [
            (machine, {**order, "world": {**world, "first": index * self.size}, "answers": index == 0})
            for index, machine in enumerate(machines)
        ]

    def _take(
        self, count: int, *, lane: Lane, subject: str, avoid: RayMachine | None, progress: Progress
    ) -> list[RayMachine]:
        """The least busy machines, counted as busy from now on; waits for their agents."""
        deadline = time.monotonic() + START_S
        while True:
            progress.check()
            check_head()
            self._look()
            with self._lock:
                working = [machine for machine in self._machines.values() if not machine.problem]
                if len(working) < count:
                    problems = [machine.problem for machine in self._machines.values() if machine.problem]
                    few = too_few(count, len(working), num_gpus=count_gpus(self._devices), address=self.address)
                    raise ValueError(problems[0] if problems else few)
                ready = [machine for machine in working if machine.is_ready]
                self._is_gathered = self._is_gathered or len(ready) == len(working)
                late = time.monotonic() > deadline
                if len(ready) >= count and (self._is_gathered or late):
                    chosen = sorted(ready, key=lambda m: _busyness(m, lane, subject, avoid))[:count]
                    for machine in chosen:
                        machine.jobs[lane] += 1
                    return sorted(chosen, key=lambda machine: machine.node)
            if late:
                raise RankFailed(
                    f"{len(ready)} of the {count} machines that the job needs answered in {START_S:.0f} s; are their "
                    f"CPUs and GPUs taken by others? See `ray status --address={self.address}`"
                )
            time.sleep(CHECK_S)

    def _release(self, machines: Sequence[RayMachine], lane: Lane) -> None:
        with self._lock:
            for machine in machines:
                machine.jobs[lane] -= 1

    def _look(self) -> None:
        """Find new machines, forget those that are gone, and hear which agents are ready."""
        nodes = self._ask_nodes()
        with self._lock:
            if nodes is not None:
                for gone in self._machines.keys() - nodes.keys():
                    self._machines.pop(gone).is_ready = False
                for new in sorted(nodes.keys() - self._machines.keys()):
                    self._machines[new] = self._start(nodes[new])
            for machine in self._machines.values():
                was_well = not machine.problem
                machine.look()
                if was_well and machine.problem:
                    logger.warning("%s; it gets no work", machine.problem)

    def _ask_nodes(self) -> dict[str, Any] | None:
        """Which machines there are, by id; None where that is known well enough, or another thread asks already."""
        with self._lock:
            if self._is_asking or time.monotonic() - self._look_time <= LOOK_S:
                return None
            self._is_asking, self._look_time = True, time.monotonic()
        try:  # without the lock: a head that is lost is waited for, and jobs that are done give their machines back
            return {node["NodeID"]: node for node in machines_alive(self._devices)}
        finally:
            self._is_asking = False


class Clusters:
    """This process's clusters, one for each place."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, tuple[str, ...], int], Cluster] = {}
        self._lock = threading.Lock()

    def of(self, place: Place, *, preload: Sequence[str] = ()) -> Cluster:
        """The cluster that a place names, its agents warm or starting."""
        key = (place.cluster, place.devices, place.replicas)
        with self._lock:
            if key not in self._clusters:
                self._clusters[key] = Cluster(*key[:2], replicas=key[2], preload=preload)
            return self._clusters[key]

    def close(self) -> None:
        with self._lock:
            for cluster in self._clusters.values():
                cluster.close()
            self._clusters.clear()


CLUSTERS = Clusters()


def too_few(count: int, present: int, *, num_gpus: int, address: str) -> str:
    """Why there are not machines enough, whether or not others work on them."""
    what = f"{num_gpus} GPU{'s' if num_gpus > 1 else ''}" if num_gpus else "a CPU"
    return (
        f"the job needs {count} machine{'s' if count > 1 else ''} with {what}{' each' if count > 1 else ''}, "
        f"but cluster {address} has {present or 'none'}; "
        "add machines with `ray start --address=HOST:PORT`, or use fewer devices"
    )


def _busyness(machine: RayMachine, lane: Lane, subject: str, avoid: RayMachine | None) -> tuple[Any, ...]:
    """Less is better: few jobs, and of those with equally few the one that has loaded what this job needs."""
    return machine is avoid, machine.jobs[lane], machine.jobs.total(), subject not in machine.done
