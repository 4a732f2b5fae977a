"""A warm pool of three ranks on the CPU, whose ranks find `bodies.pool`."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.attention import choice
from latentloom.parallel.pool.limits import Limits
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.ranks.channel import Channel
from support.warm_server import pools_from

TESTS = str(Path(__file__).resolve().parent.parent)
TORCHRUN = {"MASTER_ADDR": "203.0.113.1", "MASTER_PORT": "29500", "RANK": "7", "WORLD_SIZE": "9"}


@pytest.fixture
def ends() -> Iterator[Callable[[Any], tuple[Channel[Any], socket.socket]]]:
    """Makes both ends of a connection, of which the first hears these messages; they are closed afterwards."""
    with contextlib.ExitStack() as stack:
        yield lambda hears: tuple(map(stack.enter_context, map(contextlib.closing, Channel.pair(hears))))


@pytest.fixture
def untried() -> Iterator[None]:
    """No kernel has been tried yet, and what is found here is forgotten."""
    caches = choice.choose.cache_clear, choice.chosen.cache_clear, choice.fault.cache_clear, choice._found.clear
    for clear in caches:
        clear()
    yield
    for clear in caches:
        clear()


@pytest.fixture(scope="session")
def start_pool() -> Callable[..., Pool]:
    """Starts a pool as `Pool(...)` does, in a thread that ends at once, in a host that has a launcher's environment."""

    def start(devices: Sequence[str], **options: Any) -> Pool:
        pools: list[Pool] = []
        with pytest.MonkeyPatch.context() as patch:
            path = os.environ.get("PYTHONPATH", "")
            patch.setenv("PYTHONPATH", os.pathsep.join([TESTS, *path.split(os.pathsep)]) if path else TESTS)
            for name, value in TORCHRUN.items():
                patch.setenv(name, value)
            options = {"preload": ["bodies.pool"], **options}
            thread = threading.Thread(target=lambda: pools.append(Pool(devices, **options)))
            thread.start()
            thread.join()
            pools[0].call("bodies.pool:echo", {})  # the server has this environment by now
        return pools[0]

    return start


@pytest.fixture(scope="session")
def start_warm_pool(start_pool: Callable[..., Pool], warm_server: Any) -> Callable[..., Pool]:
    """As `start_pool`, but its fork server has imported everything already."""

    def start(devices: Sequence[str], **options: Any) -> Pool:
        with pools_from(warm_server):
            return start_pool(devices, **options)

    return start


@pytest.fixture(scope="session")
def pool(start_pool: Callable[..., Pool]) -> Iterator[Pool]:
    """Three ranks; a test leaves them alive."""
    with start_pool(["cpu"] * 3, limits=Limits(silence_s=10, work_s=60)) as pool:
        yield pool
