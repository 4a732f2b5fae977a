"""Run Pipeline: its sockets are those of the class, checked without the model; its picture is the pipeline's own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from latentloom.__main__ import main
from latentloom.nodes import load_model, run_pipeline
from latentloom.nodes.execution.cache import MemoryCache
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain, read_graph
from latentloom.nodes.hosts.comfy_file import from_comfy
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.nodes.registry import SPECS
from latentloom.nodes.steps.whole.node import base_spec, choose
from latentloom.nodes.steps.whole.sockets import arguments_of, tell_size, values_of, why_not
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import Progress
from latentloom.pipelines.models.source import resolve_source
from latentloom.pipelines.pools import POOLS
from latentloom.pipelines.signatures.table import class_names, signature_of
from latentloom.pipelines.values import Image, Mask, Video
from latentloom.pipelines.whole.assembled import load_pipeline
from support.lora_files import write_lora
from support.prepared import check, needs_of, run, to_comfy

SHIPPED = Path(__file__).parents[2] / "workflows" / "bobbin" / "run_pipeline.json"
SMALL: dict[str, Any] = {"prompt": "a red star", "height": 96, "width": 96, "num_inference_steps": 2}


def workflow(**inputs: Any) -> Any:
    node = {"type": "LoomRunPipeline", "version": 1, "inputs": {"source": "builtin:bobbin", **inputs}}
    return graph_from_plain({"format": 1, "name": "whole", "nodes": {"whole": node}})


def wired(pipeline: str, **links: str) -> Any:
    """A workflow whose sockets are fed by a picture, a text and a number."""
    image = {"type": "LoomLoadImage", "version": 1, "inputs": {"path": "x.png"}}
    text = {"type": "LoomJoinText", "version": 1, "inputs": {"first": "a red star"}}
    number = {"type": "LoomSeed", "version": 1, "inputs": {"value": 3}}
    inputs = {name: {"from": source} for name, source in links.items()}
    whole = {"type": "LoomRunPipeline", "version": 1, "inputs": {"pipeline": pipeline, **inputs}}
    save = {"type": "LoomSaveImage", "version": 1, "inputs": {"image": {"from": "whole.image"}}}
    nodes = {"picture": image, "text": text, "number": number, "whole": whole, "save": save}
    return graph_from_plain({"format": 1, "name": "wired", "nodes": nodes})


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"prompt": "a", "heigth": 64}, "unknown_input", "has no input 'heigth'; did you mean 'height'?"),
    ({}, "missing_input", "prompt is not given; it takes a string"),
    ({"prompt": "a", "height": 64.5}, "wrong_type", "height is 64.5; it takes a whole number"),
    ({"prompt": "a", "num_inference_steps": 0}, "out_of_range", "it takes 1 to 10000"),
    ({"prompt": "a", "sigmas": 1.0}, "wrong_type", "it takes a list"),
    (
        {"prompt": "a", "pipeline": "FluxImg2ImgPipeline", "image": "x.png"},
        "wrong_type",
        "another node makes; wire a I",
    ),
    ({"prompt": "a", "ip_adapter_image": "x.png"}, "unknown_input", "FluxPipeline has no input 'ip_adapter_image'"),
    ({"prompt": "a", "pipeline": "FluxPipelin"}, "unknown_choice", "did you mean FluxPipeline?"),
    (
        {"prompt": "a", "pipeline": "BriaFibo2Pipeline", "fonts": ["/etc/passwd"]},
        "unknown_input",
        "BriaFibo2Pipeline has no input 'fonts'; it names files, which the class opens",
    ),
    (
        {"prompt": "a", "pipeline": "HunyuanVideoPipeline", "prompt_template": {"value": {"template": "{:>6}"}}},
        "unknown_input",
        "HunyuanVideoPipeline has no input 'prompt_template'; it is a format string",
    ),
    ({"prompt": "a", "max_sequence_length": -1}, "out_of_range", "max_sequence_length is -1; it takes 1 to 16384"),
    ({"prompt": "a" * 10_001}, "too_long", "prompt has 10,001 characters; at most 10,000 are taken"),
    (
        {"prompt": "a", "pipeline": "Cosmos3OmniPipeline", "enable_safety_check": False},
        "unknown_input",
        "Cosmos3OmniPipeline has no input 'enable_safety_check'",
    ),
    ({"pipeline": "SanaWMLTX2Refiner"}, "unknown_choice", "which no node makes"),
    ({"prompt": "a", "pipeline": "AceStepPipeline", "src_audio": "x.wav"}, "wrong_type", "wire a Audio"),
    ({"prompt": "a", "pipeline": "FluxFillPipeline", "mask_image": "x.png"}, "wrong_type", "wire a Mask"),
]


@pytest.mark.parametrize(("inputs", "code", "words"), WRONG, ids=[words[:20] for _, _, words in WRONG])
def test_a_socket_of_the_class_is_checked(inputs: dict[str, Any], code: str, words: str) -> None:
    problems = check(workflow(**{"pipeline": "FluxPipeline", **inputs}), SPECS)
    assert code in {problem.code for problem in problems}
    assert any(words in problem.message for problem in problems), problems


def test_json_is_checked_where_a_class_takes_what_no_socket_is_made_for() -> None:
    given = {"pipeline": "LTX2DFRPipeline", "prompt": "a"}
    assert check(workflow(**given, video_tiles="[1, 2]"), SPECS) == []
    assert [each.code for each in check(workflow(**given, video_tiles="[1, 2"), SPECS)] == ["not_json"]
    assert check(workflow(**given, video_tiles={"value": {"frame": 2}}), SPECS) == []
    for told in ([[1, 2]], "[[1, 2]]"):
        made = arguments_of(signature_of("LTX2DFRPipeline"), {"prompt": "a", "video_tiles": told})
        assert made["video_tiles"] == [[1, 2]]


def test_check_reads_the_folders_that_a_run_may(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    file = tmp_path / "flows" / "mine.json"
    nodes = {"whole": {"type": "LoomRunPipeline", "inputs": {"source": str(tiny("sd3")), "prompt": "a"}}}
    file.write_text(json.dumps({"format": 1, "name": "mine", "nodes": nodes}))
    for flag in ("--allow", "--models-dir"):
        assert main(["check", str(file), flag, str(tiny("sd3").parent)]) == 0
    assert main(["check", str(file)]) == 2


def test_an_override_that_asks_for_the_folder_s_class_keeps_the_inputs() -> None:
    needs = needs_of(read_graph(SHIPPED), SPECS, overrides={"run_pipeline.pipeline": "auto"}, workspace=Workspace())
    values = needs.nodes["run_pipeline"].values
    assert (values["pipeline"], values["height"]) == ("FluxPipeline", 128) and values["prompt"]
    graph = workflow(pipeline="WanPipeline", prompt="a", colour=1)
    problems = check(graph, SPECS, {"whole.pipeline": "auto"}, workspace=Workspace())
    assert [each.code for each in problems] == ["unknown_input"]


def test_the_class_is_that_of_the_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(name: str, *, revision: str, roots: Any) -> Any:
        asked.append(revision)
        return resolve_source("builtin:bobbin")

    monkeypatch.setattr("latentloom.nodes.steps.whole.model.resolve_source", resolve)
    check(workflow(source="org/name", revision="v2", prompt="a"), SPECS, workspace=Workspace())
    assert asked == ["v2"]


def test_wires_are_checked_by_the_class_too() -> None:
    fits = {"image": "picture.image", "prompt": "text.text", "num_inference_steps": "number.seed"}
    assert check(wired("FluxImg2ImgPipeline", **fits), SPECS) == []
    crossed = check(wired("FluxImg2ImgPipeline", **{**fits, "image": "text.text"}), SPECS)
    assert [each.code for each in crossed] == ["type_mismatch"]
    clip = check(wired("WanPipeline", prompt="text.text"), SPECS)
    assert [each.code for each in clip] == ["unknown_output"] and "there is video" in clip[0].message


def test_the_class_comes_from_the_folder_if_it_may_be_read(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tiny("sd3")
    mine, other = Workspace(roots=(folder.parent,)), Workspace(roots=(tmp_path,))
    good = workflow(source=str(folder), prompt="a")
    wrong = workflow(source=str(folder), prompt="a", colour=1)
    assert check(good, SPECS, workspace=mine) == [] and check(wrong, SPECS) == []
    assert [each.code for each in check(wrong, SPECS, workspace=mine)] == ["unknown_input"]
    for graph, words in ((good, "outside the allowed folders"), (workflow(source="no/such"), "not on this machine")):
        (problem,) = check(graph, SPECS, workspace=other)
        assert problem.code == "unknown_choice" and words in problem.message and "write the class" in problem.message


def test_a_file_with_the_class_is_checked_without_torch_and_without_the_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    nodes = {"whole": {"type": "LoomRunPipeline", "inputs": {"source": "not/here", "pipeline": "Krea2Pipeline"}}}
    file.write_text(json.dumps({"format": 1, "name": "mine", "nodes": nodes}))
    asks = f"import sys; from latentloom.__main__ import main; code = main(['check', {str(file)!r}]);"
    told = "print(code, 'torch' in sys.modules, 'diffusers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asks + told], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["whole.prompt: prompt is not given; it takes a string; set it", "2 False False"]


def test_set_and_sweep_know_the_sockets_of_the_class(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(SHIPPED)
    assert main(["check", file, "--set", "run_pipeline.height=96"]) == 0
    assert main(["check", file, "--set", "run_pipeline.heigth=96"]) == 2
    assert (
        main(["check", file, "--set", "run_pipeline.num_frames=5", "--set", "run_pipeline.pipeline=WanPipeline"]) == 2
    )
    captured = capsys.readouterr()
    assert "did you mean 'height'?" in captured.err
    assert "and WanPipeline takes a WanTransformer3DModel; choose FluxPipeline, or another model" in captured.out
    assert "no input 'true_cfg_scale'" in captured.out and "no such output; there is video" in captured.out


def test_no_parameter_of_any_class_takes_the_place_of_the_node_s_own_sockets() -> None:
    own = {socket.name for socket in base_spec().inputs} | {"progress", "workspace", "arguments"}
    usable = [name for name in class_names() if not why_not(signature_of(name))]
    assert len(usable) == 157
    for name in usable:
        spec = choose({"pipeline": name})
        assert spec is not None and spec.outputs
        sockets = [socket.name for socket in spec.inputs]
        assert len(sockets) == len(set(sockets)) and not own & {each.name for each in signature_of(name).parameters}


def test_the_shipped_workflow_makes_the_picture_of_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--no-cache", "--set"]
    assert main(["run", str(SHIPPED), "--out", "whole", *few, "run_pipeline.num_inference_steps=4"]) == 0
    stages = SHIPPED.with_name("first_picture.json")
    prompt = read_graph(SHIPPED).params["prompt"].default
    assert main(["run", str(stages), "--set", f"prompt={prompt}", "--out", "stages", *few, "denoise.steps=4"]) == 0
    one, other = (np.asarray(Pillow.open(f"{folder}/picture.png")) for folder in ("whole", "stages"))
    assert one.shape == (128, 128, 3) and (one == other).all()
    (work,) = json.loads(Path("whole/manifest.json").read_text())["nodes"]["run_pipeline"]["ranks"]
    assert work["device"] == "cpu" and work["seconds"] > 0


def test_pictures_go_in_and_another_class_is_made_of_the_same_folder() -> None:
    start = Image(pixels=torch.rand(1, 96, 96, 3, generator=torch.Generator().manual_seed(1)))
    image, video, sound = run_pipeline("builtin:bobbin", pipeline="FluxImg2ImgPipeline", seed=5, image=start, **SMALL)
    pipe = load_pipeline("builtin:bobbin", dtype="fp32", class_name="FluxImg2ImgPipeline")
    pipe.set_progress_bar_config(disable=True)
    picture = Pillow.fromarray((start.pixels[0] * 255).round().to(torch.uint8).numpy())
    made = pipe(image=picture, generator=torch.Generator().manual_seed(5), output_type="np", **SMALL)
    assert video is None and sound is None and np.array_equal(image.pixels.numpy(), made.images)


def test_a_folder_of_no_family_runs_by_the_class_it_names(tmp_path: Path) -> None:
    from zoo.pipelines import tiny_of
    from zoo.pipelines.tiny import build, painted

    pipe = build(tiny_of("FluxFillPipeline"))
    pipe.save_pretrained(tmp_path)
    alone = pipe(**tiny_of("FluxFillPipeline").call(), generator=torch.Generator().manual_seed(0), output_type="np")
    pixels = {name: as_pixels(picture) for name, picture in painted().items()}
    wires = {"image": Image(pixels=pixels["image"]), "mask_image": Mask(pixels=pixels["mask_image"][..., 0])}
    given = {**tiny_of("FluxFillPipeline").call(), **wires}
    image, *_ = run_pipeline(str(tmp_path), **given)
    assert np.array_equal(image.pixels.numpy(), alone.images)


def as_pixels(picture: Pillow.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(picture.convert("RGB"))).unsqueeze(0) / 255


class Watched(Progress):
    def __init__(self, cancel_at: int = 0) -> None:
        self.steps: list[tuple[int, int]] = []
        self.plans: list[tuple[str, int]] = []
        self._cancel_at = cancel_at

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self.steps.append((done, total))
        if done == self._cancel_at:
            raise Cancelled

    def spread(self, plan: str, ranks: Any) -> None:
        self.plans.append((plan, len(ranks)))


def test_steps_are_told_and_a_cancel_ends_the_run_after_one() -> None:
    watched, cancelled = Watched(), Watched(cancel_at=1)
    run_pipeline("builtin:bobbin", **SMALL, progress=watched)
    assert watched.steps == [(1, 2), (2, 2)]
    with pytest.raises(Cancelled):
        run_pipeline("builtin:bobbin", **SMALL, progress=cancelled)
    assert cancelled.steps == [(1, 2)]


@pytest.mark.by_hand
@pytest.mark.usefixtures("warm_pools")
def test_several_devices_make_the_picture_of_one_with_a_lora_too(tmp_path: Path) -> None:
    given = {**SMALL, "negative_prompt": "", "true_cfg_scale": 3.0}
    transformer = load_pipeline("builtin:bobbin", dtype="fp32").transformer
    lora = write_lora(tmp_path / "style.safetensors", transformer, prefix="transformer", layers=("to_q", "ff"))
    adapted = {**given, "loras": [str(lora)], "lora_scales": [0.5]}
    alone, styled = (run_pipeline("builtin:bobbin", **each)[0] for each in (given, adapted))
    assert (alone.pixels - styled.pixels).abs().max() > 1e-2
    watched = Watched()
    try:
        spread, *_ = run_pipeline("builtin:bobbin", devices="cpu*2", **given, progress=watched)
        both, *_ = run_pipeline("builtin:bobbin", devices="cpu*2", **adapted, plan="ulysses=2")
        after, *_ = run_pipeline("builtin:bobbin", devices="cpu*2", **given)
    finally:
        POOLS.close()
    assert (spread.pixels - alone.pixels).abs().max() <= 1e-5 and torch.equal(after.pixels, spread.pixels)
    assert (both.pixels - styled.pixels).abs().max() <= 1e-5
    assert watched.plans == [("cfg=2", 0), ("cfg=2", 2)] and watched.steps[-1] == (2, 2)


def test_a_second_run_is_taken_from_the_cache_and_another_size_is_not() -> None:
    cache = MemoryCache(1 << 28)
    cached = []
    for more in ({}, {}, {"num_inference_steps": 1}):
        graph = workflow(pipeline="FluxPipeline", **{**SMALL, **more})
        found = run(graph, SPECS, targets=["whole"], memory_cache=cache)
        cached.append(found.nodes["whole"].cached)
    assert cached == ["no", "memory", "no"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"heigth": 64}, "FluxPipeline has no input 'heigth'; did you mean 'height'"),
        ({"prompt": None}, "prompt is None; it takes text"),
        ({"height": "tall"}, "height is 'tall'; it takes a whole number"),
        ({"image": 3, "pipeline": "FluxImg2ImgPipeline"}, "image is a int; it takes a Image"),
        ({"height": 96, "callback_on_step_end_tensor_inputs": "x"}, "has no input 'callback_on_step_end_tensor"),
        ({"devices": "cpu*2", "plan": "ulysses=2,weights=2"}, "leave weights and layers out of the plan"),
        ({"plan": "cfg=2"}, "plan is cfg=2, but devices is empty; name devices for it"),
        ({"pipeline": "FluxFillPipeline"}, r"Input is in incorrect format.* \(not given: image, mask_image\)"),
        ({"height": 1, "width": 1}, "FluxPipeline stopped with RuntimeError: .* look at sizes, pictures and"),
        ({"pipeline": "WanPipeline", "height": 96}, "makes no WanPipeline: its transformer is a FluxTransformer2D"),
        ({"pipeline": "FluxControlNetPipeline"}, "lacks controlnet, .* needs; choose FluxPipeline, or a model"),
    ],
)
def test_from_python_what_does_not_fit_is_one_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run_pipeline("builtin:bobbin", **{**SMALL, **given})
    with pytest.raises(ValueError, match="FluxPipeline needs prompt; give it"):
        run_pipeline("builtin:bobbin")


def test_a_size_that_was_rounded_is_told(caplog: pytest.LogCaptureFixture) -> None:
    picture, clip = Image(pixels=torch.zeros(2, 96, 80, 3)), Video(pixels=torch.zeros(1, 5, 8, 8, 3), fps=16)
    tell_size("FluxPipeline", {"height": 97, "width": 80}, (picture, None))
    tell_size("WanPipeline", {"num_frames": 6}, (None, clip))
    assert caplog.messages == [
        "FluxPipeline made height 96, where 97 was asked for",
        "WanPipeline made num_frames 5, where 6 was asked for",
    ]


def test_a_folder_of_a_class_that_is_not_run_whole_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "StableDiffusionXLPipeline"}')
    (problem,) = check(workflow(source=str(tmp_path), prompt="a"), SPECS, workspace=Workspace(roots=(tmp_path,)))
    assert "is a StableDiffusionXLPipeline, which is no class that is run whole; or write the class" in problem.message


def test_a_folder_of_no_family_offers_run_pipeline(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    index = json.loads((tiny("sd3") / "model_index.json").read_text())
    for name, words in (("SanaPipeline", "The node Run Pipeline runs it"), ("OddPipeline", "is not supported")):
        (tmp_path / "model_index.json").write_text(json.dumps({**index, "_class_name": name}))
        with pytest.raises(ValueError, match=words):
            load_model(str(tmp_path))


def test_an_export_leaves_the_class_to_the_model_s_folder_and_writes_numbers_as_that_class_takes_them() -> None:
    given = {"run_pipeline.pipeline": "auto", "run_pipeline.true_cfg_scale": 3}
    inputs = to_comfy(read_graph(SHIPPED), SPECS, given, workspace=Workspace())["run_pipeline"]["inputs"]
    assert inputs["pipeline"] == "auto" and '"true_cfg_scale": 3.0' in inputs["arguments"]


def test_comfyui_has_wires_for_pictures_and_json_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = read_graph(SHIPPED)
    prompt = to_comfy(graph, SPECS)
    inputs = prompt["run_pipeline"]["inputs"]
    assert json.loads(inputs.pop("arguments")) == {
        "true_cfg_scale": 3.0,
        "height": 128,
        "width": 128,
        "num_inference_steps": 16,
        "max_sequence_length": 40,
    }
    assert inputs.keys() == {"source", "pipeline", "prompt", "negative_prompt", "seed"}
    back = from_comfy(to_comfy(graph, SPECS), SPECS)
    assert check(back, SPECS) == [] and back.nodes["run_pipeline"].inputs["height"] == 128
    monkeypatch.chdir(tmp_path)
    node: Any = NODE_CLASS_MAPPINGS["LoomRunPipeline"]()
    more = json.dumps({name: SMALL[name] for name in ("height", "width", "num_inference_steps")})
    pixels, video, sound = node.run(prompt="a red star", negative_prompt="", arguments=more)
    assert pixels.shape == (1, 96, 96, 3) and video is None and sound is None
    with pytest.raises(ValueError, match="arguments is '3'; write a JSON object of sockets"):
        node.run(prompt="a red star", arguments="3")


def test_frames_sound_and_layers_become_values_of_wires() -> None:
    frames = np.random.default_rng(0).random((1, 5, 4, 6, 3), dtype=np.float32)
    ltx = signature_of("LTX2Pipeline")
    made = {"frames": frames, "audio": torch.zeros(1, 2, 10), "sampling_rate": 24000}
    image, video, sound = values_of(ltx, made, {"frame_rate": 12.0})
    assert image is None and isinstance(video, Video) and video.fps == 12
    assert sound.waveform.shape == (1, 2, 10) and sound.rate == 24000
    assert np.array_equal(video.pixels.numpy(), frames)
    assert values_of(ltx, {"frames": frames}, {})[1].fps == 24
    pictures = [Pillow.new("RGB", (6, 4), "red")] * 3
    clip = values_of(signature_of("WanPipeline"), {"frames": [pictures]}, {})[1]
    assert clip.pixels.shape == (1, 3, 4, 6, 3) and clip.fps == 16
    layers = values_of(signature_of("QwenImageLayeredPipeline"), {"images": [[frames[0, 0], frames[0, 1]]]}, {})[0]
    assert layers.pixels.shape == (2, 4, 6, 3)
    grey = values_of(signature_of("FluxPipeline"), {"images": [Pillow.new("L", (6, 4), 255)]}, {})[0]
    assert grey.pixels.shape == (1, 4, 6, 3) and grey.pixels.min() == 1
    with pytest.raises(ValueError, match="several sizes"):
        values_of(signature_of("FluxPipeline"), {"images": [pictures[0], Pillow.new("RGB", (2, 2))]}, {})
