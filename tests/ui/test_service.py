"""`latentloom serve`: what it answers without a page, its probes and metrics, and how it drains."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from latentloom.__main__ import main
from latentloom.ui.access.tokens import Tokens
from latentloom.ui.errors import Draining
from latentloom.ui.service import health as health_module
from latentloom.ui.service.app import make_app
from latentloom.ui.service.health import Health
from latentloom.ui.worker.process import WorkerProcess
from support.service import TEXT, serve, wait
from support.toy_server import OPEN, REACHED, finished, gated, reset, runs_in, until

TOKEN = "a-token-of-this-test"
MINE = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def asked() -> list[bool]:
    """Whether the service was asked to end."""
    return []


@pytest.fixture
def changes() -> dict[str, Any]:
    return {"tokens": Tokens(None, TOKEN), "allowed_hosts": ("latentloom.farm.svc",)}


@pytest.fixture
def service(server: Any, asked: list[bool]) -> Iterator[Any]:
    from starlette.testclient import TestClient

    app = make_app(server, Health(server, lambda: bool(asked)))
    with TestClient(app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False) as client:
        yield client


def test_all_but_probes_needs_a_token(service: Any) -> None:
    open_paths = ("/livez", "/readyz", "/health")
    assert [service.get(path).status_code for path in open_paths] == [200] * 3
    assert [service.head(path).status_code for path in open_paths] == [200] * 3
    closed = ("/metrics", "/loom/me", "/loom/openapi.json", "/loom/nothing", "/nothing", "/docs", "/openapi.json")
    assert [service.get(path).status_code for path in closed] == [401] * len(closed)
    assert [service.get(path, headers=MINE).status_code for path in closed[:3]] == [200] * 3
    assert [service.get(path, headers=MINE).json()["code"] for path in closed[3:]] == ["not-here"] * 4
    assert service.put("/livez", headers=MINE).status_code == 405


@pytest.mark.parametrize(
    ("host", "probe", "me"),
    [("latentloom.farm.svc", 200, 200), ("LATENTLOOM.farm.svc:80", 200, 200), ("evil", 200, 403)],
)
def test_a_name_that_was_allowed_is_answered_and_probes_under_any(service: Any, host: str, probe: int, me: int) -> None:
    assert [service.get(path, headers={"Host": host}).status_code for path in ("/livez", "/readyz")] == [probe] * 2
    assert service.get("/loom/me", headers={**MINE, "Host": host}).status_code == me


def test_each_answer_has_an_id_and_each_request_a_line(service: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "latentloom.access")
    told = service.get("/loom/me", headers={**MINE, "X-Request-Id": "mine-1"})
    assert told.headers["X-Request-Id"] == "mine-1"
    made = service.get("/loom/me", headers={"X-Request-Id": "not one\n"}).headers["X-Request-Id"]
    service.get("/livez")
    lines = [record.getMessage() for record in caplog.records if record.name == "latentloom.access"]
    assert [line.split(" ")[:3] for line in lines] == [["GET", "/loom/me", "200"], ["GET", "/loom/me", "401"]]
    assert lines[0].endswith(" ms user=env id=mine-1") and lines[1].endswith(f"user=- id={made}")
    assert TOKEN not in caplog.text


def test_what_describes_the_api_is_valid_and_says_who_may_ask(service: Any) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    told = service.get("/loom/openapi.json", headers=MINE).json()
    validator.validate(told)
    asked = {path: each for path, ways in told["paths"].items() for each in ways.values()}
    assert {*told["components"]["securitySchemes"]} == {"bearer", "session"}
    assert asked["/livez"]["security"] == asked["/readyz"]["security"] == [] and "security" not in asked["/metrics"]
    kinds = {"graphs", "library", "apps", "runs", "files", "page", "service", "openai"}
    assert {each["tags"][0] for each in asked.values()} == kinds
    ids = [each["operationId"] for ways in told["paths"].values() for each in ways.values()]
    assert "start_run" in ids and not [id for id in ids if id.endswith(("_post", "_get"))]


def test_readiness_says_why_it_is_not(
    service: Any, server: Any, asked: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[int, str]:
        answer = service.get("/readyz")
        return answer.status_code, answer.json()["state"]

    assert told() == (200, "ok")
    with monkeypatch.context() as patched:
        patched.setattr(health_module, "FREE_BYTES", 1 << 80)
        assert told() == (503, "disk")
    for state in ("starting", "worker", "ranks"):
        monkeypatch.setattr(server.runs.work, "state", lambda state=state: state)
        assert told() == (503, state)
    asked.append(True)
    assert told() == (503, "draining") and service.get("/livez").status_code == 200


def test_a_worker_that_died_is_begun_anew_by_who_asks_for_readiness(tmp_path: Path) -> None:
    work = WorkerProcess(tmp_path)
    try:
        assert work.state() == "starting"
        wait(lambda: work.state() == "ok")
        first = work.pid
        os.kill(first, signal.SIGKILL)
        wait(lambda: work.pid != first)
        wait(lambda: work.state() == "ok")
        assert work.starts == 2 and work.pid not in (0, first)
    finally:
        work.close()


def test_metrics_are_read_by_prometheus_own_parser(service: Any, server: Any, first: dict[str, Any]) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    runs = [service.post("/loom/runs", json={"graph": graph}, headers=MINE) for graph in (TEXT, TEXT, first)]
    ids = [id for run in runs for id in run.json()["runs"]]
    wait(lambda: all(service.get(f"/loom/runs/{id}", headers=MINE).json()["state"] == "done" for id in ids))
    text = service.get("/metrics", headers=MINE).text
    found = {
        (sample.name.removeprefix("latentloom_"), *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found[("runs_total", "ok", "done")] >= 3 and found[("queue_runs",)] == 0
    assert found[("stage_seconds_count", "LoomDenoise")] == 1 and found[("stage_seconds_sum", "LoomDenoise")] > 0
    assert found[("run_seconds_bucket", "+Inf")] == found[("run_seconds_count",)] == found[("wait_seconds_count",)]
    assert found[("cached_nodes_total", "memory")] >= 1
    assert found[("rank_restarts_total",)] == 0 and found[("memory_bytes", "server")] > 1 << 20
    assert found[("ready",)] == 1 and ("sent_bytes_total",) in found


def test_without_its_package_metrics_are_refused_by_name(
    service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "latentloom.ui.service.metrics", raising=False)
    answer = service.get("/metrics", headers=MINE)
    assert answer.status_code == 404 and "pip install 'latentloom[serve]'" in answer.json()["error"]
    folders = ["--data-dir", str(tmp_path / "d"), "--output-dir", str(tmp_path / "o"), "--port", "7999"]
    assert main(["serve", "--metrics-port", "7998", *folders]) == 2
    assert "latentloom[serve]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "0.0.0.0"], "--tokens FILE"),
        (["--grace", "-1"], "--grace is -1; give seconds"),
        (["--allow-host", "http://x"], "give a name without port"),
        (["--max-waiting", "0"], "--max-waiting is 0; give a number from 1 to 1000"),
        (["--tokens", "none.txt"], "--tokens none.txt cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert main(["serve", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_drain_ends_what_runs_and_keeps_what_waits(tmp_path: Path) -> None:
    reset()
    with runs_in(tmp_path) as runs:
        first, second = (runs.submit("ann", gated(name)).runs[0] for name in ("one", "two"))
        until(REACHED["one"].is_set)
        drain = Thread(target=runs.drain, args=(60,))
        drain.start()
        until(lambda: runs.is_draining)
        with pytest.raises(Draining, match="takes no more runs"):
            runs.submit("ann", gated("three"))
        OPEN["one"].set()
        drain.join(60)
        assert not drain.is_alive() and finished(runs, "ann", first).state == "done"
        assert runs.get("ann", second).state == "waiting" and not REACHED["two"].is_set()
    with runs_in(tmp_path) as runs:
        OPEN["two"].set()
        assert finished(runs, "ann", second).state == "done" and runs.get("ann", second).note == ""


def test_a_run_that_is_looked_at_when_a_drain_begins_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reset()
    with runs_in(tmp_path) as runs:

        def sound(*given: Any, looked: Any = runs._sound, **named: Any) -> Any:
            runs.drain(0)
            return looked(*given, **named)

        monkeypatch.setattr(runs, "_sound", sound)
        with pytest.raises(Draining, match="takes no more runs"):
            runs.submit("ann", gated("one"))
        assert not runs.list("ann")


def test_a_service_that_is_asked_to_end_says_so_at_once_and_ends_what_runs(
    tmp_path: Path, first: dict[str, Any]
) -> None:
    first["nodes"]["denoise"]["inputs"]["steps"] = 40
    serving = serve(tmp_path, "--grace", "120")
    with serving.process as process, serving.client as client:
        asked = {"graph": first, "sweep": ["seed=1..2"]}
        one, two = client.post("/loom/runs", json=asked).json()["runs"]
        wait(lambda: client.get(f"/loom/runs/{one}").json()["state"] == "running")
        process.send_signal(signal.SIGTERM)
        wait(lambda: serving.code("/readyz") == 503)
        assert serving.code("/livez") == 200
        wait(lambda: late(client, first) == (503, "draining", "5"))
        assert process.wait(120) == 0
    again = serve(tmp_path)
    with again.process as process, again.client as client:
        ended = client.get(f"/loom/runs/{one}").json()
        assert (ended["state"], ended["note"]) == ("done", "")
        wait(lambda: client.get(f"/loom/runs/{two}").json()["state"] == "done")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def late(client: httpx.Client, graph: dict[str, Any]) -> tuple[int, str, str]:
    answer = client.post("/loom/runs", json={"graph": graph})
    return answer.status_code, answer.json().get("code", ""), answer.headers.get("Retry-After", "")
