"""The families that are rows: our stages give what diffusers' pipeline gives, or differ by a named difference."""

import copy
import dataclasses
import functools
import inspect
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import diffusers
import PIL.Image
import pytest
import torch
from diffusers import QwenImageTransformer2DModel, ZImageImg2ImgPipeline
from diffusers.guiders.classifier_free_guidance import ClassifierFreeGuidance
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from diffusers.modular_pipelines.minimax_h3 import MiniMaxH3ImageReference

from latentloom.parallel.progress import Progress
from latentloom.parallel.recent import Recent
from latentloom.pipelines import preview, stages
from latentloom.pipelines.components.loading import load_component
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.denoising.noise import generators
from latentloom.pipelines.families import FAMILIES
from latentloom.pipelines.families.groups import WRITERS
from latentloom.pipelines.families.ltx_blocks import Windows
from latentloom.pipelines.families.rows import ROWS
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import add_lora, card_of, describe_model
from latentloom.pipelines.models.folder import MODULAR_INDEX
from latentloom.pipelines.shape import size_multiple
from latentloom.pipelines.signatures.table import blocks_of
from latentloom.pipelines.values import Image, Model, from_plain, to_plain
from latentloom.pipelines.whole.assembled import load_pipeline
from support.lora_files import write_lora
from support.tiny_rows import (
    EDITS,
    FRAMED,
    NEGATIVE,
    PROMPT,
    SEED,
    TINY_ROWS,
    TinyRow,
    canvas_of,
    first_frame,
    references,
    request_of,
    small_references,
    started_from,
    tensor_of,
)

SPREAD = {
    "z_image": ("ulysses=2", "cfg=2"),
    "flux_2": ("ulysses=2", "ring=2"),
    "minimax_h3": ("ulysses=2",),
    "ltx_2": ("ulysses=2", "cfg=2"),
    "cosmos_3": ("ulysses=2", "allgather=2", "cfg=2"),
    "anima": ("ulysses=2", "cfg=2"),
    "hunyuan_video_15_image": ("ulysses=2", "allgather=2", "cfg=2"),
}
# What two ranks try here; tests/bench/families.py has them all try all.
SPREAD_EDITS = {
    "minimax_h3": ("ulysses=2", "allgather=2", "ring=2"),
    "flux_2_klein": ("ulysses=2",),
    "flux_3": ("ulysses=2",),
    "qwen_image_21": ("ulysses=2",),
    "qwen_image_edit_plus": ("ulysses=2", "cfg=2"),
}
# Rows whose stages are those of another one here.
VARIANTS = dict.fromkeys(
    ("flux_2_klein", "flux_3_distilled", "krea_2_turbo", "qwen_image_21_turbo", "ltx_25_full"), pytest.mark.by_hand
)
EDIT_VARIANTS = dict.fromkeys(("flux_2_klein_base", "flux_3_distilled", "qwen_image_21_turbo"), pytest.mark.by_hand)


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Charts of a fourth of the size are enough for a matrix: a VAE encoding them took longer than all else."""
    with (
        small_references(),
        mock.patch.object(preview, "_MATRICES", Recent(8)),
        mock.patch.object(preview, "CHART_LATENTS", 8),
    ):
        yield


class Looking(Progress):
    """Looks at the preview of every step."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []
        self.totals: set[int] = set()

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self.totals.add(total)
        self.sizes.append(tuple(preview().shape))


def ours(model: dict[str, Any], row: TinyRow) -> tuple[torch.Tensor, ...]:
    """Pixels B H W C or B F H W C, and, of a family with sound, that as B C S."""
    shown = Looking()
    latents = stages.denoise(request_of(model, row), shown)
    assert shown.totals == {len(shown.sizes)} == {row.passes}
    assert all(row.height * columns == row.width * rows for rows, columns, _ in shown.sizes)
    pixels = stages.decode(model=model, latents=latents).pixels
    if not FAMILIES[model["family"]].has_sound:
        return (pixels,)
    return pixels, stages.decode_audio(model=model, latents=latents).waveform


def looked_at(row: TinyRow) -> Any:
    """One is given as it is: of a list QwenImageEditPipeline shows the text encoder a picture that is not scaled."""
    if row.has_frame:
        return first_frame(row)
    pictures = [started_from(row).convert("RGBA")] if row.starts else references(row)
    return pictures[0] if len(pictures) == 1 else pictures or None


def classic(folder: Path, row: TinyRow) -> tuple[torch.Tensor, ...]:
    """What the folder's own pipeline gives, with weights that lie in memory as ours do: places change rounding."""
    if (folder / MODULAR_INDEX).exists():
        return modular(folder, row)
    pipeline = load_pipeline(str(folder), dtype="fp32")
    return called(getattr(diffusers, row.stock)(**pipeline.components) if row.stock else pipeline, row)


def modular(folder: Path, row: TinyRow, *, lora: Path | None = None, **given: Any) -> tuple[torch.Tensor, ...]:
    """What the folder's modular pipeline gives, run whole by diffusers, but for the block that rewrites the prompt."""
    found = inspect_model(folder)
    blocks = copy.deepcopy(blocks_of(getattr(diffusers, found.pipeline)))
    for name in WRITERS:
        blocks.sub_blocks.pop(name, None)
    pipeline = blocks.init_pipeline()
    pipeline.register_to_config(**{name: value for name, value in found.index.items() if name in pipeline.config})
    parts = {name: load_component(files, dtype="fp32") for name, files in found.components.items()}
    if row.guidance > 1:
        parts["guider"] = ClassifierFreeGuidance(guidance_scale=row.guidance)
    pipeline.update_components(**parts)
    if lora:
        pipeline.load_lora_weights(str(lora), load_into_transformer_ref=bool(row.references))
    taken = {parameter.name for parameter in pipeline.blocks.inputs}
    call: dict[str, Any] = {
        "prompt": PROMPT,
        "negative_prompt": NEGATIVE,
        "max_sequence_length": row.text_length,
        "height": row.height,
        "width": row.width,
        "num_frames": row.frames,
        "num_inference_steps": row.steps,
        "generator": generators([SEED]),
        "output_type": "pt",
        **({} if "references" in taken else {"image": looked_at(row)}),
        "references": [MiniMaxH3ImageReference(image=each) for each in references(row)] or None,
    }
    call = {name: value for name, value in call.items() if name in taken}
    made = pipeline(**{**call, **given})
    if found.family.output == "image":
        return (made.get("images").movedim(1, -1),)
    return made.get("videos").movedim(2, -1), made.get("audio")


def called(pipeline: Any, row: TinyRow, **given: Any) -> tuple[torch.Tensor, ...]:
    pipeline.set_progress_bar_config(disable=True)
    if hasattr(pipeline, "guider"):
        pipeline.guider = ClassifierFreeGuidance(guidance_scale=row.guidance)
    taken = inspect.signature(type(pipeline).__call__).parameters
    call: dict[str, Any] = {
        "height": row.height,
        "width": row.width,
        "num_frames": row.frames,
        "max_sequence_length": row.text_length,
        "negative_prompt": NEGATIVE if row.guidance > 1 else None,
        row.scale: row.distilled or (row.guidance if row.guidance > 1 else row.off),
        "image": looked_at(row),
        **row.call,
        **given,
    }
    call = {"num_inference_steps": row.steps, **{name: value for name, value in call.items() if name in taken}}
    made = pipeline(prompt=PROMPT, **call, generator=generators([SEED]), output_type="pt")
    if hasattr(made, "images") and isinstance(made.images, list):
        return (torch.stack(made.images).movedim(2, -1),)  # layers
    if hasattr(made, "images"):
        return (made.images.movedim(1, -1),)
    if hasattr(made, "sound"):  # Cosmos 3, of one video
        return made.video.movedim(1, -1)[None], made.sound[None].clamp(-1, 1)
    video = made.frames.movedim(2, -1)
    return (video, made.audio) if hasattr(made, "audio") else (video,)


RUNS = [
    *(pytest.param(name, row, marks=VARIANTS.get(name, ()), id=name) for name, row in TINY_ROWS.items()),
    *(
        pytest.param(name, row, marks=EDIT_VARIANTS.get(name, ()), id=f"{name}, pictures")
        for name, row in EDITS.items()
    ),
    *(pytest.param(name, row, id=f"{name}, first frame") for name, row in FRAMED.items()),
]


@functools.cache
def without_pictures(name: str, model: Any) -> tuple[torch.Tensor, ...]:
    return ours(model(name), TINY_ROWS[name])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of ERNIE's own blocks
@pytest.mark.parametrize(("name", "row"), RUNS)
def test_stages_equal_the_classic_pipeline(name: str, row: TinyRow, model: Any, tiny: Any) -> None:
    alone = without_pictures(name, model)
    mine = alone if row is TINY_ROWS[name] else ours(model(name), row)
    for one, other in zip(mine, classic(tiny(name), row), strict=True):
        assert one.shape == other.shape
        assert float((one - other).abs().max()) <= row.close
    assert mine is alone or float((mine[0] - alone[0]).abs().max()) > 0.01


def test_an_edit_is_painted_without_a_mask(model: Any, monkeypatch: Any) -> None:
    """Qwen-Image-Edit Plus reads its texts unpadded."""
    seen: list[bool] = []
    forward = QwenImageTransformer2DModel.forward

    @functools.wraps(forward)  # guiders read its signature
    def looking(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["encoder_hidden_states_mask"] is not None)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(QwenImageTransformer2DModel, "forward", looking)
    stages.denoise(request_of(model("qwen_image_edit_plus"), TINY_ROWS["qwen_image_edit_plus"]))
    assert seen and not any(seen)


@pytest.mark.parametrize("name", ["flux_kontext", "flux_2_klein", "flux_3", "qwen_image_21", "qwen_image_edit_plus"])
def test_a_picture_of_a_batch_that_looks_at_pictures_is_the_one_that_its_seed_makes_alone(
    name: str, model: Any
) -> None:
    request = request_of(model(name), EDITS.get(name, TINY_ROWS[name]))
    both = stages.denoise({**request, "latents": {**request["latents"], "batch": 2}}).tensor
    second = stages.denoise({**request, "seed": SEED + 1}).tensor
    assert both is not None and second is not None
    assert float((both[1:] - second).abs().max() / second.abs().max()) <= 1e-5


def test_a_picture_to_start_from_is_painted_over_as_by_the_classic_pipeline(
    model: Any, tiny: Any, picture: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given the middle of what the VAE finds: the classic pipeline draws from it, and so makes another picture."""
    monkeypatch.setattr(DiagonalGaussianDistribution, "sample", lambda found, generator=None: found.mode())
    row, start = TINY_ROWS["z_image_turbo"], Image(pixels=picture)
    latents = stages.encode_image(model=model("z_image_turbo"), image=start)
    request = request_of(model("z_image_turbo"), row)
    painted = stages.denoise({**request, "latents": latents, "strength": 0.5, "steps": 4})
    mine = stages.decode(model=model("z_image_turbo"), latents=painted).pixels
    parts = load_pipeline(str(tiny("z_image_turbo")), dtype="fp32").components
    given = {"image": picture.movedim(-1, 1), "width": 64, "height": 64, "strength": 0.5, "num_inference_steps": 4}
    assert torch.equal(mine, called(ZImageImg2ImgPipeline(**parts), row, **given)[0])


def test_a_start_picture_of_a_vae_of_videos_is_painted_over_as_by_the_modular_pipeline(
    model: Any, tiny: Any, picture: torch.Tensor
) -> None:
    row = dataclasses.replace(TINY_ROWS["anima"], width=64, height=64, steps=4)
    start = stages.encode_image(model=model("anima"), image=Image(pixels=picture))
    painted = stages.denoise({**request_of(model("anima"), row), "latents": start, "strength": 0.5})
    mine = stages.decode(model=model("anima"), latents=painted).pixels
    given = {"image": picture.movedim(-1, 1), "strength": 0.5}
    assert torch.equal(mine, modular(tiny("anima"), row, **given)[0])


def test_layers_are_those_of_each_picture_and_need_one(model: Any) -> None:
    row = TINY_ROWS["qwen_image_layered"]
    request = request_of(model("qwen_image_layered"), row)
    start = request["latents"]
    both = {**start, "batch": 2, "tensor": torch.cat([start["tensor"], start["tensor"].flip(3)])}
    two = stages.denoise({**request, "latents": both})
    alone = stages.denoise({**request, "latents": {**start, "tensor": both["tensor"][1:]}, "seed": SEED + 1})
    second = stages.decode(model=request["model"], latents=two).pixels[1:]
    apart = second - stages.decode(model=request["model"], latents=alone).pixels
    assert second.shape == (1, 3, 64, 64, 4) and float(apart.abs().max()) <= 1e-5
    empty = {**canvas_of(row), "family": "qwen_image_layered"}
    for changed in ({"latents": empty}, {"strength": 0.5}):
        with pytest.raises(ValueError, match="takes a picture apart: put one on the canvas with Encode Image"):
            stages.denoise({**request, **changed})


def test_a_first_frame_that_the_text_encoder_sees_gives_what_the_modular_pipeline_gives(
    model: Any, tiny: Any, picture: torch.Tensor
) -> None:
    name = "minimax_h3"
    row = dataclasses.replace(TINY_ROWS[name], width=64, height=64)
    first = stages.encode_image(model=model(name), image=Image(pixels=picture))
    text = stages.encode_text(model=model(name), prompt=PROMPT, first_frame=first)
    painted = stages.denoise(model=model(name), conditioning=text, latents=first, seed=SEED, steps=row.steps)
    frame = PIL.Image.fromarray((picture[0] * 255).round().byte().numpy())
    video, sound = modular(tiny(name), row, image=frame)
    assert torch.equal(stages.decode(model=model(name), latents=painted).pixels, video)
    assert torch.equal(stages.decode_audio(model=model(name), latents=painted).waveform, sound)


def test_each_of_two_videos_begins_with_its_own_picture(model: Any) -> None:
    hunyuan, row = model("hunyuan_video_15_image"), TINY_ROWS["hunyuan_video_15_image"]
    image = torch.rand(2, row.height, row.width, 3, generator=torch.Generator().manual_seed(1))
    told = {"model": hunyuan, "frames": row.frames}
    both, second = (stages.encode_image(**told, image=Image(pixels=each)) for each in (image, image[1:]))
    request = {**request_of(hunyuan, row), "guidance": 1.0}
    pair = stages.denoise({**request, "latents": both})
    alone = stages.denoise({**request, "latents": second, "seed": SEED + 1})
    unlooked = {**second.extras, "image_embeds": torch.zeros_like(second.extras["image_embeds"])}
    blind = stages.denoise({**request, "latents": dataclasses.replace(second, extras=unlooked), "seed": SEED + 1})
    assert pair.tensor is not None and alone.tensor is not None and blind.tensor is not None
    assert float((pair.tensor[1:] - alone.tensor).abs().max() / alone.tensor.abs().max()) <= 1e-5
    assert float((blind.tensor - alone.tensor).abs().max()) > 1e-3  # what SigLIP sees counts
    two, one = (stages.decode(model=hunyuan, latents=each).pixels for each in (pair, alone))
    assert float((two[1:] - one).abs().max()) <= 1e-5


def test_a_model_that_continues_a_picture_refuses_none_and_one_of_text_refuses_a_picture(
    model: Any, picture: torch.Tensor
) -> None:
    request = request_of(model("hunyuan_video_15_image"), TINY_ROWS["hunyuan_video_15_image"])
    with pytest.raises(ValueError, match="image to video continues a picture, but got none; give Denoise what Encode"):
        stages.denoise({**request, "latents": {"family": "hunyuan_video_15_image", "width": 64, "height": 64}})
    with pytest.raises(ValueError, match=r"HunyuanVideo 1\.5 makes videos from text only here; take the picture away"):
        stages.encode_image(model=model("hunyuan_video_15"), image=Image(pixels=picture))


LEVELS = [1.0, 0.75, 0.4]


@pytest.mark.parametrize("name", ["z_image_turbo", "krea_2", "flux_2_klein", "hunyuan_video_15"])
def test_sigmas_that_are_shifted_are_those_of_the_classic_pipeline(name: str, model: Any, tiny: Any) -> None:
    row, how = TINY_ROWS[name], {"sigmas": LEVELS, "shift_sigmas": True}
    latents = stages.denoise({**request_of(model(name), row), "sampling": how})
    theirs = called(load_pipeline(str(tiny(name)), dtype="fp32"), dataclasses.replace(row, steps=3), sigmas=LEVELS)
    far = stages.decode(model=model(name), latents=latents).pixels - theirs[0]
    assert float(far.abs().max()) <= row.close


@pytest.mark.parametrize("is_shifted", [False, True])
def test_given_sigmas_are_those_of_minimax_h3_s_own_schedulers(is_shifted: bool, model: Any, tiny: Any) -> None:
    """Its blocks have no input for them: the stock pipeline's schedulers are told them."""
    levels, name = torch.tensor([*LEVELS, 0.0]), "minimax_h3"
    base = levels if is_shifted else (levels.double() / (12 - 11 * levels.double())).float()

    def told(scheduler: Any, _: Any, device: Any = None) -> None:
        shift = scheduler.shift
        bent = shift * base / (1 + (shift - 1) * base)
        own_set(scheduler, device=device, sigmas=bent if is_shifted or shift == 3 else levels)

    own_set = diffusers.MiniMaxH3Scheduler.set_timesteps
    how = {"sigmas": LEVELS, "shift_sigmas": is_shifted}
    latents = stages.denoise({**request_of(model(name), TINY_ROWS[name]), "sampling": how})
    with mock.patch.object(diffusers.MiniMaxH3Scheduler, "set_timesteps", told):
        video, sound = modular(tiny(name), TINY_ROWS[name])
    assert torch.equal(stages.decode(model=model(name), latents=latents).pixels, video)
    assert torch.equal(stages.decode_audio(model=model(name), latents=latents).waveform, sound)


@pytest.mark.parametrize("row", [TINY_ROWS["minimax_h3"], EDITS["minimax_h3"]], ids=["text", "pictures"])
def test_a_turbo_lora_gives_what_the_modular_pipeline_gives_with_it(
    row: TinyRow, model: Any, tiny: Any, tmp_path: Path
) -> None:
    plain = from_plain(Model, model("minimax_h3"))
    [transformer] = ComponentStore().load(plain, ("transformer",)).values()
    file = write_lora(tmp_path / "turbo.safetensors", transformer, prefix="transformer", layers=("attn.to_q",))
    mine = ours(to_plain(add_lora(plain, str(file))), row)
    assert all(map(torch.equal, mine, modular(tiny("minimax_h3"), row, lora=file)))
    assert not torch.equal(mine[0], modular(tiny("minimax_h3"), row)[0])


def test_first_frames_of_a_batch_give_what_the_modular_pipeline_gives_of_each(model: Any, tiny: Any) -> None:
    """With diffusers' own guidance."""
    name, row = "ltx_2", FRAMED["ltx_2"]
    request = request_of(model(name), row)
    both = torch.stack([tensor_of(first_frame(row)), tensor_of(first_frame(row)).flip(1)])
    size = {"width": row.width, "height": row.height, "frames": row.frames}
    latents = stages.encode_image(model=model(name), image=Image(pixels=both), **size)
    painted = stages.denoise({**request, "latents": latents})
    alone = stages.denoise(request)
    assert painted.tensor is not None and alone.tensor is not None
    assert float((painted.tensor[:1] - alone.tensor).abs().max() / alone.tensor.abs().max()) <= 1e-5
    assert float((painted.tensor[:1] - painted.tensor[1:]).abs().max()) > 0.01
    pipeline = diffusers.LTX2ModularPipeline(blocks_of(diffusers.LTX2ModularPipeline))
    pipeline.update_components(**load_pipeline(str(tiny(name)), dtype="fp32").components)
    given = {"max_sequence_length": row.text_length, "num_inference_steps": row.steps, "output_type": "pt"}
    made = pipeline(
        prompt=PROMPT,
        negative_prompt=NEGATIVE,
        image=first_frame(row),
        height=row.height,
        width=row.width,
        num_frames=row.frames,
        generator=generators([SEED]),
        **given,
    )
    assert torch.equal(stages.decode(model=model(name), latents=alone).pixels, made.get("videos").movedim(2, -1))
    assert torch.equal(stages.decode_audio(model=model(name), latents=alone).waveform, made.get("audio"))


def test_a_decoder_that_denoises_gives_what_diffusers_gives_by_the_video_s_seed(model: Any, tiny: Any) -> None:
    name, row = "ltx_25_decoded", TINY_ROWS["ltx_25"]
    request = request_of(model(name), row)
    painted = stages.denoise({**request, "latents": {**request["latents"], "batch": 2}})
    mine = stages.decode(model=model(name), latents=painted).pixels
    found = inspect_model(tiny(name)).components
    parts = {each: load_component(found[each], dtype="fp32") for each in ("diffusion_decoder", "scheduler", "vae")}
    parts["diffusion_decoder"].set_attn_processor(Windows())  # test_windows.py compares these with diffusers' own
    whole = diffusers.LTX2VideoDiffusionDecodePipeline(**parts)
    made = whole(painted.tensor, generator=generators([SEED, SEED + 1]), output_type="pt").frames
    assert torch.equal(mine, made.movedim(2, -1))
    again = stages.decode(model=model(name), latents=dataclasses.replace(painted, seeds=(SEED, SEED))).pixels
    assert torch.equal(again[0], mine[0]) and not torch.equal(again[1], mine[1])


def test_a_distilled_video_model_takes_no_other_number_of_steps(model: Any) -> None:
    request = request_of(model("ltx_25"), TINY_ROWS["ltx_25"])
    with pytest.raises(ValueError, match="distilled for 8 noise levels of its own; set steps to 0"):
        stages.denoise({**request, "steps": 3})


def test_a_model_that_starts_from_noise_refuses_a_picture(model: Any, picture: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="Krea 2 makes pictures from text only here; take the picture away"):
        stages.encode_image(model=model("krea_2"), image=Image(pixels=picture))


def test_a_model_of_few_noise_levels_takes_no_other_number_of_steps(model: Any) -> None:
    request = request_of(model("qwen_image_21_turbo"), TINY_ROWS["qwen_image_21_turbo"])
    with pytest.raises(ValueError, match="distilled for 2 noise levels of its own; set steps to 0"):
        stages.denoise({**request, "steps": 3})


def test_every_row_has_a_tiny_model_of_each_of_its_variants(model: Any) -> None:
    cards = {card_of(from_plain(Model, model(name))).name for name in TINY_ROWS}
    wanted = {variant.card.name for row in ROWS.values() if not row.takes_mask for variant in row.variants}
    assert cards == wanted, "give each of them a line in TINY_ROWS, or a tiny pipeline in tests/zoo/pipelines"
    assert all(variant.card.licence and variant.card.steps for row in ROWS.values() for variant in row.variants)


def test_previews_have_the_colours_of_the_model_s_own_vae(model: Any) -> None:
    each_vae = ("krea_2", "flux_2", "qwen_image_21", "hunyuan_video_15", "ltx", "ltx_2", "minimax_h3")
    assert all(preview.matrix(from_plain(Model, model(name))) is not None for name in each_vae)


def test_a_krea_2_of_other_layers_than_the_blocks_know_is_refused(tiny: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("krea_2"), tmp_path / "krea"))
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, "text_encoder_select_layers": [1, 2, 3]}))
    with pytest.raises(
        ValueError, match=r"has text_encoder_select_layers \[1, 2, 3\], but diffusers' blocks of Krea 2"
    ):
        describe_model(str(folder), device="cpu")


def test_sizes_are_multiples_of_what_a_token_is_wide(model: Any) -> None:
    wide = {"qwen_image_21": 32, "ltx": 32, "ltx_2": 32, "z_image": 16, "krea_2": 16, "flux_2": 16, "minimax_h3": 16}
    assert {name: size_multiple(from_plain(Model, model(name))) for name in wide} == wide


@pytest.mark.parametrize(
    ("name", "row", "plans"),
    [
        *((name, TINY_ROWS[name], plans) for name, plans in SPREAD.items()),
        *((name, row, SPREAD[name]) for name, row in FRAMED.items()),
        *(
            pytest.param(
                name,
                EDITS.get(name, TINY_ROWS[name]),
                plans,
                marks=pytest.mark.by_hand if name != "qwen_image_edit_plus" else (),
            )
            for name, plans in SPREAD_EDITS.items()
        ),
    ],
    ids=lambda each: f"{each.references + each.has_frame} pictures" if isinstance(each, TinyRow) else None,
)
def test_two_ranks_give_what_one_gives(name: str, row: TinyRow, plans: tuple[str, ...], model: Any, pair: Any) -> None:
    request = request_of(model(name), row)
    one, two = pair.run("bodies.rows:denoise_each_way", request, plans)
    for mine, other in zip(one[1:], two[1:], strict=True):
        assert mine["sum"] == other["sum"]
        assert mine["difference"] <= 1e-5
        branches = 2 if mine["plan"] == "cfg=2" else 1
        assert mine["calls"] * branches == one[0]["calls"]


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("krea_2", {"width": 72}, "width and height must be multiples of 16, such as (64|80) x 48"),
        ("krea_2", {"frames": 5}, "makes pictures; set frames to 0 or 1"),
    ],
)
def test_what_a_row_cannot_paint_is_refused(name: str, changed: dict[str, int], words: str, model: Any) -> None:
    row = TINY_ROWS[name]
    canvas = {"family": "krea_2", "width": row.width, "height": row.height, "frames": row.frames, **changed}
    with pytest.raises(ValueError, match=words):
        stages.denoise({**request_of(model(name), row), "latents": canvas})
