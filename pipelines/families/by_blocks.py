"""The stage functions of a family that is a row: groups of its blocks, run one after the other.

Diffusers' modular pipeline of a family is a row of blocks: some for the text, some for a picture, one that makes the
noise and takes it away, one that decodes. What a stage hands on is what its blocks make and the denoise block declares
as an input: read from the blocks, not written by hand.
"""

# B pictures, F latent frames, C channels, H W latent height and width, N latents of a sound, S samples

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..values import Sampling, as_bytes
from .family import Family, OnStep, Parts, of_several
from .groups import blocks_for, leaf_of
from .ltx_blocks import as_it_is, drawn, filmed, second_pass, upscaled
from .row import (
    Row,
    check_channels,
    check_latents,
    check_text,
    flat,
    has_frames,
    in_lists,
    joined,
    latent_channels,
    latent_width,
    listed,
    picture,
    pictures,
    repeated,
    sound_rate,
    unpacked,
    warn_if_cut,
)
from .starts import alone, opaque, stacked, started

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..denoising.blocks import Assembly
    from ..requests import Decode, DecodeAudio, Denoise, EncodeImage, EncodeText

logger = logging.getLogger("latentloom")

NEGATIVE = "negative_"
RATES = ("frame_rate", "fps")  # what they call frames a second
FRAME = "first_frame"  # among the extras of latents, the picture itself
SOUNDS = ("audio", "sound")  # what blocks call what is heard


@dataclasses.dataclass(frozen=True)
class ByBlocks:
    """A `FamilyModule` made from a row."""

    row: Row
    # Those made so far, by pipeline, stage, branches, whether there is a mask, and leaf.
    assemblies: dict[Hashable, Assembly] = dataclasses.field(
        default_factory=dict[Hashable, "Assembly"], compare=False, repr=False
    )
    upscale = staticmethod(upscaled)  # of a row with an upsampler

    @property
    def FAMILY(self) -> Family:
        return self.row.family

    def encode_text(self, parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
        """The negative conditioning is None of a model that has no branch to steer away from."""
        shown = request.first_frame.extras.get(FRAME) if request.first_frame else None
        leaves = ("prompt_embeds",) if self.row.layered else ()
        seen = pictures(request.references.pictures, parts["config"]("vae")) if request.references else []
        branches = self.row.frame_branches if shown is not None else self.row.reference_branches if seen else ()
        block = self._group(parts, "text", branches=branches, leaves=leaves)
        asked = {
            **(self.row.sees(seen) if seen else {}),
            "prompt": request.prompt,
            "negative_prompt": request.negative_prompt,
            "max_sequence_length": request.text_length,
            "keyframes": None if shown is None else [picture(shown[0])],
        }
        if "num_frames" in block.inputs and not branches:
            return {}, {}  # it is read once the canvas is known
        self._warn_if_cut(parts, request.prompt, request.text_length)
        found = self._read(parts, block, asked)
        positive = {name: tensor for name, tensor in found.items() if not name.startswith(NEGATIVE)}
        negative = {name.removeprefix(NEGATIVE): found[name] for name in found.keys() - positive.keys()}
        reads_negative = "negative_prompt" in block.inputs
        if not negative and self._group(parts, "denoise").inputs >= {NEGATIVE + name for name in positive}:
            # FLUX's text block knows one prompt, but our denoiser steers away from another: it is read by itself.
            negative, reads_negative = self._read(parts, block, {**asked, "prompt": request.negative_prompt}), True
        if reads_negative:
            self._warn_if_cut(parts, request.negative_prompt, request.text_length)
        elif request.negative_prompt.strip():
            logger.warning("%s reads no negative prompt; this one is not used", parts["model_index"]["_class_name"])
        return positive, negative or None

    def _read(self, parts: Parts, block: Assembly, asked: Mapping[str, Any]) -> dict[str, Tensor]:
        from ..denoising.guidance import guider

        on = guider(2.0, Sampling())  # that both prompts are encoded, whatever guidance follows
        return flat(_run(block, {**parts, "guider": on}, asked, outputs=self._handed_on(parts, block)))

    def encode_image(self, parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The most likely latents, so they depend on no seed; or those that are drawn by a seed."""
        from ..denoising.inside import most_likely
        from ..denoising.noise import generators, seeds_of

        row, pixels = self.row, opaque(request.image.pixels.movedim(-1, 1), parts["config"]("vae"))  # B C H W
        if row.frame_branches:
            return None, _keyframe(self._group(parts, "image", branches=row.frame_branches), parts, request)
        # Of a start picture the encoder alone: before it stands what would scale the picture to multiples of its own.
        block = self._group(parts, "image", leaves=("image_latents",) if row.takes_image == "start" else ())
        asked: dict[str, Any] = {
            "image": pixels,
            "processed_image": 2.0 * pixels - 1.0,
            "height": request.height,
            "width": request.width,
            "num_frames": request.frames,
        }
        if row.draws_picture:
            asked["generator"] = generators(seeds_of(request.seed, len(pixels)), request.noise)
        with contextlib.nullcontext() if row.draws_picture else most_likely(parts["vae"]):
            make = functools.partial(_run, block, outputs=self._handed_on(parts, block))
            if row.takes_image == "first_frame":
                frames: Sequence[Any] = pixels.split(1)
                if "image_crf" in block.inputs:
                    parts, frames = filmed(parts, request.image.pixels)
                return None, joined(flat(make(parts, {**asked, "image": one})) for one in frames)
            found = flat(make(parts, asked))
        latents = found["image_latents"]
        return latents.squeeze(2) if latents.ndim == 5 else latents, {}  # B C H W

    def encode_references(self, parts: Parts, references: Sequence[Tensor]) -> dict[str, Tensor]:
        """Those of a list are called `name.0`, `name.1`."""
        from torch import Tensor

        block = self._group(parts, "image", branches=self.row.reference_branches)
        seen = self.row.sees(pictures(references, parts["config"]("vae")))
        found = _run(block, parts, seen, outputs=self._handed_on(parts, block))
        for name in [name for name in found if isinstance(found[name], list)]:
            found |= {f"{name}.{place}": each for place, each in enumerate(found.pop(name))}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def denoise(
        self, parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep
    ) -> Tensor | tuple[Tensor, Tensor]:
        import torch

        if not self.row.one_by_one:
            tensor, sound = self._painted(parts, request, generators, on_step)
            return tensor if sound is None else (tensor, sound)
        each = [
            self._painted(parts, alone(request, place), [generator], of_several(on_step, place, len(generators)))
            for place, generator in enumerate(generators)
        ]
        tensor = torch.cat([tensor for tensor, _ in each])
        sounds = [sound for _, sound in each if sound is not None]
        return (tensor, torch.stack(sounds)) if sounds else tensor

    def _painted(
        self, parts: Parts, request: Denoise, generators: list[Generator], on_step: OnStep
    ) -> tuple[Tensor, Tensor | None]:
        """Latents and, of a row with sound, those of the sound: as many as there are generators."""
        from ..denoising.blocks import latent_mask
        from ..denoising.guidance import unmasked

        row, latents, vae = self.row, request.latents, parts["vae.config"]
        seen = row.reference_branches if request.conditioning.references else ()
        branches = row.frame_branches if FRAME in latents.extras else seen
        block = self._group(parts, "denoise", branches=branches, has_mask=request.mask is not None)
        given = self._asked(parts, request, generators)
        if row.takes_image == "start":
            config = parts["transformer"].config
            width, factor, channels = config.get("joint_attention_dim"), latent_width(vae), latent_channels(vae)
            shape = (channels, latents.height // factor, latents.width // factor)
            if width is not None:
                check_text(request.conditioning.positive["prompt_embeds"], width, title=row.title)
            if latents.tensor is not None:
                check_latents(latents.tensor, shape, title=row.title)
            if request.mask is not None:
                # The loop has latents as they are (SD3), or a token for each square of them (FLUX, Qwen-Image).
                side = math.isqrt(config.in_channels // channels)
                given["painted"] = latent_mask(request.mask, shape, patch=side)
        unpack = functools.partial(unpacked, latents=latents, vae=vae, patch=row.patch)
        with unmasked(parts.get(row.looker) or parts["transformer"], row.text_mask, given):
            found = _run(
                block,
                {**parts, **self._walkers(parts, block, request), **(as_it_is(parts, latents) if row.beside else {})},
                given,
                outputs=("latents", *(f"{name}_latents" for name in SOUNDS if row.sound)),
                on_step=on_step,
                unpack=unpack,
            )
        made = unpack(found["latents"]) if row.packed else found["latents"]
        sound = next((found[name] for name in found if name != "latents" and found[name] is not None), None)
        return made.squeeze(2) if row.output == "image" and made.ndim == 5 else made, sound

    def _asked(self, parts: Parts, request: Denoise, generators: list[Generator]) -> dict[str, Any]:
        """Whatever the blocks of one row or another take, with a row for each picture."""
        from ..denoising.guidance import is_guided

        row, latents, conditioning = self.row, request.latents, request.conditioning
        given: dict[str, Any] = {**conditioning.positive, **latents.extras}
        if (is_guided(request.guidance) or row.guiders) and conditioning.negative is not None:
            given |= {NEGATIVE + name: tensor for name, tensor in conditioning.negative.items()}
        given |= {name: given[name].cpu() for name in row.kept_on_cpu}
        given = listed(repeated(given, len(generators))) | in_lists(conditioning.references, len(generators))
        given |= row.sees([None] * len(conditioning.references)) if row.reference_branches else {}
        given |= {
            "height": latents.height,
            "width": latents.width,
            "num_frames": latents.frames,
            "max_area": latents.width * latents.height,  # to which Kontext's blocks would scale the canvas
            **dict.fromkeys(RATES, latents.fps or row.variant(parts["model_index"], parts["config"]).card.fps),
            "num_inference_steps": request.steps,
            "generator": generators,
            "batch_size": len(generators),
            "dtype": next((each.dtype for each in conditioning.positive.values() if each.is_floating_point()), None),
            "keyframe_anchors": ("first",) if FRAME in latents.extras else None,
            "vision_condition_frames": [0] if "x0_tokens_vision" in latents.extras else None,
            "enable_sound": request.sound or None,
        }
        if "num_frames" in (block := self._group(parts, "text")).inputs:
            texts = {"prompt": conditioning.prompt, "negative_prompt": conditioning.negative_prompt}
            given |= _run(block, parts, {**given, **texts}, outputs=self._handed_on(parts, block))
        if row.distilled:
            given[row.distilled] = request.distilled_guidance
        if row.beside and latents.tensor is not None:
            return given | second_pass(latents, request.sampling)
        return given | started(row, request, parts["vae.config"])

    def _walkers(self, parts: Parts, block: Assembly, request: Denoise) -> dict[str, Any]:
        """The solvers and guiders of one denoise, by the names that the blocks know them by."""
        from ..denoising.blocks import made_by_config
        from ..denoising.guidance import guider, own_guiders
        from ..denoising.schedulers import choose, choose_beside

        row, sampling = self.row, request.sampling
        own_levels = row.variant(parts["model_index"], parts["config"]).sigmas
        if own_levels and not (sampling.sigmas or sampling.shift):
            sampling = dataclasses.replace(sampling, sigmas=own_levels)
        found = {"scheduler": choose(parts.get("scheduler") or made_by_config(block.block, "scheduler"), sampling)}
        order = found["scheduler"].order  # how often the solver asks the model in a step
        if "audio_scheduler" in parts:
            found["audio_scheduler"] = choose_beside(parts["audio_scheduler"], sampling, found["scheduler"])
        if not row.guiders:
            return {**found, "guider": guider(request.guidance, sampling, order=order, adds=row.adds_guidance)}
        if order > 1:
            raise ValueError(
                f"scheduler {sampling.scheduler} asks the model twice in a step, and {row.title}'s guiders "
                "count once; choose euler, or the model's own"
            )
        own = {name: made_by_config(block.block, name) for name in row.guiders}
        return {**found, **own_guiders(own, request.guidance, sampling)}

    def decode(self, parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
        import torch

        name, latents = "images" if self.row.layered else f"{self.row.output}s", request.latents
        block = self._group(parts, "decode", leaves=(name,) if self.row.sound else ())
        vae = parts["config"]("vae")
        is_still = tensor.ndim == 4 and has_frames(vae)
        if self.row.takes_image == "start":
            check_channels(tensor, latent_channels(vae), title=self.row.title)
        if self.row.packed:
            tensor = tensor.flatten(2).mT  # B S C
        given = {
            "latents": tensor.unsqueeze(2) if is_still else tensor,
            "height": latents.height,
            "width": latents.width,
            "num_frames": latents.frames,
            "batch_size": len(tensor),
            "dtype": tensor.dtype,
            "output_type": "pt",
            "generator": drawn(parts, latents) if self.row.decoders else None,
        }
        latents_each = given["latents"].split(1 if self.row.decodes_one else len(tensor))
        made = [_run(block, parts, {**given, "latents": each}, outputs=(name,))[name] for each in latents_each]
        pixels = stacked(made[0], len(tensor)) if self.row.layered else made[0] if len(made) == 1 else torch.cat(made)
        return pixels.movedim(1 if self.row.output == "image" else 2, -1)  # B H W C, B F H W C

    def decode_audio(self, parts: Parts, request: DecodeAudio, *, sound: Tensor) -> tuple[Tensor, int]:
        import torch

        block = self._group(parts, "decode", leaves=SOUNDS)
        name = next(each for each in SOUNDS if each in block.outputs)
        each = sound.unbind() if self.row.one_by_one else [sound]
        given = (
            {f"{name}_latents": latents, "audio_num_frames": latents.shape[1], "output_type": "pt"} for latents in each
        )
        heard = [_run(block, parts, one, outputs=(name,))[name] for one in given]
        waves = [wave if wave.ndim == 3 else wave.unsqueeze(0) for wave in heard]
        return torch.cat(waves), sound_rate(parts["config"], title=self.row.title)

    def _group(
        self,
        parts: Parts,
        stage: str,
        *,
        branches: tuple[str, ...] = (),
        has_mask: bool = False,
        leaves: Sequence[str] = (),
    ) -> Assembly:
        """The family's blocks without those of other stages, of others inside only these branches, and keeping what is
        outside of a mask; with `leaves`, of these the one alone that makes one of these."""
        from ..denoising.blocks import Assembly, KeepOutside

        pipeline = self.row.variant(parts["model_index"], parts["config"]).blocks
        key = (pipeline, stage, branches, has_mask, *leaves)
        if key not in self.assemblies:
            block = blocks_for(self.row, pipeline, stage, branches=branches)
            ends = {"keep_outside": KeepOutside()} if has_mask else {}
            self.assemblies[key] = Assembly(leaf_of(block, leaves) if leaves else block, **ends)
        return self.assemblies[key]

    def _handed_on(self, parts: Parts, block: Assembly) -> list[str]:
        """What of a stage's block the denoise block takes, by name."""
        wanted = self._group(parts, "denoise").inputs
        return [name for name in block.outputs if name in wanted]

    def _warn_if_cut(self, parts: Parts, prompt: str, text_length: int) -> None:
        # Of several the last one: CLIP, which comes before T5, reads 77 tokens whatever the length.
        names = [name.rstrip("?") for name in self.row.text if name.startswith("tokenizer")]
        tokenizer = parts.get(names[-1]) if names else None
        if self.row.longest_text and not self.row.text_is_fixed and tokenizer is not None:
            warn_if_cut(getattr(tokenizer, "tokenizer", tokenizer), prompt, text_length=text_length)


def _keyframe(block: Assembly, parts: Parts, request: EncodeImage) -> dict[str, Tensor]:
    """What the denoise block is told of a video's first frame, and the frame itself for the text's: bytes 1 H W C."""
    frame = as_bytes(request.image.pixels).cpu()
    asked = {"image": picture(frame[0]), "width": request.width, "height": request.height}
    return {**flat(_run(block, parts, asked, outputs=("condition_latents",))), FRAME: frame}


def _run(
    block: Assembly, parts: Parts, given: Mapping[str, Any], *, outputs: Sequence[str], **loop: Any
) -> dict[str, Any]:
    """Run the block with what it takes of all that there is to give."""
    from ..denoising.blocks import run

    inputs = {name: value for name, value in given.items() if name in block.inputs and value is not None}
    return run(block, parts, inputs=inputs, outputs=outputs, **loop)
