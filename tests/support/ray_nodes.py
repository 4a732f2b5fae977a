"""A Ray cluster of two nodes on this machine, which stand for two machines; without dashboard and telemetry."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
OPTIONS: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
ATTEMPTS = 3  # Ray gives a node 30 s to start, which may be too little on a busy machine


@contextlib.contextmanager
def two_nodes() -> Iterator[str]:
    """The cluster's address; its processes end with the context, and agents find this folder's modules."""
    with _head() as nodes:
        _patiently(lambda: nodes.add_node(**OPTIONS))
        yield nodes.address


@contextlib.contextmanager
def one_node() -> Iterator[tuple[str, int]]:
    """The address of a cluster that is a head and no more, and the process that it stands and falls with."""
    with _head() as nodes:
        yield nodes.address, nodes.head_node.all_processes["gcs_server"][0].process.pid


@contextlib.contextmanager
def _head() -> Iterator[Any]:
    environment = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # or agents wait for all other tests
        "PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    import ray
    from ray.cluster_utils import Cluster

    nodes = _patiently(lambda: Cluster(initialize_head=True, head_node_args=OPTIONS))
    try:
        yield nodes
    finally:
        if ray.is_initialized() and ray.get_runtime_context().gcs_address == nodes.address:
            ray.shutdown()
        with warnings.catch_warnings():  # Ray leaves its daemons' pipes and logs to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            nodes.shutdown()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _patiently(start: Any) -> Any:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(Exception):  # Ray raises no class of its own here
            return start()
    return start()
