"""Pools without an import of their own: their fork servers are forked from one, as its spares are.

For tests of what ranks do; how a pool starts is told by tests/parallel/test_pool*.py and by every process of its own.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from latentloom.parallel.pool.server_process import ServerProcess
from latentloom.parallel.ranks.messages import FROM_SERVER, ForkSpare
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.pools import preloads
from support.checkout import TESTS

# Beside what the built-in model needs: what tests run in ranks.
MORE = (
    "bodies.pool",
    ".pipelines.families.by_blocks",
    ".pipelines.families.wan",
    ".pipelines.whole.pooled",
    "diffusers:QwenImagePipeline",
    "diffusers:WanPipeline",
)


class Forked(ServerProcess):
    def close(self) -> int | None:
        self.kill()  # asked to end, it would wait for the host to be gone and then end the one it comes from
        return super().close()


@contextlib.contextmanager
def warm_server(folder: Path, preload: Sequence[str] | None = None) -> Iterator[ServerProcess]:
    """With what most tests need, unless they say."""
    preload = preload or [*preloads(describe_model("builtin:bobbin", device="cpu")), *MORE]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS / "bench"), os.environ.get("PYTHONPATH", "")])
        )
        server = ServerProcess.start(folder / "server.log", preload, num_gpus=0)
    yield server
    server.close()


@contextlib.contextmanager
def pools_from(server: ServerProcess) -> Iterator[None]:
    """Every pool that this process starts meanwhile."""

    def start(log: Path, preload: Sequence[str], *, num_gpus: int) -> ServerProcess:
        return Forked(server._ask(ForkSpare(), FROM_SERVER))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerProcess, "start", start)
        yield
