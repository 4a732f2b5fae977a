"""What every family's stages share: the progress, cancelling, seeds, and what they refuse."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from latentloom.parallel import progress as measured
from latentloom.parallel.errors import Cancelled, OutOfMemory, is_out_of_memory
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import store
from latentloom.pipelines.failures import check_finite, shortage
from latentloom.pipelines.families import FAMILIES, family_module
from latentloom.pipelines.values import Image, Latents, Model, Sampling, from_plain, to_plain
from support.told import Told

IMAGE_FAMILIES = pytest.mark.parametrize("family", ["flux", "sd3", "qwen_image"])
FAMILIES_AND_FRAMES = pytest.mark.parametrize(
    "family, frames", [("flux", 1), ("sd3", 1), ("qwen_image", 1), ("wan", 5)]
)


@pytest.mark.parametrize(
    ("family", "frames", "scheduler"),
    [
        pytest.param(family, frames, scheduler, marks=[pytest.mark.by_hand] * (scheduler not in ("model", here)))
        for family, frames, here in (
            ("flux", 1, "euler"),
            ("sd3", 1, "unipc"),
            ("qwen_image", 1, "dpm++2m"),
            ("wan", 5, "heun"),
        )
        for scheduler in ("model", "euler", "heun", "unipc", "dpm++2m")
    ],
)
def test_border_is_called_once_a_step(
    family: str, frames: int, scheduler: str, model: Any, canvas: Any, paint: Any
) -> None:
    watcher, sampling = Told(), to_plain(Sampling(scheduler=scheduler))
    latents = paint(model(family), canvas(family, frames=frames), progress=watcher, guidance=3.0, sampling=sampling)
    assert watcher.steps == [(1, 3), (2, 3), (3, 3)]
    assert torch.isfinite(latents.tensor).all()
    assert all(p.dtype == torch.uint8 and p.shape == (8, 8, 3) for p in watcher.previews)


@IMAGE_FAMILIES
@pytest.mark.parametrize("scheduler", ["model", "heun"])
def test_border_counts_the_steps_that_strength_leaves(
    family: str, scheduler: str, model: Any, paint: Any, picture: torch.Tensor
) -> None:
    watcher, sampling = Told(), to_plain(Sampling(scheduler=scheduler))
    start = encoded(model(family), picture)
    paint(model(family), start, progress=watcher, steps=6, strength=0.5, sampling=sampling)
    assert watcher.steps == [(1, 3), (2, 3), (3, 3)]


@FAMILIES_AND_FRAMES
def test_cancelling_stops_at_once_and_the_next_run_works(
    family: str, frames: int, model: Any, canvas: Any, paint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    watcher, blank = Told(cancel_after=2), canvas(family, frames=frames)
    with pytest.raises(Cancelled):
        paint(model(family), blank, progress=watcher, steps=5)
    assert watcher.steps == [(1, 5), (2, 5)]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(paint(model(family), blank).tensor) == 1


@FAMILIES_AND_FRAMES
def test_a_picture_of_a_batch_is_the_one_its_seed_makes_alone(
    family: str, frames: int, model: Any, canvas: Any, paint: Any
) -> None:
    both = paint(model(family), canvas(family, frames=frames, batch=2), seed=5)
    alone = paint(model(family), canvas(family, frames=frames), seed=6)
    assert both.seeds == (5, 6) and alone.seeds == (6,)
    assert not torch.equal(both.tensor[0], both.tensor[1])
    # The noise is the same bit for bit; matrices of another size round otherwise.
    torch.testing.assert_close(both.tensor[1:], alone.tensor, atol=5e-5, rtol=0)


@FAMILIES_AND_FRAMES
def test_same_seed_same_bits(family: str, frames: int, model: Any, canvas: Any, paint: Any) -> None:
    first, second = (paint(model(family), canvas(family, frames=frames), seed=9).tensor for _ in range(2))
    assert torch.equal(first, second)


@IMAGE_FAMILIES
def test_zeros_take_the_cards_numbers(family: str, model: Any, canvas: Any, paint: Any) -> None:
    from latentloom.pipelines.models.describe import card_of
    from latentloom.pipelines.values import Model, from_plain

    watcher, card = Told(), card_of(from_plain(Model, model(family)))
    paint(model(family), canvas(family), progress=watcher, steps=0, guidance=0.0)
    assert watcher.steps[-1] == (card.steps, card.steps)


def test_stages_load_only_what_they_need(tiny: Any, canvas: Any, paint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from latentloom.pipelines.components.store import ComponentStore
    from latentloom.pipelines.models.describe import describe_model

    fresh = ComponentStore()
    monkeypatch.setattr(stages, "store", lambda: fresh)
    watcher = Told()
    watcher.step = lambda done, total, preview=None: None  # type: ignore[method-assign]
    paint(to_plain(describe_model(str(tiny("flux")), device="cpu")), canvas("flux"), progress=watcher)
    assert watcher.phases == ["loading transformer", "loading scheduler", "denoising"]


def test_prompts_may_be_empty(model: Any) -> None:
    assert stages.encode_text({"model": model("flux"), "prompt": "", "text_length": 64}).prompt == ""


def test_the_negative_prompt_is_always_read(model: Any) -> None:
    request = {"model": model("flux"), "prompt": "a", "negative_prompt": "b", "text_length": 64}
    assert stages.encode_text(request).negative is not None


REFUSED: dict[str, dict[str, Any]] = {
    "steps is 5000": {"steps": 5000},
    "guidance_2 is inf": {"guidance_2": float("inf")},
    "guidance_2 is 2, but .* no second expert to guide; set guidance_2 to 0": {"guidance_2": 2.0},
    "strength is 0;": {"strength": 0.0},
    "strength is 1.5": {"strength": 1.5},
    "strength is 0.5, but the canvas is empty": {"strength": 0.5},
    "guidance is 4, but the text was encoded without": {"guidance": 4.0},
    "sigmas 0.5, 0.7": {"sampling": {"sigmas": [0.5, 0.7]}},
    "guidance from 0.8 to 0.2": {"sampling": {"guidance_start": 0.8, "guidance_stop": 0.2}},
    "unknown scheduler 'oiler': did you mean euler": {"sampling": {"scheduler": "oiler"}},
    "multiples of 16, such as 64 x 64": {"latents": {"width": 70}},
    "set frames to 0 or 1": {"latents": {"frames": 5}},
    "are 16 x 4 x 4, but this FLUX.1 model needs 16 x 8 x 8": {"latents": {"tensor": torch.zeros(1, 16, 4, 4)}},
    "hold 3 pictures and a batch of 2": {"latents": {"tensor": torch.zeros(3, 16, 8, 8), "batch": 2}},
    "made with Wan [(]wan[)], but the model is FLUX.1 [(]flux[)]": {"latents": {"family": "wan"}},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_denoise_refuses(sentence: str, model: Any, canvas: Any) -> None:
    text = {"model": model("flux"), "prompt": "a", "negative_prompt": "", "text_length": 64}
    conditioning = replace(stages.encode_text(text), negative=None)
    changed = {**REFUSED[sentence], "latents": {**canvas("flux"), **REFUSED[sentence].get("latents", {})}}
    with pytest.raises(ValueError, match=sentence) as caught:
        stages.denoise({"model": model("flux"), "conditioning": conditioning, "seed": 0, **changed})
    assert "\n" not in str(caught.value)


def test_text_of_another_family_is_refused_by_both_names(model: Any, canvas: Any) -> None:
    conditioning = stages.encode_text({"model": model("sd3"), "prompt": "a", "text_length": 64})
    with pytest.raises(ValueError, match=r"Stable Diffusion 3 \(sd3\), but the model is FLUX.1 \(flux\)"):
        stages.denoise({"model": model("flux"), "conditioning": conditioning, "latents": canvas("flux")})


def test_pixels_as_bytes_are_what_files_hold_of_the_floats(model: Any, canvas: Any, paint: Any) -> None:
    request = {"model": model("flux"), "latents": paint(model("flux"), canvas("flux"))}
    floats, found = stages.decode(request).pixels, stages.decode({**request, "depth": "bytes"}).pixels
    assert floats.dtype == torch.float32 and torch.equal(found, (floats.clamp(0, 1) * 255).round().byte())
    with pytest.raises(ValueError, match="depth is 'byte'; did you mean bytes"):
        stages.decode({**request, "depth": "byte"})


def test_decode_refuses_an_empty_canvas_and_another_family(model: Any, canvas: Any, paint: Any) -> None:
    with pytest.raises(ValueError, match="put a Denoise before Decode"):
        stages.decode({"model": model("flux"), "latents": canvas("flux")})
    with pytest.raises(ValueError, match=r"FLUX.1 \(flux\), but the model is Stable Diffusion 3 \(sd3\)"):
        stages.decode({"model": model("sd3"), "latents": paint(model("flux"), canvas("flux"))})


def test_a_picture_of_another_size_is_refused(model: Any, picture: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="resize the picture first"):
        encoded(model("flux"), picture[:, :32])


def test_running_out_of_memory_is_one_sentence(
    model: Any, canvas: Any, paint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB ...")

    monkeypatch.setattr(type(family_module("flux")), "denoise", full)
    with pytest.raises(OutOfMemory, match=r"cpu ran out of memory .* denoising 1 of 64 x 64 x 1 .* make fewer"):
        paint(model("flux"), canvas("flux"))


def test_running_out_of_the_hosts_memory_inside_a_block_is_one_sentence(
    model: Any, canvas: Any, paint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        torch.empty(1 << 50, dtype=torch.uint8)

    monkeypatch.setattr("diffusers.FluxTransformer2DModel.forward", full)
    with pytest.raises(OutOfMemory, match=r"cpu ran out of memory .* denoising"):
        paint(model("flux"), canvas("flux"))


def test_running_out_of_memory_while_loading_names_the_component(
    model: Any, canvas: Any, paint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB ...")

    latents = paint(model("flux"), canvas("flux"))
    store().clear()
    monkeypatch.setattr("diffusers.AutoencoderKL.from_pretrained", full)
    with pytest.raises(OutOfMemory, match=r"^component vae: .* does not fit into memory \(20.00 GiB more was asked"):
        stages.decode({"model": model("flux"), "latents": latents})


@pytest.mark.parametrize(
    ("stage", "part", "words"),
    [
        ("encode_text", "text_encoder_2", "the prompt's conditioning"),
        ("denoise", "transformer", "the denoised latents"),
        ("decode", "vae", "the decoded picture"),
        ("encode_image", "vae", "the encoded picture"),
    ],
)
def test_what_is_not_finite_ends_the_stage_and_names_the_weight(
    stage: str, part: str, words: str, model: Any, canvas: Any, paint: Any, picture: torch.Tensor
) -> None:
    flux = model("flux")
    latents, text = paint(flux, canvas("flux")), {"model": flux, "prompt": "a", "text_length": 64}
    requests = {
        "encode_text": text,
        "denoise": {"model": flux, "conditioning": stages.encode_text(text), "latents": canvas("flux"), "steps": 1},
        "decode": {"model": flux, "latents": latents},
        "encode_image": {"model": flux, "image": {"pixels": picture}, "width": 64, "height": 64},
    }
    loaded = store().load(from_plain(Model, flux), (part,))[part]
    weights = [w for name, w in loaded.named_parameters() if "decoder" not in name or stage == "decode"]
    tensor = weights[-1]
    kept = tensor.detach().clone()
    try:
        tensor.data.fill_(float("nan"))
        with pytest.raises(ValueError, match=rf"{words} .* not finite .*{part} of .* holds such values itself"):
            getattr(stages, stage)(requests[stage])
    finally:
        tensor.data.copy_(kept)
    getattr(stages, stage)(requests[stage])


@pytest.mark.usefixtures("resettable_peak")
def test_to_look_whether_all_is_finite_takes_no_memory(model: Any) -> None:
    tensor = torch.ones(32 << 20)
    check_finite({"tensor": tensor[:1]}, {}, from_plain(Model, model("flux")), what="what is loaded once")
    measured.reset_peak("cpu")
    before = measured.peak("cpu")
    check_finite({"tensor": tensor, "empty": tensor[:0]}, {}, from_plain(Model, model("flux")), what="a tensor")
    assert measured.peak("cpu") - before < tensor.nbytes // 8


def test_an_overflow_of_sound_weights_is_told_too(model: Any, canvas: Any, paint: Any) -> None:
    flux = model("flux")
    latents = paint(flux, canvas("flux"))
    endless = replace(latents, tensor=torch.full_like(latents.tensor, float("inf")))
    with pytest.raises(ValueError, match=r"the decoded picture \(pixels\) are not finite .* another dtype"):
        stages.decode({"model": flux, "latents": endless})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (OSError(2, "No such file"), False),
        (ValueError("out of memory"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 79.11 GiB in all of which 1.20 GiB is free.",
            " (2.50 GiB more was asked for, 1.20 GiB was free)",
        ),
        (
            "DefaultCPUAllocator: you tried to allocate 4294967296 bytes. Error code 12",
            " (4.00 GiB more was asked for)",
        ),
        ("no room", ""),
    ],
)
def test_the_shortage_is_read_from_what_torch_says(text: str, told: str) -> None:
    assert shortage(RuntimeError(text)) == told


def test_guidance_below_one_is_told_to_be_off(
    model: Any, canvas: Any, paint: Any, caplog: pytest.LogCaptureFixture
) -> None:
    paint(model("flux"), canvas("flux"), guidance=0.5)
    assert [record.message for record in caplog.records if "guidance is 0.5: below 1" in record.message] != []
    caplog.clear()
    paint(model("flux"), canvas("flux"), guidance=1.0)
    assert not [record for record in caplog.records if "guidance" in record.message]


def test_unknown_families_offer_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean flux"):
        family_module("fluxx")
    assert all(family_module(name).FAMILY is family for name, family in FAMILIES.items())


def encoded(model: dict[str, Any], pixels: torch.Tensor) -> Latents:
    return stages.encode_image(model=model, image=Image(pixels=pixels), width=64, height=64, seed=1)
