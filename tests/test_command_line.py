"""The command line, as a user calls it: what it prints, its exit codes, and what lies on disk afterwards."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latentloom.__main__ import main
from latentloom.pipelines.models.describe import pick_device
from support.by_hand import cells

ROOT = Path(__file__).resolve().parent.parent
FIRST = str(ROOT / "workflows" / "bobbin" / "first_picture.json")
SMALL = ["--set=denoise.steps=2", "--set=empty_latents.width=64", "--set=empty_latents.height=64"]
ONE_STEP = ["--set=denoise.steps=1", *SMALL[1:]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def workflow(tmp_path: Path, change: dict[str, Any] | None = None, **inputs: Any) -> str:
    """first_picture with inputs of its denoise node replaced, or with top-level keys replaced."""
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["denoise"]["inputs"] |= inputs
    path = tmp_path / "workflow.json"
    path.write_text(json.dumps(plain | (change or {})))
    return str(path)


def pixels(path: str | Path) -> bytes:
    from PIL import Image

    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def test_show_prints_the_workflow_of_a_picture_and_running_that_gives_the_same_pixels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FIRST, "--set", "prompt=a blue heart", *SMALL, "--out", "one"]) == 0
    capsys.readouterr()
    assert main(["show", "one/picture.png"]) == 0
    shown = capsys.readouterr().out
    assert '"a blue heart"' in shown
    assert main(["show", "one/picture.png", "--comfyui"]) == 0
    prompt = json.loads(capsys.readouterr().out)
    assert (prompt["denoise"]["class_type"], prompt["denoise"]["inputs"]["model"]) == ("LoomDenoise", ["load_model", 0])
    (tmp_path / "shown.json").write_text(shown)
    assert main(["run", "shown.json", "--out", "two", "--no-cache"]) == 0
    assert main(["run", "one/picture.png", "--out", "three", "--no-cache"]) == 0
    assert pixels("one/picture.png") == pixels("two/picture.png") == pixels("three/picture.png")


def test_unchanged_run_is_all_cached_and_a_new_seed_runs_what_depends_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    def states(*options: str, made: str = "picture.png") -> dict[str, str]:
        assert main(["run", FIRST, "--json", *SMALL, *options]) == 0
        *events, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (last["kind"], last["state"], [Path(f).name for f in last["files"]]) == ("result", "ok", [made])
        return {e["node"]: e["kind"] for e in events if e["kind"] in ("cached", "finished")}

    assert set(states().values()) == {"finished"}
    assert set(states().values()) == {"cached"}
    changed = states("--set", "seed=8", made="picture-2.png")  # the first one stays
    assert {name for name, kind in changed.items() if kind == "finished"} == {
        "load_model",  # says how things are on this machine, every time
        "denoise",
        "decode",
        "save",
    }
    assert set(states().values()) == {"cached"}  # its file is still there


def test_a_file_of_another_run_or_of_somebody_else_stays_unless_it_is_to_give_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def made(*options: str) -> list[str]:
        assert main(["run", FIRST, *ONE_STEP, "--out", "one", *options]) == 0
        return [Path(line).name for line in capsys.readouterr().out.splitlines()]

    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "picture.png").write_text("mine")
    assert made() == ["picture-2.png"] and made("--no-cache") == ["picture-2.png"]
    assert "picture.png is another run's and stays; this one is picture-2.png" in caplog.text
    first = (tmp_path / "one" / "picture-2.png").read_bytes()
    assert made("--set", "seed=8") == ["picture-3.png"] and made("--set", "seed=8", "--resume") == [
        "one: complete already"
    ]
    assert (tmp_path / "one" / "picture.png").read_text() == "mine"
    assert (tmp_path / "one" / "picture-2.png").read_bytes() == first
    assert made("--set", "seed=9", "--overwrite") == ["picture.png"]


def test_several_files_and_a_list_are_run_by_one_process_with_one_tally(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*options: str) -> list[dict[str, Any]]:
        assert main(["run", *options, *ONE_STEP, "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    (tmp_path / "other.json").write_text(Path(FIRST).read_text())
    lines = told(FIRST, "other.json", "--sweep", "seed=1..2", "--shard", "1/2")
    results = [line for line in lines if line["kind"] == "result"]
    assert [(r["point"], r["workflow"], r["state"]) for r in results] == [(2, FIRST, "ok"), (4, "other.json", "ok")]
    assert (lines[-1]["kind"], lines[-1]["runs"], lines[-1]["ok"]) == ("sweep", 2, 2)
    cached = {line["node"] for line in lines if line["kind"] == "cached" and line["point"] == 4}
    assert {"encode_text", "denoise", "decode"} <= cached  # of the other file: it is the same work
    (tmp_path / "list.jsonl").write_text(json.dumps({"workflow": "other.json", "params": {"seed": 2}}))
    again = told("--jobs", "list.jsonl", "--resume")
    assert [(line["kind"], line["state"]) for line in again] == [("result", "resumed"), ("sweep", "ok")]


def test_sweep_makes_a_folder_for_each_value_and_resume_skips_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ["run", FIRST, "--sweep", "seed=1..2", *SMALL]
    assert main(sweep) == 0
    made = sorted((tmp_path / "output").rglob("picture.png"))
    assert [p.parent.name for p in made] == ["seed=1", "seed=2"]
    assert pixels(made[0]) != pixels(made[1])
    capsys.readouterr()
    stamps = [p.stat().st_mtime_ns for p in made]
    assert main([*sweep, "--resume"]) == 0
    assert capsys.readouterr().out.count("complete already") == 2
    assert [p.stat().st_mtime_ns for p in made] == stamps


WORDS = {
    "format": 1,
    "name": "words",
    "params": {"text": {"type": "string", "default": "a star"}},
    "nodes": {
        "join": {"type": "LoomJoinText", "version": 1, "inputs": {"first": {"param": "text"}, "second": "red"}},
        "sum": {"type": "LoomCalculate", "version": 1, "inputs": {"a": 0.5, "b": 2}},
    },
    "outputs": {"words": {"from": "join.text"}, "sum": {"from": "sum.number"}, "is": {"from": "sum.truth"}},
}


def test_text_and_numbers_that_a_workflow_makes_are_printed_and_stand_in_result_and_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("words.json").write_text(json.dumps(WORDS))
    assert main(["run", "words.json", "--no-cache"]) == 0
    assert capsys.readouterr().out == "words: a star, red\nsum: 2.5\nis: true\n"
    told = json.loads(Path("output/manifest.json").read_text())["outputs"]
    assert [(each["type"], each["value"]) for each in told] == [("str", "a star, red"), ("float", 2.5), ("bool", True)]
    for more in ([], ["--resume"]):
        assert main(["run", "words.json", "--no-cache", "--json", *more]) == 0
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert last["outputs"] == {"words": "a star, red", "sum": 2.5, "is": True}
    assert last["state"] == "resumed"


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_file_gets_whole_lines_and_a_quiet_run_tells_its_results_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quiet: list[str]
) -> None:
    assert main(["run", FIRST, *SMALL, "--no-cache", "--out", str(tmp_path), *quiet]) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'picture.png'}\n" and "\r" not in err
    assert ("denoise" in err) == (not quiet)


def test_what_a_terminal_would_obey_is_spelt_out_long_text_is_cut_and_a_sweep_says_whose_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "\x1b[2J" + "a" * 5000
    Path("words.json").write_text(json.dumps(WORDS | {"outputs": {"words": {"from": "join.text"}}}))
    assert main(["run", "words.json", "--no-cache", f"--set=text={long}", "--sweep=sum.a=1..2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("output/sum.a=1: words: \\x1b[2Jaaa") and second.startswith("output/sum.a=2: words: ")
    assert first.endswith("aaa ... (5,009 characters; all of it is in output/sum.a=1/manifest.json)")
    assert 1990 < first.count("a") < 2050
    assert json.loads(Path("output/sum.a=1/manifest.json").read_text())["outputs"][0]["value"] == f"{long}, red"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "no.json"], "no.json"),
        (["run", FIRST, "--set", "promt=x"], "prompt"),
        (["run", FIRST, "--set", "prompt"], "prompt=VALUE"),
        (["run", FIRST, "--set", "seed=-1"], "seed"),
        (["run", FIRST, "--set", "seed=1.5"], "seed"),
        (["run", FIRST, "--set", "denoise.steps=-3"], "steps"),
        (["run", FIRST, "--set", "denoise.guidance=nan"], "guidance"),
        (["run", FIRST, "--sweep", "seed=4..1"], "seed"),
        (["run", FIRST, "--sweep", "denoise.seed=1,99999999999999999999"], "seed"),
        (["run", "a" * 300 + ".json"], "does not exist"),
        (["run", FIRST, "--set", "seed=3", "--sweep", "seed=1..2"], "--set seed and --sweep seed"),
        (["run", FIRST, "--set", "decode.latents=foo"], "takes no value but a Latents"),
        (["run", FIRST, "--out", "/proc/nowhere"], "choose another output folder"),
        (["run", FIRST, "--max-pixels", "0"], "--max-pixels"),
        (["run", FIRST, "--devices", "cpu,gpu"], "'gpu' is no device"),
        (["run", FIRST, "--devices", "cpu*4", "--replicas", "3"], "replicas is 3, but 4 devices"),
        (["run", FIRST, "--devices", "cpu,cpu", "--plan", "spiral=2"], "'spiral=2' is no axis"),
        (["run", FIRST, "--devices=cpu,cpu", "--plan=ulysses=4"], "uses 4 ranks, but 2 devices were given"),
        (["run", FIRST, "--devices=cpu*4", "--replicas=2", "--plan=ring=4"], "uses 4 ranks, but 2 devices were given"),
        (["show", "no.png"], "no.png"),
        (["nodes", "LoomDenoiser"], "LoomDenoise"),
        (["models", "pull"], "hub id"),
    ],
)
def test_mistake_on_the_command_line_is_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(arguments) == (75 if "output folder" in words else 2)
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize(
    ("node", "inputs", "words"),
    [
        ("load_model", {"source": "builtin:bobin"}, "bobbin"),
        ("load_model", {"source": "no/such-model"}, "models pull no/such-model"),
        ("load_model", {"source": "./nowhere"}, "nowhere"),
        ("load_model", {"device": "cuda:99"}, "auto"),
        ("empty_latents", {"width": 65}, "multiples of"),
        ("empty_latents", {"frames": 9}, "makes pictures"),
        ("denoise", {"strength": 0.5}, "Encode Image"),
    ],
)
def test_mistake_of_a_value_is_one_sentence_and_its_code(
    node: str, inputs: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"][node]["inputs"] |= inputs
    (tmp_path / "w.json").write_text(json.dumps(plain))
    assert main(["run", "w.json"]) == (75 if "pull" in words else 2)  # which is here on another machine
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in error
    assert node in error
    assert not list(tmp_path.rglob("*.png"))


def test_a_model_of_one_s_own_is_used_once_its_folder_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "pipelines" / "bobbin" / "model", tmp_path / "models" / "own")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for source in (str(tmp_path / "models" / "own"), "./own"):
        plain = json.loads(Path(FIRST).read_text())
        plain["nodes"]["load_model"]["inputs"]["source"] = source
        Path("saved.json").write_text(json.dumps({"$schema": "x.json", **plain, "meta": {"shot": "010"}}))
        run = ["run", "saved.json", *ONE_STEP]
        assert main(run) == 2
        assert "with --allow" in capsys.readouterr().err or source == "./own"
        for option in ("--allow", "--models-dir"):
            assert main([*run, option, str(tmp_path / "models")]) == 0
        capsys.readouterr()
        assert main(["show", "output/picture.png"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["$schema"], shown["meta"]) == ("x.json", {"shot": "010"})
    assert main([*run, "--models-dir", "no"]) == 2
    assert "--models-dir no is not a folder" in capsys.readouterr().err


def test_check_lists_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = workflow(tmp_path, steps=-1, guidance="much", latents={"from": "decode.image"})
    assert main(["check", file]) == 2
    out = capsys.readouterr().out
    assert all(word in out for word in ("steps", "guidance", "latents"))
    assert main(["check", FIRST]) == 0


@pytest.mark.parametrize("prompt", ["", "a red star " * 9000])
def test_prompt_of_no_or_100000_characters_still_makes_a_picture(prompt: str, tmp_path: Path) -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["params"]["prompt"]["default"] = prompt
    (tmp_path / "w.json").write_text(json.dumps(plain))
    assert main(["run", "w.json", *ONE_STEP]) == 0


def test_a_prompt_that_no_file_system_takes_as_a_name_is_a_prompt() -> None:
    assert main(["check", FIRST, "--set", "prompt=/" + "imagine a prompt " * 30]) == 0
    assert main(["run", FIRST, "--set", "prompt=/" + "imagine a prompt " * 30, *ONE_STEP]) == 0


def test_a_picture_beyond_the_limit_still_tells_its_workflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image, PngImagePlugin

    chunks = PngImagePlugin.PngInfo()
    chunks.add_text("latentloom", Path(FIRST).read_text())
    Image.new("1", (9000, 8000)).save(tmp_path / "big.png", pnginfo=chunks)
    assert main(["show", "big.png"]) == 0
    assert '"first_picture"' in capsys.readouterr().out


def test_a_video_that_is_a_playlist_opens_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "victim.mp4")
    for ending in ("mp4", "mkv"):
        (tmp_path / f"list.{ending}").write_text("ffconcat version 1.0\nfile 'victim.mp4'\n")
        assert main(["show", f"list.{ending}"]) == 2
        assert "is not a video that can be read" in capsys.readouterr().err


def test_check_refuses_what_run_refuses_of_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--set", "prompt=a", "--set", "encode_text.prompt=b"]
    assert main(["run", FIRST, *sets]) == main(["check", FIRST, *sets]) == 2
    assert capsys.readouterr().err.count("changes nothing") == 2


def test_what_is_no_picture_a_pipe_and_one_of_too_many_pixels_end_the_run_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    from PIL import Image

    Image.new("RGB", (30, 20)).save(tmp_path / "large.png")
    again = ["run", str(ROOT / "workflows" / "bobbin" / "image_to_image.json"), "--set"]
    for content in (b"hello", b"\x89PNG\r\n\x1a\n"):
        (tmp_path / "bad.png").write_bytes(content)
        assert main([*again, "image=bad.png"]) == 2
        assert "bad.png" in capsys.readouterr().err
    assert main([*again, f"image={tmp_path / 'pipe.png'}"]) == 2
    assert "is a pipe or a device, which is not read" in capsys.readouterr().err
    assert main([*again, f"image={tmp_path / 'large.png'}", "--max-pixels", "599"]) == 2
    assert (
        "30 x 20 pixels, and at most 599 are taken; make it smaller, or raise the limit with --max-pixels"
        in capsys.readouterr().err
    )


def test_image_to_image_keeps_what_strength_leaves(tmp_path: Path) -> None:
    assert main(["run", FIRST, "--out", ".", "--set", "denoise.steps=3"]) == 0
    again = ["run", str(ROOT / "workflows" / "bobbin" / "image_to_image.json"), "--set", "denoise.steps=5"]
    distances = []
    for strength in ("0.2", "1"):
        assert main([*again, "--set", f"strength={strength}", "--out", strength]) == 0
        pair = zip(pixels("picture.png"), pixels(f"{strength}/repainted.png"), strict=True)
        distances.append(sum(abs(a - b) for a, b in pair))
    assert distances[0] < distances[1]


NODES = '''
"""A node of a thousand steps, which imports nothing for them."""
import time

from latentloom.nodes.graph.signature import read_spec
from latentloom.parallel.progress import Progress


def steps(progress: Progress) -> int:
    """Takes a minute."""
    for done in range(1, 1001):
        progress.step(done, 1000)
        time.sleep(0.06)
    return 1


NODES = {"long_Steps": read_spec(steps, title="Steps", category="long", is_output=True, is_kept=False)}
'''


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize("is_denoise", [False, pytest.param(True, marks=pytest.mark.by_hand)])
def test_ctrl_c_in_the_middle_ends_with_130_and_leaves_nothing_half_written(is_denoise: bool, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir(mode=0o700)
    (tmp_path / "nodes" / "long.py").write_text(NODES)
    long = {"format": 1, "name": "long", "nodes": {"steps": {"type": "long_Steps", "version": 1, "inputs": {}}}}
    Path("long.json").write_text(json.dumps(long))
    asked = [workflow(tmp_path, steps=1000), *SMALL[1:]] if is_denoise else ["long.json", "--nodes=nodes"]
    with program("", "run", *asked, "--json") as process:
        assert any(json.loads(line)["kind"] == "progress" for line in process.stdout)
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert {path.name for path in (tmp_path / "output").iterdir()} <= {"manifest.json"}
    assert json.loads(output.splitlines()[-1])["state"] == "cancelled"


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root to mount a small disk")
def test_full_disk_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting is not permitted here")
    try:
        (small / "filler").write_bytes(b"x" * 12288)
        assert main(["run", FIRST, "--out", str(small), "--no-cache"]) == 75
        assert "full" in capsys.readouterr().err
        assert {p.name for p in small.iterdir()} <= {"filler", "manifest.json"}  # the manifest says why it failed
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_models_lists_the_built_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    first, does, compared = capsys.readouterr().out.splitlines()[:3]
    assert first.startswith("builtin:bobbin") and does.strip() == "text to picture, picture to picture, inpainting"
    assert "with FluxPipeline" in compared and "not with published weights" in compared


def test_running_never_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert main(["run", FIRST, *ONE_STEP]) == 0
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["load_model"]["inputs"]["source"] = "black-forest-labs/FLUX.1-dev"
    (tmp_path / "w.json").write_text(json.dumps(plain))
    assert main(["run", "w.json"]) == 75


def test_telemetry_is_off_however_latentloom_is_used() -> None:
    code = (
        f"import runpy; import os; runpy.run_path({str(ROOT / 'tests' / 'support' / 'checkout.py')!r})\n"
        "os.environ.pop('HF_HUB_DISABLE_TELEMETRY', None)\nimport latentloom.nodes\n"
        "from huggingface_hub import constants\nprint(constants.HF_HUB_DISABLE_TELEMETRY)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"


def test_help_and_check_import_no_torch() -> None:
    code = (
        f"import runpy, sys; runpy.run_path({str(ROOT / 'tests' / 'support' / 'checkout.py')!r})\n"
        "from latentloom.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"main(['check', {FIRST!r}])\nmain(['nodes'])\n"
        "print([m for m in ('torch', 'diffusers', 'transformers', 'gradio') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_cpu_is_taken_by_its_name_without_asking_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert pick_device("cpu") == "cpu"


def test_moved_checkout_still_finds_its_model(tmp_path: Path) -> None:
    folder = tmp_path / "some dir" / "latent-loom"
    folder.parent.mkdir()
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", "tests", "__pycache__", ".*"))
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('latentloom', {str(folder / '__init__.py')!r}, "
        f"submodule_search_locations=[{str(folder)!r}])\n"
        "module = importlib.util.module_from_spec(spec)\nsys.modules['latentloom'] = module\n"
        "spec.loader.exec_module(module)\nfrom latentloom.nodes import load_model\n"
        "print(load_model(device='cpu').folder)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip().startswith(str(folder))


def test_out_folder_keeps_what_was_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("writable", "picture", "a.txt"):
        (tmp_path / "mine" / name).write_text("precious")
    assert main(["run", FIRST, "--out", "mine", *ONE_STEP]) == 0
    assert {(tmp_path / "mine" / name).read_text() for name in ("writable", "picture", "a.txt")} == {"precious"}


def test_a_sweep_goes_on_past_a_bad_point_and_ends_with_one_report(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["run", FIRST, "--set", "denoise.steps=1", "--sweep", "empty_latents.width=96,100,128"]
    for more in ([], ["--resume"]):
        assert main([*sweep, *more]) == 1
        told = capsys.readouterr()
        assert "latentloom: 1 of 3 runs failed:\n  output/empty_latents.width=100: empty_latents.width: " in told.err
        assert [Path(line).parent.name for line in told.out.splitlines() if "picture" in line or more] == (
            ["output", "output"] if more else ["empty_latents.width=96", "empty_latents.width=128"]
        )
    assert main([*sweep, "--resume", "--json"]) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {name: last[name] for name in ("kind", "state", "runs", "ok", "resumed", "failed", "left")} == {
        **{"kind": "sweep", "state": "failed", "runs": 3},
        **{"ok": 0, "resumed": 2, "failed": 1, "left": 0},
    }
    assert last["failures"][0]["overrides"]["empty_latents.width"] == 100


def test_points_of_a_sweep_that_look_alike_get_folders_of_their_own(tmp_path: Path) -> None:
    prompts = ["a red star!", "a red star?", "a Red star!", "a red ring"]
    sweep = ["--sweep", f"prompt={json.dumps(prompts)}", *ONE_STEP, "--no-cache"]
    assert main(["run", FIRST, *sweep]) == 0
    assert len({p.parent.name.casefold() for p in (tmp_path / "output").rglob("picture.png")}) == 4


def test_two_nodes_never_write_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["save_2"] = plain["nodes"]["save"]
    (tmp_path / "w.json").write_text(json.dumps(plain))
    assert main(["run", "w.json", *ONE_STEP]) == 2
    assert "written by another node" in capsys.readouterr().err


def test_run_never_writes_over_its_own_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", FIRST, *ONE_STEP, "--out", "."]) == 0
    before = (tmp_path / "picture.png").read_bytes()
    again = [
        "run",
        str(ROOT / "workflows" / "bobbin" / "image_to_image.json"),
        "--set",
        "save.name=picture",
        "--out",
        ".",
    ]
    assert main([*again, "--set", "denoise.steps=2"]) == 2
    assert "is read by this run" in capsys.readouterr().err
    assert (tmp_path / "picture.png").read_bytes() == before


def test_resume_runs_again_when_an_input_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", FIRST, *ONE_STEP, "--out", "."]) == 0
    again = [
        "run",
        str(ROOT / "workflows" / "bobbin" / "image_to_image.json"),
        "--set",
        "denoise.steps=2",
        "--out",
        "to",
        "--resume",
    ]
    assert main(again) == 0
    capsys.readouterr()
    assert main(again) == 0
    assert "complete already" in capsys.readouterr().out
    assert main(["run", FIRST, *SMALL, "--out", ".", "--overwrite"]) == 0
    capsys.readouterr()
    assert main(again) == 0
    assert "complete already" not in capsys.readouterr().out


def test_renamed_workflow_is_in_the_picture_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert main(["run", workflow(tmp_path, {"name": name}, steps=1)]) == 0
    capsys.readouterr()
    assert main(["show", "output/picture.png"]) == 0
    assert '"name": "two"' in capsys.readouterr().out


def test_long_words_of_any_language_travel_in_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(workflow_text(steps=1))
    words = "é星🦊" * 300_000
    plain["nodes"]["note"] = {"type": "LoomNote", "version": 1, "inputs": {"text": words}}
    (tmp_path / "w.json").write_text(json.dumps(plain, ensure_ascii=False))
    assert main(["run", "w.json"]) == 0
    capsys.readouterr()
    assert main(["show", "output/picture.png"]) == 0
    assert words in capsys.readouterr().out


def workflow_text(**inputs: Any) -> str:
    return Path(workflow(Path.cwd(), **inputs)).read_text()


def test_other_versions_do_not_share_a_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from latentloom.nodes.execution import manifest

    run = ["run", FIRST, *ONE_STEP, "--cache", "kept", "--json"]
    assert main(run) == 0
    capsys.readouterr()
    manifest.versions.cache_clear()
    monkeypatch.setattr(manifest, "installed_version", lambda package: "9.9")
    assert main(run) == 0
    manifest.versions.cache_clear()
    assert '"kind": "cached"' not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "check"])
def test_json_is_printed_for_a_bad_file_too(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.png").write_text("no picture")
    assert main([command, "bad.png", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert "bad.png" in told["error"] and told["code"] == "bad-input"


# Not in one piece: a signal that comes just before a sleep begins is heard after it.
SLEEP = "(print('asleep', flush=True), [time.sleep(0.1) for _ in range(3000)])"
CHECK = "from latentloom.nodes.graph import check as module; module.check = check"
# Where a process may be when signals come, and after how many of them it is gone.
ASLEEP = {
    "in the command": (1, f"def check(*_, **__):\n    {SLEEP}\n{CHECK}"),
    "in a callback of Python's": (
        1,
        f"class Gone:\n    def __del__(self):\n        {SLEEP}\n"
        f"def check(*_, **__):\n    Gone()\n    return []\n{CHECK}",
    ),
    "in what it leaves by": (
        2,
        f"def check(*_, **__):\n    try:\n        {SLEEP}\n    finally:\n        {SLEEP}\n{CHECK}",
    ),
    "at exit": (1, f"import atexit; atexit.register(lambda: {SLEEP})"),
    "waiting for a thread": (
        1,
        "import threading\ndef wait():\n    threading.main_thread().join()\n"
        # a signal that comes just before a lock is waited for is heard with the next one
        f"    time.sleep(0.3)\n    {SLEEP}\n"
        "threading.Thread(target=wait).start()",
    ),
}


@contextlib.contextmanager
def program(before: str, *arguments: str) -> Iterator[Any]:
    """The command as a process of its own, after other code in it."""
    boot = f"import runpy, sys, time; runpy.run_path({str(ROOT / 'tests' / 'support' / 'checkout.py')!r})\n"
    main = f"\nsys.argv[1:] = {list(arguments)!r}\nfrom latentloom.__main__ import main\nsys.exit(main())"
    command = [sys.executable, "-c", boot + before + main]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("where", "number"),
    cells(
        ASLEEP,
        (signal.SIGINT, signal.SIGTERM),
        here=[*((where, signal.SIGINT) for where in ASLEEP), ("in the command", signal.SIGTERM)],
    ),
)
def test_a_signal_is_one_sentence_and_130_wherever_it_comes(where: str, number: signal.Signals) -> None:
    count, code = ASLEEP[where]
    with program(code, "check", FIRST) as process:
        for _ in range(count):
            assert any("asleep" in line for line in process.stdout)
            process.send_signal(number)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error.startswith("latentloom: ") and error.count("\n") == 1, error


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_to_a_run_that_hangs_is_one_sentence_and_130(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        f"from latentloom.nodes.registry import SPECS\ndef slow(**_):\n    {SLEEP}\n"
        "object.__setattr__(SPECS['LoomJoinText'], 'call', slow)"
    )
    Path("words.json").write_text(json.dumps(WORDS))
    with program(code, "run", "words.json", "--json", "--no-cache") as process:
        assert any("asleep" in line for line in process.stdout)
        process.send_signal(number)
        assert any("stopping at the next step" in line for line in process.stderr)
        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error == "latentloom: stopped at once; nothing was left half-written\n"
    assert list((tmp_path / "output").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="pipes are POSIX")
def test_reader_that_goes_away_ends_the_runs_quietly(tmp_path: Path) -> None:
    """What they print is more than a pipe holds."""
    Path("words.json").write_text(json.dumps(WORDS))
    with program("", "run", "words.json", "--json", "--no-cache", "--sweep=sum.a=1..300") as process:
        assert process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(60) != 0
    assert "Traceback" not in error
    assert len(list((tmp_path / "output").iterdir())) < 300


def test_files_of_comfyui_are_read_or_told_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", FIRST, "--comfyui"]) == 0
    Path("api.json").write_text(capsys.readouterr().out)
    assert main(["check", "api.json"]) == 0
    assert main(["show", "api.json"]) == 0
    assert main(["run", "api.json", *ONE_STEP, "--no-cache"]) == 0
    assert capsys.readouterr().out.strip().endswith("picture.png")
    for command in ("check", "show", "run"):
        assert main([command, str(ROOT / "example_workflows" / "first_picture.json")]) == 2
        told = capsys.readouterr()
        assert "Workflow > Export (API)" in told.out + told.err


def test_a_shipped_workflow_is_named_where_somebody_looks_for_it_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    near, name = Path(FIRST).relative_to(ROOT), "workflows/first_picture.json"
    for folder, path, told in (
        (".", name, f"did you mean {FIRST}?"),
        (ROOT, name, f"did you mean {near}?"),
        (".", "no.json", "check the path"),
    ):
        with contextlib.chdir(folder):
            assert main(["run", path]) == 2
        assert f"{path} does not exist; {told}" in capsys.readouterr().err


def test_a_seed_of_64_bits_is_one_as_digits_too(tmp_path: Path) -> None:
    huge = 2**64 - 1
    assert main(["run", workflow(tmp_path, seed=huge, steps=1), "--out", "one", "--no-cache"]) == 0
    assert main(["run", workflow(tmp_path, seed=str(huge), steps=1), "--out", "two", "--no-cache"]) == 0
    assert main(["run", workflow(tmp_path, seed=huge + 1, steps=1)]) == 2
    assert pixels("one/picture.png") == pixels("two/picture.png")
    keys = [json.loads(Path(f"{run}/manifest.json").read_text())["nodes"]["denoise"]["key"] for run in ("one", "two")]
    assert keys[0] == keys[1]
