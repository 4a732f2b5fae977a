"""LTX-2's second pass: latents made larger by the model's own upsampler, and denoised again, as by diffusers."""

import dataclasses
from typing import Any

import diffusers
import pytest
import torch
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

from latentloom.nodes import upscale_by_model
from latentloom.pipelines import stages
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.models.folder import components_of, read_index
from latentloom.pipelines.values import Image, Latents, Model, Sampling, from_plain
from latentloom.pipelines.whole.assembled import load_pipeline
from support.tiny_rows import PROMPT, SEED, TINY_ROWS, UNGUIDED, first_frame, request_of, tensor_of

NAME = "ltx_25_larger"
ROW = dataclasses.replace(TINY_ROWS["ltx_25"], steps=0)
FIRST, SECOND = (1.0, 0.9, 0.7), (0.9, 0.7, 0.4)


def passes(model: dict[str, Any], row: Any) -> tuple[dict[str, Any], Latents]:
    """What the first pass was asked for, and its latents."""
    request = {**request_of(model, row), "sampling": Sampling(sigmas=FIRST)}
    return request, stages.denoise(request)


def test_two_passes_give_what_diffusers_gives(model: Any, tiny: Any) -> None:
    request, small = passes(model(NAME), ROW)
    large = stages.upscale(model=model(NAME), latents=small)
    made = stages.denoise({**request, "latents": large, "sampling": Sampling(sigmas=SECOND)})
    assert (large.width, large.height) == (2 * ROW.width, 2 * ROW.height)

    pipeline = load_pipeline(str(tiny(NAME)), dtype="fp32")
    pipeline.set_progress_bar_config(disable=True)
    upsampler = LTX2LatentUpsamplerModel.from_pretrained(str(tiny(NAME) / "latent_upsampler"))
    larger = diffusers.LTX2LatentUpsamplePipeline(vae=pipeline.vae, latent_upsampler=upsampler)
    size = {"num_frames": ROW.frames, "frame_rate": 24.0, "max_sequence_length": ROW.text_length}
    call = {"prompt": PROMPT, "guidance_scale": 1.0, "return_dict": False, **UNGUIDED, **size}
    first = {"height": ROW.height, "width": ROW.width, "sigmas": [*FIRST], "output_type": "latent"}
    video, sound = pipeline(**call, **first, generator=generators([SEED]))
    [video] = larger(latents=video, output_type="latent", return_dict=False)
    second = {"height": large.height, "width": large.width, "sigmas": [*SECOND], "noise_scale": SECOND[0]}
    given = {"latents": video, "audio_latents": sound, "output_type": "pt"}
    seen, heard = pipeline(**call, **second, **given, generator=generators([SEED]))
    assert float((stages.decode(model=model(NAME), latents=made).pixels - seen.movedim(2, -1)).abs().max()) <= 1e-5
    assert float((stages.decode_audio(model=model(NAME), latents=made).waveform - heard).abs().max()) <= 1e-5


def test_the_first_frame_is_put_in_once_more_in_the_larger_size(model: Any, pair: Any) -> None:
    request, small = passes(model(NAME), dataclasses.replace(ROW, has_frame=True))
    picture = Image(pixels=tensor_of(first_frame(dataclasses.replace(ROW, width=192, height=128)))[None])
    large = upscale_by_model(from_plain(Model, model(NAME)), small, first_frame=picture)
    second = {**request, "latents": large, "sampling": Sampling(sigmas=SECOND)}
    frame = large.extras["image_latents"]
    made = stages.denoise(second)
    assert made.tensor is not None and torch.equal(made.tensor[:, :, :1], frame)
    one, two = pair.run("bodies.rows:denoise_each_way", second, ("ulysses=2", "ring=2", "allgather=2"))
    for mine, other in zip(one[1:], two[1:], strict=True):
        assert mine["sum"] == other["sum"] and mine["difference"] <= 1e-5


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(sigmas=FIRST)])
def test_a_second_pass_wants_to_know_how_far_it_noises(sampling: Sampling, model: Any) -> None:
    request, small = passes(model(NAME), ROW)
    with pytest.raises(
        ValueError, match=r"LTX-2 got finished latents: .*; give some that begin below 1, such as 0\.909"
    ):
        stages.denoise({**request, "latents": small, "sampling": sampling})


def test_a_model_without_an_upsampler_makes_nothing_larger(model: Any) -> None:
    small = Latents(family="ltx_2", width=96, height=64, frames=9, tensor=torch.zeros(1, 8, 2, 2, 3))
    with pytest.raises(ValueError, match="has no latent_upsampler; use Upscale Latents, or a model that has one"):
        stages.upscale(model=model("ltx_25"), latents=small)
    with pytest.raises(ValueError, match="the latents are an empty canvas"):
        stages.upscale(model=model(NAME), latents=dataclasses.replace(small, tensor=None))


def test_what_lies_beside_the_named_parts_is_pulled_and_read(tiny: Any) -> None:
    assert components_of(read_index(tiny(NAME)))["latent_upsampler"] == ("ltx2", "LTX2LatentUpsamplerModel")
    assert "latent_upsampler" not in read_index(tiny("ltx_25"))
    assert "latent_upsampler" in read_index(tiny("ltx_25"), home="Lightricks/LTX-2.5-Diffusers")
