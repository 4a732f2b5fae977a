"""Noise depends on a picture's seed and on nothing else: no number format, quantization, device or number of ranks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.utils.torch_utils import randn_tensor
from safetensors.torch import load_file

from bodies.noise import Draws
from latentloom.pipelines import stages
from latentloom.pipelines.denoising.noise import HALF, DrawnInFp32, generators, seeds_of
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import NUM_SEEDS, Image, Latents, Mask, to_plain
from support.packed_files import write_gguf
from support.tiny_models import FAMILIES
from support.tiny_rows import TINY_ROWS, request_of, small_references

SEED = 5
SOUND = ("ltx_2", "ltx_25_full", "minimax_h3", "cosmos_3")
TWO_STEPS = ("minimax_h3", "qwen_image_21_turbo")  # these take no fewer
VARIANTS = (
    "flux_schnell",
    "flux_2_klein_base",
    "flux_3_distilled",
    "krea_2_turbo",
    "qwen_image_21_turbo",
    "ltx_25_full",
)
# Variants draw as those that they are variants of do, and `ltx_25`, which takes eight steps, as `ltx_25_full`.
ALL = [
    pytest.param(name, marks=[pytest.mark.by_hand] if name in VARIANTS else [])
    for name in (*FAMILIES, *TINY_ROWS)
    if name != "ltx_25"
]


def asked(model: dict[str, Any], name: str, picture: torch.Tensor, **fields: Any) -> dict[str, Any]:
    """A denoise of few steps, of text, or of a first frame where the model wants one."""
    if name in TINY_ROWS:
        steps = 2 if name in TWO_STEPS else 1
        with small_references():
            return {**request_of(model, TINY_ROWS[name]), "seed": SEED, "steps": steps, **fields}
    text = stages.encode_text(model=model, prompt="a red circle", text_length=64)
    frames = 5 if "wan" in name else 1
    latents = Latents(family=model["family"], width=64, height=64, frames=frames)
    if name.endswith(("i2v", "flf2v")):
        first = Image(pixels=picture)
        last = first if name.endswith("flf2v") else None
        latents = stages.encode_image(model=model, image=first, last_image=last, frames=frames)
    request = {"model": model, "conditioning": text, "latents": latents, "seed": SEED, "steps": 1, "guidance": 1.0}
    return {**request, **fields}


def drawn(stage: Callable[..., Any], **request: Any) -> list[torch.Tensor]:
    with Draws() as draws:
        stage(**request)
    return draws.found


def in_fp32(seed: int, draws: list[torch.Tensor]) -> list[torch.Tensor]:
    """What a picture's generator draws in these shapes, one after the other, if nobody asks for half precision."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(each.shape, generator=generator) for each in draws]


def equal(ones: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(ones) == len(others) > 0 and all(map(torch.equal, ones, others))


def test_picture_i_has_the_noise_of_seed_plus_i() -> None:
    batch = randn_tensor((3, 4, 8, 8), generator=generators(seeds_of(7, 3)))
    for i in range(3):
        alone = randn_tensor((1, 4, 8, 8), generator=generators(seeds_of(7 + i, 1)))
        assert torch.equal(batch[i : i + 1], alone)


def test_seeds_wrap_around_at_the_largest() -> None:
    assert seeds_of(NUM_SEEDS - 1, 2) == (NUM_SEEDS - 1, 0)
    assert len(generators(seeds_of(NUM_SEEDS - 1, 2))) == 2


def test_generators_are_on_the_cpu_and_leave_the_global_one_alone() -> None:
    state = torch.random.get_rng_state()
    torch.randn(4, generator=generators([1])[0])
    assert generators([1])[0].device.type == "cpu"
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("length", [7, 17, 64])
def test_what_is_drawn_in_fp32_is_rounded(length: int, dtype: torch.dtype) -> None:
    with DrawnInFp32():
        found = randn_tensor((2, length), generator=generators([3, 4]), dtype=dtype)
        stock = randn_tensor((1, length), generator=generators([3], "diffusers"), dtype=dtype)
    assert torch.equal(found, randn_tensor((2, length), generator=generators([3, 4])).to(dtype))
    assert torch.equal(stock, torch.randn(1, length, generator=torch.Generator().manual_seed(3), dtype=dtype))


# ---- denoising


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of ERNIE's own blocks
@pytest.mark.parametrize("name", ALL)
def test_every_family_draws_in_fp32_what_it_takes_in_bf16(name: str, model: Any, picture: torch.Tensor) -> None:
    found = drawn(stages.denoise, **asked(model(name, dtype="bf16"), name, picture))
    assert equal(found, in_fp32(SEED, found)) and len(found) == 1 + (name in SOUND)


def test_each_picture_of_a_batch_in_fp16_has_its_own_seed(model: Any, canvas: Any, picture: torch.Tensor) -> None:
    request = asked(model("flux", dtype="fp16"), "flux", picture, latents=canvas("flux", batch=2))
    one, two = drawn(stages.denoise, **request)
    assert torch.equal(one, *in_fp32(SEED, [one])) and torch.equal(two, *in_fp32(SEED + 1, [two]))


@pytest.mark.parametrize("family", ["flux", "sd3", "qwen_image"])
def test_inpainting_draws_in_fp32(family: str, model: Any, picture: torch.Tensor) -> None:
    half = model(family, dtype="bf16")
    start = stages.encode_image(model=half, image=Image(pixels=picture))
    mask = Mask(pixels=torch.ones(1, 64, 64))
    found = drawn(stages.denoise, **asked(half, family, picture, latents=start, mask=mask, strength=0.5, steps=2))
    assert equal(found, in_fp32(SEED, found))


def test_weights_of_a_gguf_file_make_no_other_noise(model: Any, tiny: Any, tmp_path: Path, picture: Any) -> None:
    weights = load_file(tiny("flux") / "transformer/diffusion_pytorch_model.safetensors")
    source = f"{write_gguf(tmp_path / 'one.gguf', weights)}@{tiny('flux')}"
    packed = to_plain(describe_model(source, device="cpu", dtype="bf16"))
    found = drawn(stages.denoise, **asked(packed, "flux", picture))
    assert equal(found, drawn(stages.denoise, **asked(model("flux"), "flux", picture)))


@pytest.mark.filterwarnings("default")  # of torchao
def test_int8_makes_no_other_noise(model: Any, picture: torch.Tensor) -> None:
    pytest.importorskip("torchao")
    found = drawn(stages.denoise, **asked(model("flux", dtype="bf16", quantization="int8"), "flux", picture))
    assert equal(found, drawn(stages.denoise, **asked(model("flux"), "flux", picture)))


@pytest.mark.parametrize("steps", [3, pytest.param(16, marks=pytest.mark.by_hand)])
def test_a_seed_is_a_picture_in_bf16_too(steps: int, canvas: Any, paint: Any) -> None:
    def picture(dtype: Any) -> torch.Tensor:
        bobbin = to_plain(describe_model("builtin:bobbin", device="cpu", dtype=dtype))
        latents = paint(bobbin, canvas("flux", width=128, height=128), seed=3, steps=steps, guidance=0.0)
        return stages.decode(model=bobbin, latents=latents).pixels

    assert (picture("bf16") - picture("fp32")).abs().mean() <= 0.005


def test_ranks_draw_what_one_process_draws(model: Any, pair: Any, picture: torch.Tensor) -> None:
    half = model("flux", dtype="bf16")
    start = stages.encode_image(model=half, image=Image(pixels=picture))
    masked = {"latents": start, "mask": Mask(pixels=torch.ones(1, 64, 64)), "strength": 0.5, "steps": 2}
    requests = [
        asked(half, "flux", picture),
        asked(half, "flux", picture, **masked),
        asked(model("minimax_h3", dtype="bf16"), "minimax_h3", picture),
    ]
    plain = [{name: to_plain(value) for name, value in each.items()} for each in requests]
    alone = [[each.double().flatten().tolist() for each in drawn(stages.denoise, **one)] for one in requests]
    for found in pair.run("bodies.noise:denoise", plain, "ulysses=2"):
        assert {dtype for draws in found for dtype, _ in draws} == {"torch.float32"}
        assert [[numbers for _, numbers in draws] for draws in found] == alone


# ---- encoding a picture


@pytest.mark.parametrize("family", ["flux", "sd3"])
def test_latents_of_a_picture_are_sampled_in_fp32(family: str, model: Any, picture: torch.Tensor) -> None:
    request = {"model": model(family, dtype="bf16"), "image": Image(pixels=picture), "seed": SEED}
    found = drawn(stages.encode_image, **request)
    assert equal(found, in_fp32(SEED, found))
    assert {each.dtype for each in drawn(stages.encode_image, **request, noise="diffusers")} == {torch.bfloat16}


def test_a_first_frame_that_is_sampled_by_a_seed_of_its_own_is_so_in_fp32(model: Any, picture: torch.Tensor) -> None:
    request = {"image": Image(pixels=picture)}
    whole = drawn(stages.encode_image, **request, model=model("minimax_h3"))
    assert equal(drawn(stages.encode_image, **request, model=model("minimax_h3", dtype="bf16")), whole)


# ---- for whoever compares with stock pipelines


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_noise_of_diffusers_is_drawn_in_the_model_s_own_format(dtype: str, model: Any, picture: torch.Tensor) -> None:
    found = drawn(stages.denoise, **asked(model("flux", dtype=dtype), "flux", picture, noise="diffusers"))
    plain = torch.randn(found[0].shape, generator=torch.Generator().manual_seed(SEED), dtype=found[0].dtype)
    assert found[0].dtype in HALF and torch.equal(found[0], plain)


def test_in_fp32_both_are_the_same(model: Any, canvas: Any, paint: Any) -> None:
    ours, theirs = (paint(model("flux"), canvas("flux"), noise=noise).tensor for noise in ("seed", "diffusers"))
    assert torch.equal(ours, theirs)
