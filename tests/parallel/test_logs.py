"""What is logged says which run it is about, in words or as JSON, in the host and in its ranks."""

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.errors import RankFailed
from latentloom.parallel.machine import logs
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.pool.server_process import last_line
from latentloom.parallel.progress import Progress

logger = logging.getLogger("latentloom")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers, logger.level = handlers, level


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_of_json_says_when_by_whom_and_of_which_run(capsys: pytest.CaptureFixture[str]) -> None:
    logs.begin({logs.AS_JSON: "1"})
    with logs.about(run="r1"), logs.about(node="paint"):
        logger.warning("%s of two\nlines", "one")
        context = copy_context()
    thread = threading.Thread(target=context.run, args=(logger.error, "in a thread"))
    thread.start()
    thread.join()
    logger.info("too little")
    logger.warning("of no run")
    first, second, third = said(capsys)
    assert (first["level"], first["message"], first["logger"]) == ("warning", "one of two\nlines", "latentloom")
    assert (first["run"], first["node"], first["pid"]) == ("r1", "paint", os.getpid())
    assert abs(datetime.now(UTC) - datetime.fromisoformat(first["time"])).total_seconds() < 60
    assert (second["run"], second["node"], second["level"]) == ("r1", "paint", "error")
    assert not {"run", "node", "rank"} & {*third}


def test_an_exception_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.begin({logs.AS_JSON: "1"}, rank=3)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logger.exception("it failed")
    (told,) = said(capsys)
    assert told["message"] == "it failed" and told["rank"] == 3
    assert told["exception"].startswith("Traceback") and told["exception"].endswith("RuntimeError: broken")


def test_words_name_the_run_too_and_a_level_lets_more_through(capsys: pytest.CaptureFixture[str]) -> None:
    logs.begin({logs.AS_JSON: "1"})
    logs.begin({logs.LEVEL: "INFO"})  # in place of the last one
    with logs.about(run="r1", node=""):
        logger.info("chosen")
    logger.debug("too little")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" info run=r1: chosen")


def test_a_level_that_is_none_is_refused_and_zero_is_no_json() -> None:
    with pytest.raises(ValueError, match="LATENTLOOM_LOG_LEVEL is 'loud'; choose debug, info"):
        logs.begin({logs.LEVEL: "loud"})
    before = list(logger.handlers)
    logs.begin({logs.AS_JSON: "0"})
    assert logger.handlers == before


def test_whoever_imports_the_package_keeps_his_log() -> None:
    source = """
import logging
before = list(logging.root.handlers), logging.root.level
import latentloom.nodes.execution.run, latentloom.__main__
assert (logging.root.handlers, logging.root.level) == before
assert not logging.getLogger("latentloom").handlers and logging.getLogger("latentloom").propagate
"""
    environment = {**os.environ, logs.AS_JSON: "1", logs.LEVEL: "debug"}
    subprocess.run([sys.executable, "-c", source], env=environment, check=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="ranks need Linux")
def test_a_rank_logs_with_the_id_of_the_run_that_it_works_for(
    start_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfRun(Progress):
        owner = "run7"
        node = "paint"

    monkeypatch.setenv(logs.AS_JSON, "1")
    with start_pool(["cpu"]) as pool, pytest.raises(RankFailed, match="broken"):
        pool.call("bodies.pool:fail", {"rank": 0, "kind": "runtime", "text": "broken"}, OfRun())
    log = pool.folder / "rank0.log"
    told = [json.loads(line) for line in log.read_text().splitlines()]
    failed = next(each for each in told if each["message"] == "a job failed")
    assert (failed["run"], failed["node"], failed["rank"], failed["level"]) == ("run7", "paint", 0, "error")
    assert failed["pid"] != os.getpid() and "RuntimeError: broken" in failed["exception"]
    assert last_line(log) == "RuntimeError: broken"
    shutil.rmtree(pool.folder)


def test_what_a_process_said_last_is_told_in_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for text, found in [('{"message": "gone"}', "gone"), ("[1]", "[1]"), ("plain", "plain"), ("", "it said nothing")]:
        log.write_text(text)
        assert last_line(log) == found
