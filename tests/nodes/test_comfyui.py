"""The classes that ComfyUI gets: by its documented rules, and good for a picture."""

import asyncio
import inspect
import json
import math
import os
import shutil
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import latentloom
from latentloom.nodes import load_model
from latentloom.nodes.files.picture_files import NOISE_KEY, read_metadata
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.resolve import upgrade
from latentloom.nodes.hosts import comfy_folders
from latentloom.nodes.hosts.comfy_file import fixed_inputs, from_comfy
from latentloom.nodes.hosts.comfy_folders import LORA, MODEL, comfy_workspace
from latentloom.nodes.hosts.comfy_process import ComfyProgress
from latentloom.nodes.hosts.comfyui import CORE_TITLES, NODE_CLASS_MAPPINGS
from latentloom.nodes.registry import SPECS
from latentloom.parallel.errors import Cancelled
from latentloom.pipelines import pools
from latentloom.pipelines.components.store import store
from latentloom.pipelines.values import Video
from support.lora_files import write_pair

CASES = sorted(SPECS)


@pytest.mark.parametrize("id", CASES)
def test_class_has_what_comfyui_asks_of_a_node(id: str) -> None:
    node = latentloom.NODE_CLASS_MAPPINGS[id]
    sockets = node.INPUT_TYPES()
    assert set(sockets) <= {"required", "optional", "hidden"}
    assert callable(getattr(node(), node.FUNCTION))
    assert node.CATEGORY.startswith("latentloom/")
    assert len(node.RETURN_TYPES) == len(node.RETURN_NAMES)
    assert id in latentloom.NODE_DISPLAY_NAME_MAPPINGS
    names = [*sockets["required"], *sockets["optional"]]
    assert sorted(names) == sorted(socket.name for socket in fixed_inputs(SPECS[id]))
    for kind, options in (sockets["required"] | sockets["optional"]).values():
        if isinstance(kind, list):
            assert options["default"] in kind
        elif "default" in options and kind in ("INT", "FLOAT"):
            assert options.get("min", -1e99) <= options["default"] <= options.get("max", 1e99)
        if kind == "FLOAT":  # which its page would round
            assert "step" in options and (options["step"] < 0.5 or "round" in options)


def call(id: str, **inputs: Any) -> Any:
    """As ComfyUI's executor does: defaults of the widgets, then the method, under inference mode in a running loop."""
    node = NODE_CLASS_MAPPINGS[id]
    widgets = {n: o["default"] for n, (_, o) in node.INPUT_TYPES()["optional"].items() if "default" in o}

    async def run() -> Any:
        with torch.inference_mode():
            return getattr(node(), node.FUNCTION)(**widgets | inputs)

    return asyncio.run(run())


def test_picture_through_the_classes_equals_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from latentloom.nodes import decode, denoise, empty_latents, encode_text, load_model

    monkeypatch.chdir(tmp_path)
    (model,) = call("LoomLoadModel")
    (text,) = call("LoomEncodeText", model=model, prompt="a red star")
    (canvas,) = call("LoomEmptyLatents", model=model, width=64, height=96)
    (latents,) = call("LoomDenoise", model=model, conditioning=text, latents=canvas, seed=7, steps=2)
    (picture,) = call("LoomDecode", model=model, latents=latents)
    assert picture.shape == (1, 96, 64, 3)  # ComfyUI's IMAGE
    saved = call("LoomSaveImage", image=picture)
    assert saved["ui"]["images"] == [{"filename": "picture_00001_.png", "subfolder": "", "type": "output"}]

    by_hand = load_model()
    empty = empty_latents(by_hand, width=64, height=96)
    latents = denoise(by_hand, encode_text(by_hand, "a red star"), empty, seed=7, steps=2)
    assert torch.equal(decode(by_hand, latents).pixels, picture)


def test_saved_picture_carries_what_comfyui_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    picture = torch.zeros(1, 8, 8, 3)
    prompt = {"1": {"class_type": "X", "inputs": {"a": math.inf}, "is_changed": [math.nan]}}  # as other nodes give them
    call("LoomSaveImage", image=picture, comfy_prompt=prompt, comfy_extra={"workflow": {"nodes": ["ä", math.nan]}})
    metadata = read_metadata(tmp_path / "output" / "picture_00001_.png")
    assert json.loads(metadata.pop("prompt")) == {"1": {"class_type": "X", "inputs": {"a": None}}}
    assert metadata == {"workflow": '{"nodes": ["\\u00e4", null]}', NOISE_KEY: "seed"}


def shown(name: str = "picture", count: int = 1) -> list[str]:
    """The files that a save shows, below the output folder."""
    images = call("LoomSaveImage", image=torch.rand(count, 8, 8, 3), name=name)["ui"]["images"]
    return [f"{image['subfolder']}/{image['filename']}".lstrip("/") for image in images]


def test_saves_count_up_as_comfyui_does_and_overwrite_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [shown(), shown(), shown("a/b")] == [["picture_00001_.png"], ["picture_00002_.png"], ["a/b_00001_.png"]]
    for other in ("picture_00041_.webp", "picture_x.png", "picture.png", "pictures_00099_.png"):
        (tmp_path / "output" / other).touch()
    assert shown(count=2) == ["picture_00042_.png", "picture_00043_.png"]
    assert len(list((tmp_path / "output").glob("picture_000??_.png"))) == 4


def test_saves_at_the_same_time_get_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.extend(shown(count=3))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(found) == [f"picture_{number:05}_.png" for number in range(1, 25)]
    assert all(path.stat().st_size for path in (tmp_path / "output").iterdir())


def test_a_save_that_fails_gives_its_number_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"H\.264 needs even numbers"):
        call("LoomSaveVideo", video=Video(pixels=torch.zeros(1, 2, 9, 9, 3), fps=8.0))
    assert list((tmp_path / "output").iterdir()) == []


def test_a_saved_video_has_comfyui_s_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ui = call("LoomSaveVideo", video=Video(pixels=torch.zeros(1, 2, 16, 16, 3), fps=8.0))["ui"]
    assert ui["animated"] == (True,) and ui["images"][0]["filename"] == "video_00001_.mp4"
    assert "animated" not in call("LoomSaveImage", image=torch.zeros(1, 8, 8, 3))["ui"]


def test_sound_travels_on_comfyui_s_own_wires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wire = {"waveform": torch.rand(2, 1, 800) - 0.5, "sample_rate": 8000}
    assert NODE_CLASS_MAPPINGS["LoomLoadAudio"].RETURN_TYPES == ("AUDIO",)
    shown = call("LoomSaveAudio", audio=wire, name="a/bell")["ui"]
    assert shown == {"audio": [{"filename": f"bell_0000{n}_.flac", "subfolder": "a", "type": "output"} for n in (1, 2)]}
    (loaded,) = call("LoomLoadAudio", path=str(tmp_path / "output/a/bell_00002_.flac"), start=0.05)
    assert loaded["sample_rate"] == 8000
    assert torch.allclose(loaded["waveform"][0], wire["waveform"][1, :, 400:], atol=1 / 32768)
    clip = Video(pixels=torch.zeros(2, 2, 16, 16, 3), fps=8.0)
    call("LoomSaveVideo", video=clip, audio=wire)
    (heard,) = call("LoomLoadAudio", path=str(tmp_path / "output/video_00002_.mp4"))
    assert heard["waveform"].shape == (1, 1, 2000)
    with pytest.raises(ValueError, match="audio is 'noise'; it takes ComfyUI's AUDIO"):
        call("LoomSaveAudio", audio="noise")
    call("LoomSaveVideo", video=clip, audio=None, name="silent")  # of ComfyUI's Get Video Components
    with pytest.raises(ValueError, match=r"silent_00001_\.mp4 is not a sound .*holds no sound"):
        call("LoomLoadAudio", path=str(tmp_path / "output/silent_00001_.mp4"))


FINGERPRINTED = [id for id in CASES if hasattr(NODE_CLASS_MAPPINGS[id], "IS_CHANGED")]


@pytest.mark.parametrize("id", FINGERPRINTED)
def test_what_is_left_out_counts_as_its_default_when_comfyui_compares(
    id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_bytes((2).to_bytes(8, "little") + b"{}")  # a file of tensors, too
    node: Any = NODE_CLASS_MAPPINGS[id]
    sockets = node.INPUT_TYPES()
    needed = {name: None if kind.startswith("LOOM") else "x" for name, (kind, _) in sockets["required"].items()}
    spelled_out = {name: o["default"] for name, (_, o) in sockets["optional"].items() if "default" in o}
    marks = {node.IS_CHANGED(**needed), node.IS_CHANGED(**needed), node.IS_CHANGED(**needed, **spelled_out)}
    assert len(marks) == 1


def test_titles_that_comfyui_has_too_say_whose_they_are() -> None:
    titles = latentloom.NODE_DISPLAY_NAME_MAPPINGS
    assert titles["LoomSaveImage"] == "Save Image (latentloom)" and titles["LoomDenoise"] == "Denoise"
    assert set(titles.values()).isdisjoint(CORE_TITLES) and len(set(titles.values())) == len(titles)
    assert SPECS["LoomSaveImage"].title == "Save Image"  # on our own page


def test_seeds_are_comfyui_s_own_64_bits_and_more_steps_than_a_thousand_are_taken() -> None:
    most = {
        ("Denoise", "steps"): 10_000,
        **dict.fromkeys((("Denoise", "seed"), ("EncodeImage", "seed"), ("Seed", "value")), 2**64 - 1),
    }
    for (id, name), number in most.items():
        assert NODE_CLASS_MAPPINGS[f"Loom{id}"].INPUT_TYPES()["optional"][name][1]["max"] == number


def test_a_model_that_is_not_here_is_not_pulled_by_a_command_that_comfyui_lacks() -> None:
    with pytest.raises(ValueError, match="is not on this machine; download its whole repository") as caught:
        load_model("org/not-here", workspace=Workspace(roots=(), host="comfyui"))
    assert "latentloom" not in str(caught.value)
    with pytest.raises(ValueError, match="run `latentloom models pull org/not-here` first"):
        load_model("org/not-here", workspace=Workspace(roots=(), host="command line"))


@pytest.mark.parametrize(
    ("id", "inputs", "words"),
    [
        ("LoomLoadImage", {"path": "/etc/hostname"}, "lies outside .*; move or link it there$"),
        ("LoomParallelPlan", {"devices": "cpu*63"}, r"names 63 CPU ranks.*; use cpu\*\d+ or fewer$"),
        ("LoomParallelPlan", {"devices": "cpu*2", "plan": "ulysses=3"}, "use plan auto, or give 3 devices$"),
    ],
)
def test_advice_in_comfyui_names_no_command_line(id: str, inputs: dict[str, Any], words: str, folders: Path) -> None:
    models = {"model": call("LoomLoadModel", device="cpu")[0]} if id == "LoomParallelPlan" else {}
    with pytest.raises(ValueError, match=words) as refused:
        call(id, **models, **inputs)
    assert "--" not in str(refused.value)


def test_what_stands_at_a_node_is_checked_when_comfyui_queues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ComfyUI gives the values by name that the function names, and of wires nothing."""
    monkeypatch.chdir(tmp_path)

    def asked(id: str, **inputs: str) -> str | bool:
        check = NODE_CLASS_MAPPINGS[id].VALIDATE_INPUTS
        assert set(inputs) <= set(inspect.getfullargspec(check).args)
        return check(**inputs)

    whole = {"revision": "", "device": "auto"}
    assert asked("LoomLoadModel", source="builtin:bobbin", **whole) is True
    assert asked("LoomLoadModel", device="auto") is True  # its source is wired
    missing = asked("LoomLoadModel", source="nobody/has-it", **whole)
    assert isinstance(missing, str) and "hf download" in missing and "latentloom" not in missing
    assert "does not exist" in str(asked("LoomLoadImage", path="none.png"))
    assert "inside the output folder" in str(asked("LoomSaveImage", name="../picture"))
    assert asked("LoomSaveImage", name="picture") is True and not list(tmp_path.iterdir())


def test_changed_file_changes_what_comfyui_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    node: Any = NODE_CLASS_MAPPINGS["LoomLoadImage"]
    marks = []
    for content in (b"a", b"b", b"a"):
        Path("x.png").write_bytes(content)
        marks.append(node.IS_CHANGED(path="x.png"))
    assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize(
    ("id", "inputs"), [("LoadImage", {}), ("LoadImage", {"path": "gone.png"}), ("LoadModel", {"source": None})]
)
def test_what_cannot_be_compared_yet_always_runs_and_says_so_in_json(id: str, inputs: dict[str, Any]) -> None:
    node: Any = NODE_CLASS_MAPPINGS[f"Loom{id}"]
    first, second = (node.IS_CHANGED(**inputs) for _ in range(2))
    assert first != second and json.dumps([first, second], allow_nan=False)


def test_interrupt_of_the_host_ends_the_stage_and_reaches_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    class InterruptProcessingException(Exception):
        pass

    def interrupted() -> None:
        raise InterruptProcessingException

    comfy, management = types.ModuleType("comfy"), types.ModuleType("comfy.model_management")
    management.throw_exception_if_processing_interrupted = interrupted  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comfy", comfy)
    monkeypatch.setitem(sys.modules, "comfy.model_management", management)
    progress, settings = ComfyProgress(), types.ModuleType("comfy.cli_args")
    monkeypatch.setitem(sys.modules, "comfy.cli_args", settings)
    for method in ("none", "taesd"):
        monkeypatch.setattr(settings, "args", types.SimpleNamespace(preview_method=method), raising=False)
        assert ComfyProgress().wants_previews == (method != "none")
    with pytest.raises(Cancelled):
        progress.step(1, 4)
    with pytest.raises(InterruptProcessingException):
        progress.raise_interrupt()
    with pytest.raises(InterruptProcessingException):
        call("LoomEncodeText", model=call("LoomLoadModel")[0], prompt="a red star")


def test_what_comfyui_unloads_we_give_back_too_once_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    comfy, management = types.ModuleType("comfy"), types.ModuleType("comfy.model_management")
    management.unload_all_models = lambda: done.append("unloaded")  # type: ignore[attr-defined]
    comfy.model_management = management  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comfy", comfy)
    monkeypatch.setitem(sys.modules, "comfy.model_management", management)
    monkeypatch.setattr(pools.POOLS, "close_idle", lambda: done.append("pools"))
    monkeypatch.setattr(store(), "give_way", lambda: done.append("here"))
    for _ in range(2):
        call("LoomSeed", value=7)
    management.unload_all_models()  # type: ignore[attr-defined]
    assert done == ["pools", "here", "unloaded"]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """ComfyUI's folders of models, and one of a user's own for each kind, as `extra_model_paths.yaml` adds them."""
    module: Any = types.ModuleType("folder_paths")
    known = {name: ([str(tmp_path / "models" / name), str(tmp_path / "mine" / name)], set()) for name in FOLDERS}
    for paths, _ in known.values():
        for path in paths:
            Path(path).mkdir(parents=True)
    module.models_dir = str(tmp_path / "models")
    module.folder_names_and_paths = known
    module.get_folder_paths = lambda name: known[name][0]
    for name in ("get_input_directory", "get_output_directory"):
        setattr(module, name, lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "folder_paths", module)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    comfy_folders._names.cache_clear()
    return tmp_path


FOLDERS = ("diffusion_models", "checkpoints", "diffusers", "loras")


def offered(id: str, socket: str) -> Any:
    sockets = NODE_CLASS_MAPPINGS[id].INPUT_TYPES()
    return (sockets["required"] | sockets["optional"])[socket][0]


def test_models_and_loras_of_comfyui_s_folders_are_offered(folders: Path, tiny: Callable[[str], Path]) -> None:
    base = folders / "mine" / "diffusers" / "tiny"
    shutil.copytree(tiny("flux"), base)
    weights = next((base / "transformer").glob("*.safetensors"))
    shutil.copy(weights, folders / "mine" / "diffusion_models" / "own.safetensors")
    write_pair(folders / "models" / "diffusion_models" / "odd.safetensors", "transformer.odd")
    write_pair(folders / "mine" / "loras" / "style.safetensors", "transformer.x_embedder")
    (folders / "models" / "loras" / "code.pt").touch()
    assert offered("LoomLoadLora", "path") == ["style.safetensors"]
    models = ["builtin:bobbin", "tiny", "odd.safetensors", "own.safetensors@tiny"]
    assert offered("LoomLoadModel", "source") == offered("LoomRunPipeline", "source") == models

    (model,) = call("LoomLoadModel", source="own.safetensors@tiny")
    (styled,) = call("LoomLoadLora", model=model, path="style.safetensors")
    assert [Path(lora.path) for lora in styled.loras] == [folders / "mine" / "loras" / "style.safetensors"]
    check: Any = NODE_CLASS_MAPPINGS["LoomLoadModel"].VALIDATE_INPUTS
    for good in ("builtin:bobbin", str(base), "diffusion_models/../diffusers/../../mine/diffusers/tiny"):
        assert check(source=good, revision="", device="auto") is True
    assert "source" in inspect.getfullargspec(check).args, "so that ComfyUI takes what is not in the list"


def test_a_name_of_both_kinds_is_that_of_the_socket(folders: Path) -> None:
    for kind in ("loras", "diffusion_models"):
        write_pair(folders / "models" / kind / "same.safetensors", "transformer.x_embedder")
    for first, kind in ((LORA, "loras"), (MODEL, "diffusion_models")):
        found = comfy_workspace(first).input_path("same.safetensors", socket="path")
        assert found == folders / "models" / kind / "same.safetensors"


class ExecutionBlocker:
    """ComfyUI's, of which it says nothing."""


def test_a_refusal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ComfyUI does: an answer is told for each input that the check names."""
    graph: Any = types.ModuleType("comfy_execution.graph_utils")
    graph.ExecutionBlocker = ExecutionBlocker
    monkeypatch.setitem(sys.modules, "comfy_execution", types.ModuleType("comfy_execution"))
    monkeypatch.setitem(sys.modules, "comfy_execution.graph_utils", graph)
    check: Any = NODE_CLASS_MAPPINGS["LoomLoadModel"].VALIDATE_INPUTS
    given = {"source": "nobody/has-it", "revision": "", "device": "auto"}
    for _ in range(2):
        answer, told = check(**given), []
        for name in given:
            if answer is not True and not isinstance(answer, ExecutionBlocker):
                told.append(f"{name} - {answer!s}")
        [once] = told
        assert once.startswith("source - model 'nobody/has-it' is not on this machine; download")


@pytest.mark.timeout(1200)
def test_a_session_with_a_real_comfyui(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "bench"))
    import comfyui_session

    checkout = os.environ.get("LATENTLOOM_COMFYUI")
    if reason := comfyui_session.why_not(checkout and Path(checkout)):
        pytest.skip(reason)
    python = os.environ.get("LATENTLOOM_COMFYUI_PYTHON", sys.executable)
    told = list(comfyui_session.session(Path(str(checkout)), python))
    assert len(told) == len(comfyui_session.FORGETS) + len(comfyui_session.REMEMBERS) + 2


# Load Model in a prompt of before there were engines.
OLD = {"source": "builtin:bobbin", "dtype": "fp32", "compiled": False, "cuda_graph": False}


@pytest.mark.parametrize(
    ("saved", "engine", "graphs"),
    [
        (OLD, "eager", "auto"),
        ({**OLD, "compiled": True}, "inductor", "auto"),
        ({"dtype": "fp32", "engine": False, "graphs": False}, "eager", "auto"),  # its editor's file, values by place
        ({"dtype": "fp32", "engine": True}, "inductor", "auto"),
        ({"dtype": "fp32", "engine": "inductor", "graphs": "off", "speak": 1}, "inductor", "off"),
    ],
)
def test_a_prompt_of_before_there_were_engines_runs_with_equal_values(
    saved: dict[str, Any], engine: str, graphs: str
) -> None:
    """ComfyUI gives only what it knows a socket for; an API prompt has the old names, its editor's file has none."""
    node = NODE_CLASS_MAPPINGS["LoomLoadModel"]
    listed = node.INPUT_TYPES()
    assert listed["hidden"] == {"comfy_prompt": "PROMPT", "comfy_id": "UNIQUE_ID"}
    given = {name: value for name, value in saved.items() if name in listed["optional"]}
    check: Any = node.VALIDATE_INPUTS
    names = inspect.getfullargspec(check).args
    assert check(**{name: value for name, value in given.items() if name in names}) is True
    prompt = {"4": {"class_type": "LoomLoadModel", "inputs": saved}}
    (model,) = node().run(comfy_prompt=prompt, comfy_id="4", **given)
    assert (model.dtype, model.engine, model.graphs) == ("fp32", engine, graphs)
    read = upgrade(from_comfy(prompt, SPECS), SPECS, {})[0].nodes["n4"].inputs if "speak" not in saved else saved
    assert (read.get("engine", "eager"), read.get("graphs", "auto")) == (engine, graphs)


def test_a_choice_that_no_version_had_is_told_when_comfyui_queues_it() -> None:
    check: Any = NODE_CLASS_MAPPINGS["LoomLoadModel"].VALIDATE_INPUTS
    assert check(engine="turbo") == "engine is 'turbo'; choose one of eager, inductor, tensorrt"
    assert check(engine="eager", graphs=None) is True  # by a wire
