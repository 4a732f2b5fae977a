"""The lines of JSON of the command line and the manifest, against the schema that is shipped."""

import dataclasses
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from latentloom.__main__ import main
from latentloom.nodes.execution.events import Event, Kind, Sink
from latentloom.nodes.graph.graph import Graph
from latentloom.nodes.headless import terminal
from latentloom.nodes.headless.headless import Report, Tally
from latentloom.nodes.headless.job import Headless, points_of
from latentloom.nodes.headless.stream import SCHEMAS, schema
from latentloom.parallel.errors import EXIT_CODES
from latentloom.parallel.progress import Foreseen, RankWork, Setting
from latentloom.pipelines.costs.ran import Took
from support.checkout import ROOT

FIRST = str(ROOT / "workflows" / "bobbin" / "first_picture.json")
SMALL = ["--set", "denoise.steps=1", "--set", "empty_latents.width=64", "--set", "empty_latents.height=64"]
LINE = jsonschema.Draft202012Validator(schema("line"), format_checker=jsonschema.FormatChecker())
# No model, and a formula that fails where `b` is 0.
QUOTIENT: dict[str, Any] = {
    "format": 1,
    "name": "quotient",
    "nodes": {"sum": {"type": "LoomCalculate", "version": 1, "inputs": {"formula": "a / b", "a": 1.0, "b": 2.0}}},
    "outputs": {"sum": {"from": "sum.number"}},
}


def lines_of(text: str) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in text.splitlines()]
    for plain in told:
        LINE.validate(plain)
    assert [each["seq"] for each in told] == list(range(told[0]["seq"], told[0]["seq"] + len(told)))
    assert [each["time"] for each in told] == sorted(each["time"] for each in told)
    return told


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    try:
        code = main([*arguments, "--json"])
    except SystemExit as end:
        code = int(str(end.code))
    return code, lines_of(capsys.readouterr().out)


def test_the_schema_is_one_and_knows_every_key() -> None:
    for name in SCHEMAS:
        jsonschema.Draft202012Validator.check_schema(schema(name))
    known = schema("line")["$defs"]
    assert {*known["event"]["properties"]["kind"]["enum"]} == {*get_args(Kind)} - {"preview"}
    fields = {name: {each.name for each in dataclasses.fields(cls)} for name, cls in [("rank", RankWork)]}
    fields["foreseen"] = {each.name for each in dataclasses.fields(Foreseen)} | {"seconds"}
    assert {name: {*known[name]["properties"]} for name in fields} == fields
    setting = known["foreseen"]["properties"]["setting"]["oneOf"][1]["properties"]
    assert {*setting} == {each.name for each in dataclasses.fields(Setting)}
    took = {*known["took"]["properties"]} - {"predicted_bytes", "predicted_s", "seconds", "ratio"}
    assert took == {each.name for each in dataclasses.fields(Took)}


@pytest.mark.parametrize("devices", ["", "cpu*2"])
def test_a_run_and_its_manifest_are_as_the_schema_says(
    here: Path, capsys: pytest.CaptureFixture[str], devices: str
) -> None:
    code, told = told_by(capsys, "run", FIRST, *SMALL, "--no-cache", "--devices", devices)
    assert (code, told[-1]["state"], told[-1]["recoveries"]) == (0, "ok", [])
    assert {"run_started", "progress", "foreseen", "run_finished", "result"} <= {each["kind"] for each in told}
    assert {each["point"] for each in told} == {1}
    plain = json.loads((here / "output" / "manifest.json").read_text())
    jsonschema.Draft202012Validator(schema("manifest")).validate(plain)


def test_a_sweep_that_fails_and_is_resumed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "quotient.json").write_text(json.dumps(QUOTIENT))
    sweep = ["run", "quotient.json", "--sweep", "sum.b=0,1,2", "--no-cache"]
    code, told = told_by(capsys, *sweep)
    (failure,) = told[-1]["failures"]
    assert (told[-1]["kind"], told[-1]["ok"], failure["overrides"]) == ("sweep", 2, {"sum.b": 0.0})
    assert code == 1  # a node failed, which is no fault of the machine
    manifest = jsonschema.Draft202012Validator(schema("manifest"))
    for file in here.glob("output/*/manifest.json"):
        manifest.validate(json.loads(file.read_text()))
    assert told_by(capsys, *sweep, "--resume")[0] == code
    code, told = told_by(capsys, *sweep, "--resume")
    results = [each for each in told if each["kind"] == "result"]
    assert [each["state"] for each in results] == ["resumed", "resumed", "failed"]
    assert [each["outputs"] for each in results[:2]] == [{"sum": 1.0}, {"sum": 0.5}]


def test_with_quiet_there_are_results_and_no_events_and_a_share_of_one_run_is_told(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "quotient.json").write_text(json.dumps(QUOTIENT))
    kinds = {
        ("--sweep", "sum.b=1,2", "-q"): ["result", "result", "sweep"],
        ("-q",): ["result"],
        ("--shard", "1/2"): ["sweep"],  # it has none
        ("--shard", "0/2", "-q"): ["result", "sweep"],
    }
    for options, expected in kinds.items():
        code, told = told_by(capsys, "run", "quotient.json", "--no-cache", *options)
        assert (code, [each["kind"] for each in told]) == (0, expected)


def test_lines_of_a_list_that_is_wrong_in_part_are_as_the_schema_says(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "quotient.json").write_text(json.dumps(QUOTIENT))
    rows = [
        {"workflow": "quotient.json"},
        {"workflow": "no.json"},
        {"workflow": "quotient.json", "params": {"sum.b": 0}},
    ]
    (here / "jobs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\nno json")
    code, told = told_by(capsys, "run", "--jobs", "jobs.jsonl", "--no-cache")
    states = {each["point"]: each["state"] for each in told if each["kind"] == "result"}
    assert (code, states) == (1, {1: "ok", 2: "failed", 3: "failed", 4: "failed"})
    assert [each["point"] for each in told[-1]["failures"]] == [2, 4, 3]  # those that nothing was begun for come first


@pytest.mark.parametrize("is_begun", [True, False])
def test_what_only_loads_when_it_is_asked_to_end_is_told_and_not_waited_for(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    ended = threading.Event()

    def loading(job: Any, tally: Tally, *, sink: Sink, cancel: threading.Event) -> Iterator[Report]:
        sink(Event(kind="shared_out", run="", message="2 groups", total=2))
        if is_begun:
            own: dict[str, Any] = {"run": "r", "point": 2, "workflow": "a.json"}
            sink(Event(kind="run_started", folder="out/a", overrides={"seed": 1}, **own))
            sink(Event(kind="phase", node="load", is_loading=True, **own))
        cancel.set()
        assert ended.wait(60)
        yield from ()

    for name, value in {"MOST_LOADING_S": 0.0, "run_headless": loading, "end_at_once": ended.set}.items():
        monkeypatch.setattr(terminal, name, value)
    (point,) = points_of(Graph(name="a", nodes={}), {"seed": 1}, [{}], file=Path("a.json"), roots=())
    points = [dataclasses.replace(point, number=2, workflow="a.json")]
    tally = terminal.run_shown(
        Headless(points=points, out=here, is_sweep=True), as_json=True, debug=False, stops_on_error=False
    )
    told = lines_of(capsys.readouterr().out)
    assert {each["state"] for each in told if each["kind"] == "sweep"} == {tally.state} == {"cancelled"}
    results = [(each["run"], each["workflow"], each["state"]) for each in told if each["kind"] == "result"]
    assert results == ([("r", "a.json", "cancelled")] if is_begun else [])


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["run", "no.json"], "bad-input", 2),
        (["run", FIRST, "--sed", "3"], "bad-input", 2),
        (["run", FIRST, "--grace", "-1"], "bad-input", 2),
        (["run", FIRST, "--openjd"], "bad-input", 2),  # which has lines of its own
        (["run"], "bad-input", 2),
        (["paint"], "bad-input", 2),
        (["run", FIRST, "--set", "empty_latents.width=100"], "bad-workflow", 2),
        (["run", FIRST, "--set", "load_model.source=nobody/has-it"], "not-pulled", 75),
        (["run", FIRST, "--out", "file"], "not-written", 75),
    ],
)
def test_what_is_refused_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], code: str, exit_code: int
) -> None:
    (here / "file").touch()
    found, told = told_by(capsys, *arguments)
    (last,) = told
    assert (found, last["kind"], last["state"], last["code"]) == (exit_code, "result", "refused", code)
    assert (last["where"], last["retryable"]) == (("machine", True) if exit_code == 75 else ("input", False))


def test_a_schema_is_printed_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("workflow", *SCHEMAS):
        assert main(["schema", name]) == 0
        jsonschema.Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("grace", ["", "--grace=120"])
def test_a_sweep_that_is_asked_to_end_says_what_is_left(here: Path, grace: str) -> None:
    sweep = ["run", FIRST, *SMALL[2:], "--set", "denoise.steps=60", "--sweep", "seed=1..40", "--no-cache", "--json"]
    command = [sys.executable, "-m", "latentloom", *sweep, *([grace] if grace else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told: list[str] = []
    for line in process.stdout:
        told.append(line)
        if json.loads(line)["kind"] == "progress":
            break
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=120)
    lines = lines_of("".join([*told, rest]))
    last, states = lines[-1], [each["state"] for each in lines if each["kind"] == "result"]
    assert last["kind"] == "sweep" and last["left"] > 0
    if grace:  # what was under way is there
        assert (process.returncode, last["state"], last["retryable"]) == (EXIT_CODES["machine"], "ended", True)
        assert {*states} == {"ok"} and last["ok"] == len(states) == 40 - last["left"]
    else:
        assert (process.returncode, last["state"]) == (EXIT_CODES["user"], "cancelled")
        assert "cancelled" in states
