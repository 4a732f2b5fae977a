"""What only a GPU can tell of `pipelines`: `pytest -m gpu`. What a CPU makes is what is wanted."""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from torch import Tensor

import latentloom
from latentloom.__main__ import main
from latentloom.parallel.errors import OutOfMemory
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.progress import SILENT
from latentloom.pipelines import placement, stages
from latentloom.pipelines.components.memory import bytes_of
from latentloom.pipelines.components.store import ComponentStore, store
from latentloom.pipelines.doors import order
from latentloom.pipelines.models.describe import check_engine, describe_model
from latentloom.pipelines.requests import Decode, Denoise, EncodeText
from latentloom.pipelines.values import Engine, Latents, Model, Place, to_plain
from support.alive import Alive
from support.gpu import DEVICE, GPU

pytestmark = pytest.mark.gpu
BOBBIN = "builtin:bobbin"
TESTS = str(Path(__file__).resolve().parents[1])
FIRST = Path(TESTS).parent / "workflows/bobbin/first_picture.json"
NEAR = 0.01  # in pixels of 0 to 1: convolutions are in TF32
NEAR_IN_BF16 = 0.005  # in the mean of a picture's pixels: what rounding to 8 bits leaves, in another order


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """Nothing of another test is on the device."""
    yield
    store().clear()
    torch.cuda.empty_cache()


def described(source: str = BOBBIN, device: str = GPU, **options: Any) -> Model:
    return describe_model(source, device=device, **{"dtype": "fp32", **options})


def denoise_of(model: Model, **options: Any) -> Denoise:
    text = placement.encode_text(EncodeText(model=model, prompt="a red star", negative_prompt="blue"))
    frames = 5 if model.family == "wan" else 1
    canvas = Latents(family=model.family, width=64, height=64, frames=frames)
    return Denoise(model=model, conditioning=text, latents=canvas, seed=3, steps=3, **options)


def painted(model: Model, **options: Any) -> Tensor:
    """From prompt to pixels, where the model's place says."""
    latents = placement.denoise(denoise_of(model, **options))
    return placement.decode(Decode(model=model, latents=latents)).pixels


@pytest.fixture(scope="module")
def one() -> Iterator[Pool]:
    """A rank on a GPU, for stages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))
        with Pool([GPU], preload=[*placement.preloads(described()), "bodies.gpu"]) as pool:
            yield pool


or_cpu = pytest.mark.gpu(or_cpu="always")
if_asked = pytest.mark.gpu(or_cpu="asked")


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(BOBBIN, marks=or_cpu),
        *(pytest.param(each, marks=if_asked) for each in ("flux", "qwen_image", "sd3", "wan")),
    ],
)
@pytest.mark.parametrize("guidance", [1.0, 4.0])
def test_stages_on_a_gpu_give_what_they_give_on_a_cpu(family: str, guidance: float, tiny: Any) -> None:
    source = family if family == BOBBIN else str(tiny(family))
    here, there = (painted(described(source, device), guidance=guidance) for device in ("cpu", GPU))
    assert here.shape == there.shape and (here - there).abs().max() <= NEAR


@if_asked
def test_a_rank_on_a_gpu_paints_the_picture_of_a_cpu() -> None:
    model = dataclasses.replace(described(), place=Place(devices=(GPU,)))
    try:
        assert (painted(model) - painted(described(device="cpu"))).abs().max() <= NEAR
    finally:
        placement.POOLS.close()


def test_a_gpu_is_taken_by_itself_and_works_in_bf16() -> None:
    model = describe_model(BOBBIN)
    assert (model.device, model.dtype) == ("cuda", "bf16")
    assert (painted(model) - painted(described(device="cpu", dtype="bf16"))).abs().mean() <= NEAR_IN_BF16


def test_a_workflow_on_a_gpu_says_so_in_its_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    where = ["--devices", GPU, "--no-cache", "--out", str(tmp_path / "out")]
    try:
        assert main(["run", str(FIRST), *where, "--set=denoise.steps=1"]) == 0
    finally:
        placement.POOLS.close()
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    (work,) = manifest["nodes"]["denoise"]["ranks"]
    assert work["device"] == GPU and work["peak_memory_bytes"] > 0
    assert torch.cuda.get_device_name(0) in manifest["devices"][0]


def test_the_doctor_finds_the_gpu_well(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    findings = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    capability = ".".join(map(str, torch.cuda.get_device_capability(0)))
    assert findings[GPU]["state"] == "ok" and f"compute capability {capability}" in findings[GPU]["says"]
    assert findings["trial"]["state"] == "ok" and "attention kernel: " in findings["trial"]["says"]


def test_a_stage_without_room_on_the_gpu_is_told_in_a_sentence_and_the_rank_lives_on(one: Pool) -> None:
    request = denoise_of(described(device="cpu"))
    plain = {"stage": "denoise", "request": to_plain(request), "ranks_here": 1, "rank": 0, "doors": order()}
    words = r"^rank 0 \(cuda:0\): .*(does not fit into memory|ran out of memory) \(.* more was asked for.*; "
    with pytest.raises(OutOfMemory, match=words):
        one.call("bodies.gpu:with_little_memory", plain)
    pid = one.states()[0].pid
    assert one.call(".pipelines.placement:on_rank", plain, SILENT)["tensor"].isfinite().all()
    assert one.states()[0].pid == pid


def test_what_is_loaded_is_on_the_gpu_and_leaves_it() -> None:
    own, model = ComponentStore(), described()
    before = torch.cuda.memory_allocated()
    part = own.load(model, ("text_encoder",))["text_encoder"]
    assert {each.device for each in part.parameters()} == {torch.device(GPU)}
    assert torch.cuda.memory_allocated() - before >= bytes_of(part) > 0
    del part
    own.give_way()
    assert torch.cuda.memory_allocated() == before and own.held() == []


@or_cpu
def test_what_has_given_way_comes_back_with_the_same_weights() -> None:
    own, model = ComponentStore(), described()
    values = [each.detach().cpu().clone() for each in own.load(model, ("text_encoder",))["text_encoder"].parameters()]
    own.give_way()
    again = own.load(model, ("text_encoder",))["text_encoder"].parameters()
    assert all(each.device == DEVICE and torch.equal(each.cpu(), was) for each, was in zip(again, values, strict=True))


def test_a_second_model_takes_the_place_of_the_first_where_there_is_room_for_one() -> None:
    model, other = described(), described(dtype="bf16")
    part = ComponentStore().load(model, ("transformer",))["transformer"]
    own, size = ComponentStore(int(1.2 * bytes_of(part))), bytes_of(part)
    del part
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    for each in (model, other, model):
        own.load(each, ("transformer",))
        assert torch.cuda.memory_allocated() - before <= 1.2 * size
    assert [each.device for each in own.held() if each.device != "cpu"] == [GPU]


@pytest.fixture(scope="module")
def wide(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny FLUX but for its transformer, whose layers are wide enough for every way to quantize: 0.5 GiB in bf16,
    its largest weight 0.04; 0.05 and 0.01 on a CPU.
    """
    folder = shutil.copytree(tiny("flux"), tmp_path_factory.mktemp("wide") / "model")
    config = diffusers.FluxTransformer2DModel.load_config(folder / "transformer")
    heads, layers = (16, 2) if DEVICE.type == "cuda" else (8, 0)
    changes = {"num_attention_heads": heads, "attention_head_dim": 128, "axes_dims_rope": (16, 56, 56)}
    torch.manual_seed(0)
    transformer: Any = diffusers.FluxTransformer2DModel.from_config({**config, **changes, "num_layers": layers})
    shutil.rmtree(folder / "transformer")
    transformer.to(torch.bfloat16).save_pretrained(folder / "transformer")
    return folder


def loaded(folder: Path, quantization: str) -> tuple[Any, int]:
    """A transformer in bf16, and the most bytes that were alive on the device while it was loaded."""
    model = described(str(folder), dtype="bf16", quantization=quantization)
    if DEVICE.type == "cpu":
        with Alive() as alive:
            return ComponentStore().load(model, ("transformer",))["transformer"], alive.most
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    part = ComponentStore().load(model, ("transformer",))["transformer"]
    return part, torch.cuda.max_memory_allocated() - before


@pytest.mark.filterwarnings("default")  # of torchao
@pytest.mark.parametrize(
    ("quantization", "capability", "error"),
    [
        pytest.param("int8", (7, 5), 0.05, marks=or_cpu),
        pytest.param("fp8", (8, 9), 0.1, marks=or_cpu),
        ("fp8_dynamic", (8, 9), 0.15),
        ("int4", (8, 0), 0.4),
    ],
)
def test_a_quantized_load_takes_what_is_kept_and_four_of_its_largest_weights(
    quantization: str, capability: tuple[int, int], error: float, wide: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("torchao")
    if DEVICE.type == "cuda" and torch.cuda.get_device_capability(0) < capability:
        pytest.skip(f"{quantization} needs compute capability {'.'.join(map(str, capability))}")
    from bench.shadow_rank import FLUX, forward, inputs

    def answer(part: Any) -> Tensor:
        torch.manual_seed(1)
        return forward(part, inputs(FLUX, part, device=DEVICE, dtype=torch.bfloat16, is_tiny=True)).float()

    whole, _ = loaded(wide, "none")
    largest = max(each.nbytes for each in whole.parameters())
    part, peak = loaded(wide, quantization)
    assert (answer(part) - answer(whole)).norm() <= error * answer(whole).norm()
    assert peak <= bytes_of(part) + 4 * largest
    assert "does not pack rows apart" not in caplog.text  # the bits of rows are those of a whole weight


def _needs_compiler() -> None:
    try:
        check_engine("inductor", device=GPU)
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.filterwarnings("default")  # of torch's compiler
def test_a_compiled_model_paints_what_the_eager_one_does() -> None:
    _needs_compiler()
    assert (painted(described(engine="inductor")) - painted(described())).abs().max() <= NEAR


@pytest.mark.filterwarnings("default")  # of torch's compiler
@pytest.mark.parametrize("engine", ["eager", "inductor"])
def test_steps_as_cuda_graphs_paint_what_eager_ones_do(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    if engine == "inductor":
        _needs_compiler()
    model, wanted = described(engine=engine, graphs="on"), painted(described())
    for _ in range(2):  # the second by graphs of the first
        assert (painted(model) - wanted).abs().max() <= NEAR
    assert "without a CUDA graph" not in caplog.text


@if_asked
def test_any_pipeline_runs_on_a_gpu_as_it_does_on_a_cpu(saved: Callable[[str], Path]) -> None:
    from zoo.pipelines import tiny_of

    name = "FluxFillPipeline"

    def called(device: str) -> Any:
        generator = torch.Generator().manual_seed(0)
        with latentloom.Pool(device) as pool:
            made = pool.spread(saved(name), dtype="fp32")(**tiny_of(name).call(), generator=generator, output_type="np")
        return torch.from_numpy(made.images)

    assert (called(GPU) - called("cpu")).abs().max() <= NEAR


@or_cpu
def test_a_gpu_decodes_what_a_cpu_denoised() -> None:
    latents = stages.denoise(denoise_of(described(device="cpu")))
    here, there = (stages.decode(Decode(model=described(device=device), latents=latents)) for device in ("cpu", GPU))
    assert (here.pixels.cpu() - there.pixels.cpu()).abs().max() <= NEAR
