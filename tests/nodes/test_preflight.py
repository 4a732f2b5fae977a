"""Checked means it will run: what files and numbers tell is told before anything is loaded, with what mends it."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image as Pillow
from safetensors.torch import save_file

from latentloom.__main__ import main
from latentloom.nodes.execution.preflight import blocking
from latentloom.nodes.files.workspace import Host, Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.graph.problems import Problem
from latentloom.nodes.headless.foretold import with_remedy
from latentloom.nodes.preview import room
from latentloom.nodes.registry import SPECS
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.machine.now import DeviceNow
from latentloom.pipelines import stages
from latentloom.pipelines.models import describe, regular_file
from support.flux_folder import write_flux
from support.prepared import foretell, schedule

BOBBIN = Path(__file__).resolve().parents[2] / "workflows" / "bobbin"
FIRST, FROM_PICTURE = (str(BOBBIN / f"{name}.json") for name in ("first_picture", "image_to_image"))
GIB = 2**30
Tiny = Callable[[str], Path]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stages, "_loaded", lambda *args, **kwargs: pytest.fail("something was loaded"))


def found(
    file: str,
    changed: dict[str, Any],
    *,
    memory: int = 16 * GIB,
    roots: tuple[Path, ...] = (),
    host: Host = "command line",
) -> list[Problem]:
    plain = json.loads(Path(file).read_text())
    for target, value in changed.items():
        node, _, socket = target.partition(".")
        plain["nodes"][node]["inputs"][socket] = value
    machine = [DeviceNow(name="cpu", title="", total_bytes=memory, used_bytes=0, load=None)]
    workspace = Workspace(roots=(Path.cwd(), *roots), host=host)
    return foretell(graph_from_plain(plain), SPECS, workspace=workspace, machine=machine).problems


def lora(path: Path, layer: str, width: int, made: int = 0) -> str:
    ends = {"lora_A": (2, width), "lora_B": (made or width, 2)}
    save_file({f"transformer.{layer}.{end}.weight": torch.zeros(shape) for end, shape in ends.items()}, path)
    return str(path)


def with_lora(source: str, file: str) -> dict[str, Any]:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["load_model"]["inputs"]["source"] = source
    lora = {"type": "LoomLoadLora", "version": 1, "inputs": {"model": {"from": "load_model.model"}, "path": file}}
    plain["nodes"]["lora"] = lora
    plain["nodes"]["denoise"]["inputs"]["model"] = {"from": "lora.model"}
    return plain


@pytest.mark.parametrize(
    ("file", "changed", "where", "code", "mends"),
    [
        (FIRST, {"load_model.source": "nobody/has-it"}, "load_model.source", "not-pulled", ()),
        (FIRST, {"load_model.device": "cuda:3"}, "load_model.device", "no_device", ()),
        (FROM_PICTURE, {}, "load_image.path", "no_file", ()),
        (
            FIRST,
            {"empty_latents.width": 100, "empty_latents.height": 77},
            "empty_latents.width",
            "not_taken",
            ({"empty_latents.width": 96, "empty_latents.height": 80},),
        ),
        (FIRST, {"empty_latents.frames": 9}, "empty_latents.frames", "not_taken", ({"empty_latents.frames": 1},)),
        (FIRST, {"save.name": "../picture"}, "save.name", "bad_name", ()),
        (FIRST, {"save.name": "x" * 250}, "save.name", "bad_name", ()),
        (FIRST, {"denoise.guidance_2": 2.0}, "denoise.guidance_2", "not_taken", ()),
        (FIRST, {"denoise.strength": 0.5}, "denoise.strength", "not_taken", ()),
        (FIRST, {"decode.latents": {"from": "empty_latents.latents"}}, "decode.latents", "not_taken", ()),
        (
            FIRST,
            {"load_model.quantization": "int4"},
            "load_model.quantization",
            "not_here",
            ({"load_model.quantization": "none"},),
        ),
        (FIRST, {"load_model.graphs": "on"}, "load_model.graphs", "not_here", ({"load_model.graphs": "auto"},)),
    ],
)
def test_what_files_and_numbers_tell_is_an_error_with_its_place_code_and_remedy(
    file: str, changed: dict[str, Any], where: str, code: str, mends: tuple[dict[str, Any], ...]
) -> None:
    [problem] = found(file, changed)
    assert (f"{problem.node}.{problem.socket}", problem.code, problem.kind) == (where, code, "error")
    assert problem.mends == mends and ";" in problem.message


def test_what_is_reckoned_is_an_estimate() -> None:
    [large] = found(FIRST, {"empty_latents.width": 1024, "empty_latents.height": 1024})
    assert (large.code, large.kind) == ("too_large", "estimate")
    assert large.mends == ({"empty_latents.width": 0, "empty_latents.height": 0},)
    [tight] = found(FIRST, {}, memory=1 << 20)
    assert (tight.node, tight.code, tight.kind, tight.mends) == ("denoise", "memory", "estimate", ())


def test_what_does_not_fit_tells_by_how_much_and_each_value_that_it_offers_fits() -> None:
    large, memory = {"empty_latents.width": 192, "empty_latents.height": 160, "empty_latents.batch": 3}, 170 << 20
    [_, tight] = found(FIRST, large, memory=memory)
    words = (
        r"it does not fit: (\d+) MiB are needed on cpu, where 160 MiB of 170 MiB can be used: (\d+) MiB too much; any"
    )
    told = re.match(words, tight.message)
    assert told is not None and abs(int(told[1]) - 160 - int(told[2])) <= 1
    assert [list(mend) for mend in tight.mends] == [
        ["empty_latents.width", "empty_latents.height"],
        ["empty_latents.batch"],
    ]
    for mend in tight.mends:
        assert "memory" not in [problem.code for problem in found(FIRST, {**large, **mend}, memory=memory)]
        assert all(f"--set {target}={value}" in with_remedy(tight).message for target, value in mend.items())


def test_what_a_gpu_has_no_room_for_is_quantized_or_shared_and_what_others_hold_is_told(
    tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(room, "_has_some", lambda: False)
    folder = write_flux(tmp_path / "large", tiny("flux"))
    plain = with_lora(str(folder), "")
    plain["nodes"]["lora"] = {
        "type": "LoomParallelPlan",
        "version": 1,
        "inputs": {"model": {"from": "load_model.model"}, "devices": "cuda:0,cuda:1", "plan": "ulysses=2"},
    }

    def told(total: int, used: int = 0) -> Problem:
        gpus = [DeviceNow(name=f"cuda:{i}", title="", total_bytes=total, used_bytes=used, load=None) for i in (0, 1)]
        workspace = Workspace(roots=(tmp_path,), host="command line")
        [problem] = foretell(graph_from_plain(plain), SPECS, workspace=workspace, machine=gpus).problems
        return problem

    small, busy = told(28 * GIB // 10), told(80 * GIB, 56 * GIB)
    assert busy.mends[:2] == ({"load_model.quantization": "int8"}, {"lora.plan": "ulysses=2,weights=2"})
    assert "empty_latents.width" in small.mends[0] and busy.code == small.code == "memory"  # int8 encoders stay whole
    assert (
        "can be used, beside 56.0 GiB that other programs hold now: " in busy.message
        and "; end them, or " in busy.message
    )


def test_a_run_for_whose_files_the_disk_has_no_room_is_an_estimate_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = {"empty_latents.batch": 64}  # 64 x (128 x 128 x 3.01 bytes + 64 KiB) are 7.01 MiB

    def told(free: int, host: Host = "command line") -> list[Problem]:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free, total=8 * GIB))
        return [each for each in found(FIRST, batch, host=host) if each.code == "disk"]

    assert not told(8 << 20)
    [short], [on_page] = told(5 << 20), told(5 << 20, "page")
    assert (short.node, short.kind, list(blocking([short], is_forced=True))) == ("save", "estimate", [])
    assert short.message.startswith("this run may write 7 MiB to output, where 5 MiB are free; ")
    assert "7 MiB to the server's disk, where" in on_page.message


def test_points_of_a_sweep_that_find_no_room_after_those_before_them_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=15 << 20, total=8 * GIB))
    assert main(["check", FIRST, "--set", "empty_latents.batch=64", "--sweep", "denoise.seed=1..4", "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [(each["point"]["denoise.seed"], each["node"], each["code"]) for each in problems] == [
        (3, "", "disk"),
        (4, "", "disk"),
    ]


def test_a_workflow_is_sound_once_its_picture_is_there() -> None:
    Pillow.new("RGB", (64, 64)).save("picture.png")
    assert not found(FROM_PICTURE, {})
    half = {"encode_image.width": 64}
    assert [problem.message for problem in found(FROM_PICTURE, half)] == [
        "width is 64 and height is 0; set both, or leave both at 0"
    ]
    whole = Path("picture.png").read_bytes()
    Path("picture.png").write_bytes(whole[: len(whole) // 2])
    assert "cut short" in found(FROM_PICTURE, {})[0].message
    Path("picture.png").write_text("no picture")
    assert [problem.code for problem in found(FROM_PICTURE, {})] == ["no_file"]  # though it was looked at before


def test_a_lora_of_another_model_is_refused_by_its_header(tmp_path: Path, tiny: Tiny) -> None:
    sd3 = str(tiny("sd3"))
    fits, other, narrow = (
        with_lora(source, lora(tmp_path / f"{name}.safetensors", layer, width))
        for name, source, layer, width in (
            ("fits", "builtin:bobbin", "transformer_blocks.0.attn.to_q", 192),
            ("other", sd3, "single_transformer_blocks.0.attn.to_q", 128),
            ("narrow", "builtin:bobbin", "transformer_blocks.0.attn.to_q", 8),
        )
    )
    told = [
        foretell(graph_from_plain(each), SPECS, workspace=Workspace(roots=(tmp_path, Path(sd3))), machine=[]).problems
        for each in (fits, other, narrow)
    ]
    narrow["nodes"]["lora"]["inputs"]["scale"] = 0  # which switches it off
    told.append(foretell(graph_from_plain(narrow), SPECS, workspace=Workspace(roots=(tmp_path,)), machine=[]).problems)
    few = with_lora("builtin:bobbin", lora(tmp_path / "few.safetensors", "transformer_blocks.0.attn.to_q", 8, 192))
    told.append(foretell(graph_from_plain(few), SPECS, workspace=Workspace(roots=(tmp_path,)), machine=[]).problems)
    assert [[(each.node, each.socket, each.code) for each in problems] for problems in told] == [
        [],
        [("lora", "path", "other_lora")],
        [("lora", "path", "other_lora")],
        [],
        [],  # which diffusers fills with zeros
    ]


def test_two_nodes_that_would_write_one_file_are_told_unless_their_batches_differ() -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["save_2"] = plain["nodes"]["save"]
    workspace = Workspace(roots=(Path.cwd(),))
    [problem] = foretell(graph_from_plain(plain), SPECS, workspace=workspace, machine=[]).problems
    assert (problem.node, problem.code) == ("save_2", "bad_name") and "by another node" in problem.message
    plain["nodes"]["grid"] = {"type": "LoomImageGrid", "version": 1, "inputs": {"image": {"from": "decode.image"}}}
    plain["nodes"]["save_2"] = {"type": "LoomSaveImage", "version": 1, "inputs": {"image": {"from": "grid.image"}}}
    plain["nodes"]["empty_latents"]["inputs"]["batch"] = 4
    assert not foretell(graph_from_plain(plain), SPECS, workspace=workspace, machine=[]).problems


def test_check_of_a_sweep_names_each_bad_point(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["check", FIRST, "--sweep", "empty_latents.width=96,100,1024", "--json"]
    assert main(sweep) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    told = [(each["point"]["empty_latents.width"], each["kind"]) for each in problems]
    assert told == [(100, "error"), (1024, "estimate")]
    assert main(["run", FIRST, "--sweep", "empty_latents.width=100,77"]) == 2
    assert not Path("output").exists()
    capsys.readouterr()
    assert main(["run", FIRST, "--set", "empty_latents.width=1024", "--set", "empty_latents.height=1024"]) == 2
    assert "--force runs it" in capsys.readouterr().err


def test_a_workflow_whose_results_are_all_muted_is_told_as_a_problem() -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["save"]["mode"] = "mute"
    (problem,) = foretell(graph_from_plain(plain), SPECS, workspace=Workspace(), machine=[]).problems
    assert problem.code == "nothing_to_run" and problem.kind == "error"


def test_a_node_that_nothing_needs_refuses_nothing(tmp_path: Path) -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["spare"] = {"type": "LoomLoadImage", "version": 1, "inputs": {"path": "nowhere.png"}}
    workspace = Workspace(roots=(tmp_path,), claims={})
    assert not foretell(graph_from_plain(plain), SPECS, workspace=workspace, machine=[]).problems
    plain["nodes"]["save_2"] = plain["nodes"]["save"]  # of two files of one name only one is asked for
    schedule(graph_from_plain(plain), SPECS, overrides={}, workspace=workspace, targets=["save_2"])


def test_a_picture_may_lie_where_a_sweep_makes_its_folders(capsys: pytest.CaptureFixture[str]) -> None:
    Path("output").mkdir()
    Pillow.new("RGB", (64, 64)).save("output/repainted.png")
    path = str(Path("output/repainted.png").absolute())
    named = ["--set", f"load_image.path={path}"]
    assert main(["check", FROM_PICTURE, *named]) == 2 and "is read by this run" in capsys.readouterr().out
    assert main(["check", FROM_PICTURE, *named, "--sweep", "denoise.seed=1..2"]) == 0


def test_a_sweep_of_pictures_may_name_them_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [tmp_path / f"{name}.png" for name in "ab"]
    for picture in pictures:
        Pillow.new("RGB", (64, 64)).save(picture)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["check", FROM_PICTURE, "--sweep", f"load_image.path={','.join(map(str, pictures))}"]) == 0


def test_a_picture_that_was_just_written_is_looked_at_again() -> None:
    picture = Path("picture.png")
    Pillow.new("RGB", (64, 64)).save(picture)
    whole, times = picture.read_bytes(), picture.stat()
    picture.write_bytes(bytes(len(whole)))
    os.utime(picture, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [problem.code for problem in found(FROM_PICTURE, {})] == ["no_file"]
    with picture.open("r+b") as file:  # the same inode, size and, by a clock that ticks rarely, time
        file.write(whole)
    os.utime(picture, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not found(FROM_PICTURE, {})


def test_a_model_that_is_pulled_or_replaced_meanwhile_is_seen_at_the_next_check(
    tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular_file, "is_settled", lambda times: True)  # all that is read is kept
    folder, size = tmp_path / "model", {"empty_latents.width": 64, "empty_latents.height": 64}

    def codes() -> list[str]:
        return [each.code for each in found(FIRST, {**size, "load_model.source": str(folder)}, roots=(tmp_path,))]

    assert codes() == ["no_model"]
    shutil.copytree(tiny("flux"), folder)
    assert codes() == codes() == []
    index = folder / "model_index.json"
    index.write_text(index.read_text().replace('"FluxPipeline"', '"FluxPipelined"'))
    assert codes() == ["no_model"]
    replaced = folder / "new"
    replaced.write_text((tiny("flux") / "model_index.json").read_text())
    replaced.replace(index)
    assert codes() == []


def test_a_name_at_which_no_file_can_be_is_told(tmp_path: Path) -> None:
    Path("output/folder.png").mkdir(parents=True)
    Path("output/blocked").touch()
    for name in ("folder", "blocked/x"):
        assert [problem.code for problem in found(FIRST, {"save.name": name})] == ["not-written"]
    assert not found(FIRST, {"save.name": "new/one"})


def test_what_nobody_knows_before_the_run_is_a_note_that_blocks_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = dataclasses.replace(SPECS["LoomEmptyLatents"], origin="studio 1.2", sketch=None, refuses=None)
    monkeypatch.setitem(SPECS, "LoomEmptyLatents", outside)
    [note] = found(FIRST, {})
    assert (note.node, note.kind, note.code) == ("empty_latents", "unknown", "not_known")
    assert "studio 1.2" in note.message and not list(blocking([note], is_forced=False))
    assert main(["check", FIRST]) == 0 and "keeps nothing from running" in capsys.readouterr().out


def test_a_check_ends_at_the_next_node_once_nobody_waits_for_it() -> None:
    asked: list[int] = []

    def go_on() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise Cancelled

    graph = graph_from_plain(json.loads(Path(FIRST).read_text()))
    with pytest.raises(Cancelled):
        foretell(graph, SPECS, workspace=Workspace(), machine=[], go_on=go_on)
    assert len(asked) == 2
