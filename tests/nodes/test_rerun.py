"""A run is made again by its manifest: what differs is named, and whether the bytes are the same."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import jsonschema
import pytest
from PIL import Image

from latentloom.__main__ import main
from latentloom.nodes.execution.attempt import attempt, open_caches, workspace_of
from latentloom.nodes.execution.manifest import NodeTold
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.headless import rerun
from latentloom.nodes.headless.rerun import Manifest, read_manifest
from latentloom.nodes.headless.stream import schema
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.values import Place
from support.checkout import ROOT

FIRST = str(ROOT / "workflows" / "bobbin" / "first_picture.json")
SMALL = ["--set", "denoise.steps=1", "--set", "empty_latents.width=64", "--set", "empty_latents.height=64"]
LINE = jsonschema.Draft202012Validator(schema("line"))
QUOTIENT: dict[str, Any] = {
    "format": 1,
    "name": "quotient",
    "nodes": {"sum": {"type": "LoomCalculate", "version": 1, "inputs": {"formula": "a / b", "a": 1.0, "b": 2.0}}},
    "outputs": {"sum": {"from": "sum.number"}},
}
Told = tuple[int, list[dict[str, Any]], str]
Ask = Callable[..., Told]


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that painted a picture."""
    folder = tmp_path_factory.mktemp("painted")
    assert main(["run", FIRST, *SMALL, "--no-cache", "-q", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def here(painted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, `then`, in the present folder."""
    shutil.copytree(painted, tmp_path / "then")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Exit code, lines of JSON, and what was said to people, of `latentloom rerun then` and more."""

    def asked(*arguments: str) -> Told:
        capsys.readouterr()
        code = main(["rerun", "then", *arguments, "--json"])
        out, err = capsys.readouterr()
        lines = [json.loads(line) for line in out.splitlines()]
        for each in lines:
            LINE.validate(each)
        return code, lines, err

    return asked


def change(folder: Path, how: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "then" / "manifest.json"
    plain = json.loads(file.read_text())
    how(plain)
    file.write_text(json.dumps(plain))


def test_a_manifest_alone_makes_the_same_bytes(here: Path, ask: Ask) -> None:
    alone = (here / "then" / "manifest.json").read_bytes()
    shutil.rmtree(here / "then")
    (here / "then").mkdir()
    (here / "then" / "manifest.json").write_bytes(alone)
    code, lines, _ = ask("--strict")
    assert (code, lines[0]["kind"], lines[0]["differences"]) == (0, "differences", [])
    last = lines[-1]
    assert (last["kind"], last["same"], [each["state"] for each in last["outputs"]]) == ("rerun", True, ["same"])
    assert lines[-2]["kind"] == "result" and (here / "rerun" / "picture.png").is_file()
    again = json.loads((here / "rerun" / "manifest.json").read_text())
    assert again["command"] == ["latentloom", "rerun", "then", "--strict", "--json"]
    assert again["graph"] == json.loads(alone)["graph"]


def older_torch(plain: dict[str, Any]) -> None:
    plain["versions"]["torch"] = "1.0"


def other_weights(plain: dict[str, Any]) -> None:
    plain["nodes"]["load_model"]["model"]["files"][0]["header_sha256"] = "0" * 64


def other_device(plain: dict[str, Any]) -> None:
    plain["devices"] = ["cuda:5 (NVIDIA H100) of farm"]


def other_steps(plain: dict[str, Any]) -> None:
    plain["nodes"]["denoise"]["values"]["guidance"] = 9.0


def absent_devices(plain: dict[str, Any]) -> None:
    plain["place"] = {"devices": ["cuda:5", "cuda:6"], "plan": "cfg=2", "replicas": 1, "cluster": ""}


def of_a_cluster(plain: dict[str, Any]) -> None:
    plain["place"]["cluster"] = "ray://203.0.113.1:10001"


@pytest.mark.parametrize(
    ("how", "what", "words"),
    [
        (older_torch, "version", "torch: 1.0 then, 2."),
        (other_weights, "model", "load_model text_encoder/model.safetensors: "),
        (other_device, "device", "cuda:5: NVIDIA H100 then, none now"),
        (other_steps, "value", "denoise.guidance: 9.0 then, "),
        (absent_devices, "device", "devices: cuda:5,cuda:6 then, none (devices 'cuda:5,cuda:6': "),
        (of_a_cluster, "device", "cluster: ray://203.0.113.1:10001 then, none now"),
    ],
)
def test_what_differs_is_named_and_refused_where_nothing_may(
    here: Path, ask: Ask, how: Callable[[dict[str, Any]], None], what: str, words: str
) -> None:
    change(here, how)
    code, lines, err = ask("--strict")
    assert code == 2 and [each["kind"] for each in lines] == ["differences", "result"]
    assert [each["what"] for each in lines[0]["differences"]] == [what]
    assert words in lines[1]["error"] and words in err and "--strict" in err and err.count("\n") == 1
    assert not (here / "rerun").exists()


def test_other_bytes_fail_where_nothing_else_is_other(here: Path, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    def other_bytes(plain: dict[str, Any]) -> None:
        plain["outputs"][0]["sha256"] = "0" * 64

    change(here, other_bytes)
    code, lines, err = ask()
    assert code == 1 and lines[-1]["same"] is False and "though nothing that is known of differs" in err
    (output,) = lines[-1]["outputs"]
    assert (output["state"], output["then"]) == ("different", "0" * 64) and output["now"]
    change(here, older_torch)
    assert main(["rerun", "then", "-q"]) == 0  # which explains it
    out, err = capsys.readouterr()
    assert "picture.png: different" in out and "not as it was: torch: 1.0 then" in err


def test_values_are_compared_and_older_manifests_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotient.json").write_text(json.dumps(QUOTIENT))
    assert main(["run", "quotient.json", "--set", "sum.b=4", "--no-cache", "-q", "--out", "then"]) == 0
    code, lines, _ = ask("--strict")
    assert code == 0 and lines[-1]["outputs"] == [{"name": "sum", "state": "same"}]
    assert lines[-2]["outputs"] == {"sum": 0.25}
    change(tmp_path, lambda plain: plain.pop("graph"))
    code, lines, err = ask()
    assert code == 2 and "holds no workflow, since an older version wrote it" in err


def test_a_file_that_is_read_and_has_changed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8), "red").save("in.png")
    load = {"type": "LoomLoadImage", "version": 1, "inputs": {"path": "in.png"}}
    save = {"type": "LoomSaveImage", "version": 1, "inputs": {"image": {"from": "load.image"}, "name": "out"}}
    plain = {"format": 1, "name": "copy", "nodes": {"load": load, "save": save}}
    (tmp_path / "copy.json").write_text(json.dumps(plain))
    assert main(["run", "copy.json", "--no-cache", "-q", "--out", "then"]) == 0
    code, lines, _ = ask("--strict")
    assert code == 0 and [each["state"] for each in lines[-1]["outputs"]] == ["same"]
    Image.new("RGB", (8, 8), "blue").save("in.png")
    code, lines, _ = ask()
    assert code == 0 and [each["state"] for each in lines[-1]["outputs"]] == ["different"]
    assert [(each["what"], each["name"]) for each in lines[0]["differences"]] == [("value", "what load reads")]


@pytest.mark.parametrize("targets", [None, ["load"]])
def test_what_the_page_shows_and_no_node_saves_is_made_again(here: Path, ask: Ask, targets: list[str] | None) -> None:
    shutil.rmtree(here / "then")
    Image.new("RGB", (64, 64), (200, 10, 10)).save(here / "red.png")
    nodes = {"load": {"type": "LoomLoadImage", "version": 1, "inputs": {"path": "red.png"}}}
    graph = graph_from_plain({"format": 1, "name": "red", "nodes": nodes, "outputs": {"red": {"from": "load.image"}}})
    prepared = ready(graph, SPECS, workspace=Workspace(roots=(here,)))
    workspace = workspace_of(prepared, here / "then", roots=(here,), place=Place())
    quietly: dict[str, Any] = {"sink": lambda event: None, "cancel": Event(), "caches": open_caches(None)}
    assert attempt(prepared, workspace=workspace, shows=True, targets=targets, **quietly)[1] is None
    code, lines, _ = ask("--strict", "--out", "now")
    assert (code, lines[-1]["same"], [each["path"] for each in lines[-1]["outputs"]]) == (0, True, ["load.png"])


def test_the_run_itself_is_not_replaced(here: Path, ask: Ask) -> None:
    before = (here / "then" / "picture.png").stat().st_mtime_ns
    code, _, err = ask("--out", "then")
    assert code == 2 and "give another" in err
    assert (here / "then" / "picture.png").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON|no JSON|line 1"),
        ("[" * 100_000, "deep|levels"),
        ("[]", "valid dictionary"),
        ("{}", "format"),
        ('{"format": 2, "versions": {}, "nodes": {}, "outputs": [], "devices": []}', "format"),
        ('{"format": 1, "versions": {}, "nodes": {"a": 1}, "outputs": [], "devices": []}', "nodes"),
        ('{"format": 1, "versions": {}, "nodes": {}, "outputs": [], "devices": [], "place": {"devices": 3}}', "place"),
    ],
)
def test_what_is_no_manifest_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=f"is no manifest of a run .*({words}).*give the manifest.json") as caught:
        read_manifest(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_one_that_is_too_large_or_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="is no manifest of a run \\(No such file"):
        read_manifest(tmp_path)
    monkeypatch.setattr(rerun, "MOST_BYTES", 10)
    (tmp_path / "manifest.json").write_text(" " * 11)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_manifest(tmp_path)


def then_by(place: Place, **plans: str) -> Manifest:
    nodes = {name: NodeTold(plan=plan, foreseen={}) for name, plan in plans.items()} | {"d": NodeTold(plan="rows=2")}
    return Manifest(format=1, versions={}, nodes=nodes, outputs=[], devices=[], place=place)


@pytest.mark.parametrize(
    ("place", "plans", "devices", "plan", "found"),
    [
        (Place(), {}, "", "", Place()),
        (Place(devices=("cpu",) * 2), {"a": "cfg=2"}, "", "", Place(devices=("cpu",) * 2, plan="cfg=2")),
        (
            Place(devices=("cpu",) * 2, plan="ring=2"),
            {"a": "ring=2"},
            "",
            "",
            Place(devices=("cpu",) * 2, plan="ring=2"),
        ),
        (Place(devices=("cpu",) * 2), {"a": "cfg=2", "b": "ulysses=2"}, "", "", Place(devices=("cpu",) * 2)),
        (Place(devices=("cpu",) * 4, replicas=2), {"a": "cfg=2"}, "", "", Place(devices=("cpu",) * 2, plan="cfg=2")),
        (Place(devices=("cpu",) * 2), {"a": "cfg=2"}, "", "ring=2", Place(devices=("cpu",) * 2, plan="ring=2")),
        (Place(devices=("cpu",) * 2), {"a": "cfg=2"}, "cpu", "", Place(devices=("cpu",))),
        (Place(), {"a": "cfg=2"}, "", "", Place()),  # by devices that the workflow itself names
        (Place(devices=("cpu",) * 9999), {"a": "cfg=9"}, "", "", Place()),
    ],
)
def test_it_is_made_where_it_was_unless_other_devices_are_given(
    place: Place, plans: dict[str, str], devices: str, plan: str, found: Place
) -> None:
    assert rerun._place(then_by(place, **plans), devices, plan)[0] == found


def test_words_of_a_stranger_do_nothing_to_a_terminal() -> None:
    told = rerun._words({"what": "version", "name": "torch", "then": "\x1b[2J" + "x" * 999, "now": "2"})
    assert told.startswith("torch: [2Jxxx") and "\x1b" not in told and len(told) < 200
