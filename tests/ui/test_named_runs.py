"""Runs as programs ask for them: by name, with values; once for each key; waited for, and heard event by event."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from latentloom.nodes.headless.stream import schema
from latentloom.ui.api import following
from latentloom.ui.live import lines
from latentloom.ui.runs.once import Asked
from support.toy_server import OPEN, REACHED, copying, finished, gated, pictured, png, runs_in, until

SIZE = {"empty_latents.width": 64, "empty_latents.height": 48, "denoise.steps": 1}


LINE = schema("line")


def post(client: Any, path: str, key: str = "", **body: Any) -> Any:
    return client.post(f"/loom/{path}", json=body, headers={"Idempotency-Key": key} if key else {})


def over(client: Any, run: str) -> dict[str, Any]:
    answer = client.get(f"/loom/runs/{run}?wait=60")
    assert answer.json()["state"] in ("done", "failed", "cancelled")
    return answer.json()


def told(client: Any, run: str, last: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The events of a run's stream, each with its id."""
    answer = client.get(f"/loom/runs/{run}/events", headers={"Last-Event-ID": last} if last else {})
    assert answer.headers["content-type"].startswith("text/event-stream")
    parts = [dict(line.split(": ", 1) for line in part.splitlines()) for part in answer.text.split("\n\n") if part]
    return [(part["id"], json.loads(part["data"])) for part in parts if "data" in part]


def test_a_template_runs_by_name_with_params_inputs_and_a_sweep(client: Any) -> None:
    params = {"prompt": "a blue ring", **SIZE, "denoise.steps": "1"}
    sent = post(client, "workflows/first_picture/runs", params=params, sweep=["seed=4..5"], priority="next").json()
    rows = [over(client, run) for run in sent["runs"]]
    assert [(row["state"], row["priority"], row["overrides"]["seed"]) for row in rows] == [
        ("done", "next", 4),
        ("done", "next", 5),
    ]
    made = client.get("/loom/results").json()
    assert {(each["width"], each["height"], each["prompt"]) for each in made} == {(64, 48, "a blue ring")}


def test_a_saved_workflow_runs_by_its_id_and_by_its_name(client: Any) -> None:
    path = client.post("/loom/uploads", content=png(8, 8)).json()["path"]
    kept = client.post("/loom/workflows", json={"graph": copying(path), "name": "a copy"}).json()["id"]
    for name in (kept, "a%20copy"):
        [run] = post(client, f"workflows/{name}/runs").json()["runs"]
        assert (over(client, run)["state"], over(client, run)["workflow_id"]) == ("done", kept)


@pytest.mark.parametrize(
    ("name", "said", "status", "words"),
    [
        ("first_pictur", {}, 404, "did you mean first_picture?"),
        ("first_picture", {"params": {"promt": "x"}}, 400, "did you mean 'prompt'?"),
        ("first_picture", {"params": {"denoise.steps": "many"}}, 400, "it takes a whole number"),
        ("first_picture", {"params": {"denoise.stepz": 2}}, 400, "steps"),
        ("first_picture", {"params": {"seed": 1}, "sweep": ["seed=1..2"]}, 400, "leave one of them out"),
        ("first_picture", {"param": {}}, 400, "param of the request is wrong"),
    ],
)
def test_what_cannot_be_run_by_name_is_told(client: Any, name: str, said: Any, status: int, words: str) -> None:
    refused = post(client, f"workflows/{name}/runs", **said)
    assert refused.status_code == status and words in refused.json()["error"]
    assert client.get("/loom/runs").json() == []


def test_of_an_app_by_name_only_settings_are_taken(log_in: Callable[[str], Any], first: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    kept = post(ann, "workflows", graph=first, name="stars").json()["id"]
    token = ann.put(f"/loom/workflows/{kept}/app", json={"version": 1}).json()["token"]
    for said in ({"params": {"denoise.steps": 3}}, {"sweep": ["denoise.steps=1..2"]}):
        refused = post(bob, f"workflows/{token}/runs", **said)
        assert refused.status_code == 400 and "is no setting of this app" in refused.json()["error"]
    sent = post(bob, f"workflows/{token}/runs", params={"seed": "3"}, sweep=["prompt=a,b"])
    assert sent.status_code == 201 and len(sent.json()["runs"]) == 2
    assert post(bob, "workflows/stars/runs").status_code == 404  # a name is the user's own


@pytest.fixture
def paths(client: Any, first: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each route that starts runs, with what it takes."""
    kept = post(client, "workflows", graph=first, name="stars").json()["id"]
    token = client.put(f"/loom/workflows/{kept}/app", json={"version": 1}).json()["token"]
    return {
        "runs": {"graph": first, "priority": "idle"},
        "workflows/first_picture/runs": {"priority": "idle"},
        f"apps/{token}/runs": {"params": {"seed": 3}},
    }


def test_a_request_that_comes_again_starts_nothing(client: Any, paths: dict[str, dict[str, Any]]) -> None:
    for (path, body), changed in zip(
        paths.items(), ({"force": True}, {"force": True}, {"params": {"seed": 1}}), strict=True
    ):
        before = len(client.get("/loom/runs").json())
        sent, again = (post(client, path, key=path, **body) for _ in range(2))
        assert (again.status_code, again.json()) == (201, sent.json())
        assert len(client.get("/loom/runs").json()) == before + 1
        other = post(client, path, key=path, **body | changed)
        assert (other.status_code, other.json()["code"]) == (422, "key-taken")
        assert post(client, path, key=f"{path}2", **body).json()["runs"] != sent.json()["runs"]


def test_a_key_is_one_users_own_and_ends_with_its_runs(log_in: Callable[[str], Any], first: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    sent = [post(who, "workflows/first_picture/runs", key="k", params=SIZE).json() for who in (ann, bob)]
    assert sent[0]["runs"] != sent[1]["runs"]
    [run] = sent[0]["runs"]
    over(ann, run)
    assert ann.delete(f"/loom/runs/{run}").status_code == 204
    again = post(ann, "workflows/first_picture/runs", key="k", params=SIZE).json()
    assert again["runs"] != sent[0]["runs"]


def test_keys_survive_a_server_that_is_killed_and_what_nobody_was_told_is_forgotten(tmp_path: Path) -> None:
    from latentloom.ui.runs.records import RunRecords

    asked, torn = Asked.of("k", "a request"), Asked.of("t", "another")
    data = tmp_path / "data"
    with runs_in(tmp_path) as runs:
        first = runs.submit("ann", gated("one"), asked_by=asked)
        until(REACHED["one"].is_set)
        sent = runs.submit("ann", pictured(), sweep=["value=1..3"], asked_by=torn)
    folder = next(data.glob("users/*/batches"))
    (folder / f"{sent.batch}.answer.json").unlink()  # as before the last of its records was written
    OPEN["one"].set()
    with runs_in(tmp_path) as runs:
        assert [run.id for run in runs.book.of("ann")] == list(first.runs)
        assert runs.book.answers.once("ann", asked, lambda: pytest.fail("started once more")) == first
        again = runs.book.answers.once("ann", torn, lambda: runs.submit("ann", pictured(), asked_by=torn))
        assert finished(runs, "ann", again.runs[0]).state == "done"
        for run in (*first.runs, *again.runs):
            finished(runs, "ann", run)
            runs.delete("ann", run)
        assert list(folder.iterdir()) == []
        assert runs.book.answers.once("ann", asked, lambda: again) == again
    assert not [*RunRecords(data).answers()]


def test_a_wait_ends_in_time_and_says_how_the_run_does(runs: Any, client: Any, server: Any) -> None:
    path = client.post("/loom/uploads", content=png(8, 8)).json()["path"]
    with server.runs.idle():
        [run] = post(client, "runs", graph=copying(path)).json()["runs"]
        assert client.get(f"/loom/runs/{run}?wait=0.05").json()["state"] == "waiting"
    assert over(client, run)["state"] == "done"
    for wait in ("61", "-1", "soon"):
        assert client.get(f"/loom/runs/{run}?wait={wait}").status_code == 400
    assert client.get(f"/loom/runs/{'0' * 16}?wait=1").status_code == 404


def test_a_stream_tells_the_lines_of_the_command_line_and_ends_with_the_result(client: Any) -> None:
    sent = post(client, "workflows/first_picture/runs", params=SIZE, sweep=["seed=1..2"]).json()["runs"]
    found = told(client, sent[1])
    kinds = [line["kind"] for _, line in found]
    for _, line in found:
        jsonschema.validate(line, LINE)
    assert (kinds[0], kinds[-2:]) == ("run_started", ["run_finished", "result"])
    assert {"started", "progress", "saved", "finished"} <= set(kinds) and "preview" not in kinds
    assert [line["seq"] for _, line in found] == list(range(1, len(found) + 1))
    assert {(line["v"], line["point"], line["run"]) for _, line in found} == {(1, 2, sent[1])}
    result = found[-1][1]
    assert (result["state"], result["overrides"]["seed"], result["code"]) == ("ok", 2, None)
    [file] = result["files"]
    assert client.get(file).status_code == 200
    assert [line["message"] for _, line in found if line["kind"] == "saved"] == [file]
    assert not result["folder"].startswith("/") and found[0][1]["folder"] == result["folder"]


def test_a_stream_of_a_run_that_ends_otherwise_is_of_the_same_schema(client: Any, server: Any) -> None:
    path = client.post("/loom/uploads", content=png(8, 8)).json()["path"]
    with server.runs.idle():
        runs = [run for _ in range(2) for run in post(client, "runs", graph=copying(path)).json()["runs"]]
        client.post(f"/loom/runs/{runs[0]}/cancel", json={})
        client.delete(f"/loom/uploads/{path}")
    results = [told(client, run)[-1][1] for run in runs]
    for line in results:
        jsonschema.validate(line, LINE)
    assert [(line["state"], line["where"]) for line in results] == [("cancelled", "user"), ("failed", "input")]


def test_a_stream_says_that_it_goes_on_and_ends_in_time(
    client: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BEAT_S", 0.01)
    monkeypatch.setattr(following, "STREAM_S", 0.2)
    path = client.post("/loom/uploads", content=png(8, 8)).json()["path"]
    with server.runs.idle():
        [run] = post(client, "runs", graph=copying(path)).json()["runs"]
        text = client.get(f"/loom/runs/{run}/events").text
    assert text.startswith("retry: 1000\n\n: it goes on\n\n") and "data:" not in text


def test_a_stream_goes_on_behind_what_was_seen(client: Any) -> None:
    [run] = post(client, "workflows/first_picture/runs", params=SIZE).json()["runs"]
    found = told(client, run)
    assert told(client, run, last=found[3][0]) == [*found[4:-1], told(client, run)[-1]]
    assert told(client, run, last="another-5")[:3] == found[:3]  # of a server that is no more
    assert client.get(f"/loom/runs/{run}/events", headers={"Last-Event-ID": "result"}).status_code == 204
    assert client.get(f"/loom/runs/{'0' * 16}/events").status_code == 404


def test_after_a_restart_the_result_of_what_was_over_is_told(tmp_path: Path) -> None:
    with runs_in(tmp_path) as runs:
        [id] = runs.submit("ann", pictured()).runs
        made = runs.book.lines.result(finished(runs, "ann", id), {})
    with runs_in(tmp_path) as runs:
        assert runs.book.lines.after(id, 0) == []
        assert runs.book.lines.result(runs.book.get("ann", id), {}) == {**made, "seq": 1}
        assert made["state"] == "ok" and len(made["files"]) == 1


def test_lines_of_many_runs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_RUNS", 2)
    with runs_in(tmp_path) as runs:
        made = []
        for _ in range(3):
            made += runs.submit("ann", pictured()).runs
            finished(runs, "ann", made[-1])
        assert [bool(runs.book.lines.after(run, 0)) for run in made] == [False, True, True]
