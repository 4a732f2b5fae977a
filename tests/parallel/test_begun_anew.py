"""Where a module starts CUDA when it is imported, ranks are not forked as they are: each begins anew, and works."""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.trial import trial
from support.pool_processes import field, is_gone, server_of, spare_of, wait_until

TESTS = str(Path(__file__).resolve().parent.parent)
PRELOAD = ["bodies.starts_cuda", "bodies.pool"]


def test_ranks_begin_anew_and_die_with_their_server_as_others_do_and_the_module_is_named_once(
    start_pool: Callable[..., Pool], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with start_pool(["cpu"] * 2, preload=PRELOAD) as pool:
        first = begun(pool)
        server, spare = server_of(pool), spare_of(pool)
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: all(map(is_gone, first)))
        begun(pool)
        assert server_of(pool) == spare and pool.culprit == "bodies.starts_cuda"
    told = [record.getMessage() for record in caplog.records if "starts CUDA" in record.getMessage()]
    assert len(told) == 1 and told[0].startswith("importing bodies.starts_cuda starts CUDA, which")


def begun(pool: Pool) -> list[int]:
    """The ranks' pids, once they have worked together."""
    found = pool.call_every("bodies.pool:add_up", {}, num_ranks=2)
    assert [each["sums"] for each in found] == [[3.0, 3.0]] * 2
    pids = [state.pid for state in pool.states()]
    for pid in pids:
        assert b':rank_main"' in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert field(pid, "PPid") == str(server_of(pool))
    return pids


def test_the_trial_preloads_names_the_module_and_joins_a_rank_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))
    tried = trial(["cpu"], preload=PRELOAD)
    assert tried.says.startswith("1 rank on cpu started, met and ended in ")
    assert tried.says.endswith("each imports for itself, because importing bodies.starts_cuda starts CUDA")
    assert tried.mend == "update the package of bodies.starts_cuda, or remove it where nothing needs it"
