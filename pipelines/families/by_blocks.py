"""The stage functions of a family that is a row: groups of its blocks, run one after the other.

Diffusers' modular pipeline of a family is a row of blocks: some for the text, some for a picture, one that makes the
noise and takes it away, one that decodes. What a stage hands on is what its blocks make and the denoise block declares
as an input: read from the blocks, not written by hand. Of a list `name` the tensors are called `name.0`, `name.1`.
"""

# B pictures, F latent frames, C channels, H W latent height and width

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .checks import check_text_length, repeated
from .family import Family, OnStep, Parts
from .row import LEVELS, Row, has_frames, latent_width

if TYPE_CHECKING:
    from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
    from torch import Generator, Tensor

    from ..requests import Decode, Denoise, EncodeImage, EncodeText
    from ..values import Latents

logger = logging.getLogger("latentloom")

TEXT = ("text_encoder",)
WRITERS = ("prompt_enhancer", "prompt_upsample", "prompt_upsampler")
"""Blocks that put other words for the prompt's are left out: what the user wrote is what the model reads."""
NEGATIVE = "negative_"


@dataclasses.dataclass(frozen=True)
class ByBlocks:
    """A `FamilyModule` made from a row."""

    row: Row

    @property
    def FAMILY(self) -> Family:
        return self.row.family

    def encode_text(self, parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
        """The negative conditioning is None of a model that has no branch to steer away from."""
        from ..denoising.blocks import run
        from ..denoising.guidance import guider
        from ..values import Sampling

        self._check_text(parts, request)
        block = self._group(parts, "text")
        if request.negative_prompt.strip() and "negative_prompt" not in _names(block):
            logger.warning("%s reads no negative prompt; this one is not used", parts["model_index"]["_class_name"])
        asked = {
            "prompt": request.prompt,
            "negative_prompt": request.negative_prompt,
            "max_sequence_length": request.text_length,
            "image": _pictures(request.references.pictures, parts) if request.references else None,
        }
        on = guider(2.0, Sampling())  # that both are encoded, whatever guidance follows
        wanted = _names(self._group(parts, "denoise"))
        outputs = [name for name in _made_by(block) if name in wanted]
        found = _flat(run(block, {**parts, "guider": on}, inputs=_known(block, asked), outputs=outputs))
        positive = {name: tensor for name, tensor in found.items() if not name.startswith(NEGATIVE)}
        negative = {name.removeprefix(NEGATIVE): found[name] for name in found.keys() - positive.keys()}
        return positive, negative or None

    def encode_image(self, parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The most likely latents, so they depend on no seed."""
        from ..denoising.blocks import run

        row = self.row
        block = self._group(parts, "image")
        asked = {
            "image": request.image.pixels.movedim(-1, 1),  # B C H W
            "height": request.height,
            "width": request.width,
            "num_frames": request.frames,
        }
        wanted = _names(self._group(parts, "denoise"))
        outputs = [name for name in _made_by(block) if name in wanted]
        with _most_likely(parts["vae"]):
            found = _flat(run(block, parts, inputs=_known(block, asked), outputs=outputs))
        if row.takes_image == "first_frame":
            return None, found
        latents = found["image_latents"]
        return latents.squeeze(2) if latents.ndim == 5 else latents, {}  # B C H W

    def encode_references(self, parts: Parts, references: Sequence[Tensor]) -> dict[str, Tensor]:
        """Those of a list are called `name.0`, `name.1`."""
        from torch import Tensor

        from ..denoising.blocks import run

        block, wanted = self._group(parts, "image"), _names(self._group(parts, "denoise"))
        outputs = [name for name in _made_by(block) if name in wanted]
        found = run(block, parts, inputs={"image": _pictures(references, parts)}, outputs=outputs)
        listed = {
            f"{name}.{i}": each for name in found if isinstance(found[name], list) for i, each in enumerate(found[name])
        }
        return {name: value for name, value in {**found, **listed}.items() if isinstance(value, Tensor)}

    def denoise(self, parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep) -> Tensor:
        from ..denoising.blocks import made_by_config, run
        from ..denoising.guidance import guider, is_guided
        from ..denoising.schedulers import choose

        row, latents, conditioning = self.row, request.latents, request.conditioning
        self._check_start(parts, request)
        block = self._group(parts, "denoise")
        scheduler = choose(parts.get("scheduler") or made_by_config(block, "scheduler"), request.sampling)
        given: dict[str, Any] = {**conditioning.positive, **latents.extras}
        if is_guided(request.guidance) and conditioning.negative is not None:
            given |= {NEGATIVE + name: tensor for name, tensor in conditioning.negative.items()}
        given = _listed(repeated(given, len(generators))) | _in_lists(conditioning.references, len(generators))
        given |= {
            "height": latents.height,
            "width": latents.width,
            "num_frames": latents.frames,
            "max_area": latents.width * latents.height,  # to which Kontext's blocks would scale the canvas
            "frame_rate": latents.fps or row.variant(parts["model_index"], parts["config"]).card.fps,
            "num_inference_steps": request.steps,
            "generator": generators,
        }
        if row.distilled:
            given[row.distilled] = request.distilled_guidance
        if latents.tensor is not None:
            given |= {"image_latents": latents.tensor, "strength": request.strength}
        own = guider(request.guidance, request.sampling, order=scheduler.order, adds=row.adds_guidance)
        made = run(
            block,
            {**parts, "scheduler": scheduler, "guider": own},
            inputs=_known(block, given),
            outputs=("latents",),
            on_step=on_step,
            unpack=lambda tokens: self._unpacked(parts, latents, tokens),
        )["latents"]
        return made.squeeze(2) if row.output == "image" and made.ndim == 5 else made

    def decode(self, parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
        from ..denoising.blocks import run

        block, latents = self._group(parts, "decode"), request.latents
        is_still = tensor.ndim == 4 and has_frames(parts["config"]("vae"))
        given = {
            "latents": tensor.unsqueeze(2) if is_still else tensor,
            "height": latents.height,
            "width": latents.width,
            "num_frames": latents.frames,
            "batch_size": len(tensor),
            "dtype": tensor.dtype,
            "output_type": "pt",
        }
        name = f"{self.row.output}s"
        pixels = run(block, parts, inputs=_known(block, given), outputs=(name,))[name]
        return pixels.movedim(1 if self.row.output == "image" else 2, -1)  # B H W C, B F H W C

    def _group(self, parts: Parts, stage: str) -> ModularPipelineBlocks:
        """The family's blocks without those of other stages."""
        from ..denoising.blocks import blocks_of

        block = copy.deepcopy(blocks_of(self.row.variant(parts["model_index"], parts["config"]).blocks))
        names = list(block.sub_blocks)
        cut = names.index("denoise")
        stages = {
            "text": [name for name in names[:cut] if name in TEXT],
            "image": [name for name in names[:cut] if name not in (*TEXT, *WRITERS)],
            "denoise": ["denoise"],
            "decode": names[cut + 1 :],
        }
        for name in set(names) - set(stages[stage]):
            del block.sub_blocks[name]
        if stage == "text":
            vars(block.sub_blocks["text_encoder"]).update(self.row.settings)
        return block

    def _check_text(self, parts: Parts, request: EncodeText) -> None:
        from .prompt import warn_if_cut

        row, length = self.row, request.text_length
        if row.text_is_fixed and length != row.longest_text:
            raise ValueError(
                f"text length {length}: {row.title} always reads {row.longest_text} tokens; set text length to 0"
            )
        check_text_length(length, title=row.title, longest=row.longest_text)
        tokenizer = parts.get("tokenizer_2") or parts.get("tokenizer")  # CLIP, the first of two, reads 77 always
        if not row.text_is_fixed and tokenizer is not None:
            warn_if_cut(getattr(tokenizer, "tokenizer", tokenizer), request.prompt, text_length=length)

    def _check_start(self, parts: Parts, request: Denoise) -> None:
        row, levels = self.row, parts["model_index"].get(LEVELS)
        if request.latents.tensor is not None and row.takes_image != "start":
            raise ValueError(f"{row.title} starts from noise, but got finished latents; give it an empty canvas")
        if levels and request.steps != len(levels) and not request.sampling.sigmas:
            raise ValueError(
                f"steps is {request.steps}, but {row.title} was distilled for {len(levels)} noise levels of its own; "
                "set steps to 0, or give other levels as sigmas of Sampler Options"
            )

    def _unpacked(self, parts: Parts, latents: Latents, tokens: Tensor) -> Tensor:
        """What a loop holds, as B C F H W: of B tokens C*P*P or B C*P*P H/P W/P each token is P x P latents."""
        from torch.nn.functional import pixel_shuffle

        vae, patch = parts["config"]("vae"), self.row.patch
        if tokens.ndim == 4:
            is_packed = tokens.shape[1] == vae.get("latent_channels", 0) * patch**2
            return pixel_shuffle(tokens, patch) if is_packed else tokens
        if tokens.ndim != 3:
            return tokens
        multiple = patch * latent_width(vae)
        rows, columns = latents.height // multiple, latents.width // multiple
        grid = tokens.unflatten(1, (-1, rows, columns)).unflatten(4, (-1, patch, patch))  # B F H/P W/P C P P
        return grid.permute(0, 4, 1, 2, 5, 3, 6).flatten(5, 6).flatten(3, 4)  # B C F H W


def _known(block: ModularPipelineBlocks, given: Mapping[str, Any]) -> dict[str, Any]:
    """What of it the block takes."""
    names = _names(block)
    return {name: value for name, value in given.items() if name in names and value is not None}


def _names(block: ModularPipelineBlocks) -> set[str]:
    return {str(parameter.name) for parameter in block.inputs if parameter.name}


def _made_by(block: ModularPipelineBlocks) -> list[str]:
    return [str(output.name) for output in block.intermediate_outputs]


def _flat(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors by name, those of a list by name and place, each with a row for its one prompt or picture."""
    from torch import Tensor

    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, list):
            found |= {f"{name}.{place}": each.unsqueeze(0) for place, each in enumerate(value)}
    return found


def _listed(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The inverse of `_flat`: a list has an entry for each row."""
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        whole, _, place = name.partition(".")
        if place:
            found.setdefault(whole, []).extend(tensor.unbind(0))
        else:
            found[name] = tensor
    return found


def _in_lists(references: Mapping[str, Tensor], batch: int) -> dict[str, Any]:
    """References as the blocks made them: in a list for all pictures of a batch, else with a row for each."""
    found: dict[str, Any] = {}
    for name, tensor in references.items():
        whole, _, place = name.partition(".")
        if place:
            found.setdefault(whole, []).append(tensor)
        else:
            found[name] = tensor.repeat_interleave(batch, dim=0)
    return found


def _pictures(references: Sequence[Tensor], parts: Parts) -> list[Any]:
    """As diffusers' blocks take them, over white where the VAE knows no alpha channel."""
    from PIL.Image import fromarray

    keeps_alpha = parts["config"]("vae").get("in_channels") == 4
    found = []
    for picture in references:
        if picture.shape[2] == 4 and not keeps_alpha:
            colours, alpha = picture.split((3, 1), dim=2)
            picture = colours * alpha + 1 - alpha
        found.append(fromarray((picture * 255).round().byte().cpu().numpy()))
    return found


@contextlib.contextmanager
def _most_likely(vae: Any) -> Iterator[None]:
    """Within it this VAE, of which a stage has a copy, gives the middle of what it finds and draws nothing."""
    encode = vae.encode

    def middle(*args: Any, **kwargs: Any) -> Any:
        found = encode(*args, **kwargs)
        found.latent_dist.sample = lambda generator=None: found.latent_dist.mode()
        return found

    vae.encode = middle
    try:
        yield
    finally:
        del vae.encode
