"""The stage functions of a family that is a row: groups of its blocks, run one after the other.

Diffusers' modular pipeline of a family is a row of blocks: some for the text, some for a picture, one that makes the
noise and takes it away, one that decodes. What a stage hands on is what its blocks make and the denoise block declares
as an input: read from the blocks, not written by hand. Of a list `name` the tensors are called `name.0`, `name.1`.
"""

# B pictures, F latent frames, C channels, H W latent height and width, N latents of a sound, S samples

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..signatures.calls import blocks_of
from ..values import as_bytes
from .checks import repeated
from .family import Family, OnStep, Parts
from .row import Row, has_frames, latent_width, sound_rate

if TYPE_CHECKING:
    from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
    from torch import Generator, Tensor

    from ..denoising.blocks import Assembly
    from ..requests import Decode, DecodeAudio, Denoise, EncodeImage, EncodeText
    from ..values import Latents

logger = logging.getLogger("latentloom")

TEXT = ("text_encoder",)
WRITERS = ("prompt_enhancer", "prompt_upsample", "prompt_upsampler")
"""Blocks that put other words for the prompt's are left out: what the user wrote is what the model reads."""
NEGATIVE = "negative_"
FRAME = "first_frame"
"""Among the extras of latents, the picture itself."""


@dataclasses.dataclass(frozen=True)
class ByBlocks:
    """A `FamilyModule` made from a row."""

    row: Row
    assemblies: dict[tuple[str, str, bool, str], Assembly] = dataclasses.field(
        default_factory=dict["tuple[str, str, bool, str]", "Assembly"], compare=False, repr=False
    )
    """Those made so far, by pipeline, stage, whether there is a first frame, and leaf."""

    @property
    def FAMILY(self) -> Family:
        return self.row.family

    def encode_text(self, parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
        """The negative conditioning is None of a model that has no branch to steer away from."""
        from ..denoising.blocks import run
        from ..denoising.guidance import guider
        from ..values import Sampling

        self._warn_if_cut(parts, request)
        shown = request.first_frame.extras.get(FRAME) if request.first_frame else None
        block = self._group(parts, "text", has_frame=shown is not None)
        if request.negative_prompt.strip() and "negative_prompt" not in block.inputs:
            logger.warning("%s reads no negative prompt; this one is not used", parts["model_index"]["_class_name"])
        asked = {
            "prompt": request.prompt,
            "negative_prompt": request.negative_prompt,
            "max_sequence_length": request.text_length,
            "image": _pictures(request.references.pictures, parts) if request.references else None,
            "keyframes": None if shown is None else [_picture(shown[0])],
        }
        on = guider(2.0, Sampling())  # that both are encoded, whatever guidance follows
        outputs = self._handed_on(parts, block)
        found = _flat(run(block, {**parts, "guider": on}, inputs=_known(block, asked), outputs=outputs))
        positive = {name: tensor for name, tensor in found.items() if not name.startswith(NEGATIVE)}
        negative = {name.removeprefix(NEGATIVE): found[name] for name in found.keys() - positive.keys()}
        return positive, negative or None

    def encode_image(self, parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The most likely latents, so they depend on no seed; or those that the blocks draw by a seed of their own."""
        from ..denoising.blocks import run
        from ..denoising.inside import most_likely

        row = self.row
        block = self._group(parts, "image", has_frame=bool(row.frame_branches))
        if row.frame_branches:
            return None, _keyframe(block, parts, request)
        asked = {
            "image": request.image.pixels.movedim(-1, 1),  # B C H W
            "height": request.height,
            "width": request.width,
            "num_frames": request.frames,
        }
        outputs = self._handed_on(parts, block)
        with most_likely(parts["vae"]):
            found = _flat(run(block, parts, inputs=_known(block, asked), outputs=outputs))
        if row.takes_image == "first_frame":
            return None, found
        latents = found["image_latents"]
        return latents.squeeze(2) if latents.ndim == 5 else latents, {}  # B C H W

    def encode_references(self, parts: Parts, references: Sequence[Tensor]) -> dict[str, Tensor]:
        """Those of a list are called `name.0`, `name.1`."""
        from torch import Tensor

        from ..denoising.blocks import run

        block = self._group(parts, "image")
        outputs = self._handed_on(parts, block)
        found = run(block, parts, inputs={"image": _pictures(references, parts)}, outputs=outputs)
        listed = {
            f"{name}.{i}": each for name in found if isinstance(found[name], list) for i, each in enumerate(found[name])
        }
        return {name: value for name, value in {**found, **listed}.items() if isinstance(value, Tensor)}

    def denoise(
        self, parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep
    ) -> Tensor | tuple[Tensor, Tensor]:
        import torch

        if not self.row.one_by_one:
            tensor, sound = self._painted(parts, request, generators, on_step)
            return tensor if sound is None else (tensor, sound)
        count = len(generators)
        each = [
            self._painted(parts, request, [generator], _of_several(on_step, place, count))
            for place, generator in enumerate(generators)
        ]
        tensor = torch.cat([tensor for tensor, _ in each])
        sounds = [sound for _, sound in each if sound is not None]
        return (tensor, torch.stack(sounds)) if sounds else tensor

    def _painted(
        self, parts: Parts, request: Denoise, generators: list[Generator], on_step: OnStep
    ) -> tuple[Tensor, Tensor | None]:
        """Latents and, of a row with sound, those of the sound: as many as there are generators."""
        from ..denoising.blocks import made_by_config, run
        from ..denoising.guidance import guider, is_guided, own_guiders
        from ..denoising.schedulers import choose
        from ..denoising.text_mask import unmasked
        from ..values import Sampling

        row, latents, conditioning = self.row, request.latents, request.conditioning
        has_frame = FRAME in latents.extras
        block = self._group(parts, "denoise", has_frame=has_frame)
        scheduler = choose(parts.get("scheduler") or made_by_config(block.block, "scheduler"), request.sampling)
        solvers = {"scheduler": scheduler}
        if "audio_scheduler" in parts:
            solvers["audio_scheduler"] = choose(parts["audio_scheduler"], Sampling())
        given: dict[str, Any] = {**conditioning.positive, **latents.extras}
        if (is_guided(request.guidance) or row.guiders) and conditioning.negative is not None:
            given |= {NEGATIVE + name: tensor for name, tensor in conditioning.negative.items()}
        given |= {name: given[name].cpu() for name in row.kept_on_cpu}
        given = _listed(repeated(given, len(generators))) | _in_lists(conditioning.references, len(generators))
        given |= {
            "height": latents.height,
            "width": latents.width,
            "num_frames": latents.frames,
            "max_area": latents.width * latents.height,  # to which Kontext's blocks would scale the canvas
            "frame_rate": latents.fps or row.variant(parts["model_index"], parts["config"]).card.fps,
            "num_inference_steps": request.steps,
            "generator": generators,
            "batch_size": len(generators),
            "dtype": next((each.dtype for each in conditioning.positive.values() if each.is_floating_point()), None),
            "keyframe_anchors": ("first",) if has_frame else None,
        }
        if row.distilled:
            given[row.distilled] = request.distilled_guidance
        if latents.tensor is not None:
            given |= {"image_latents": latents.tensor, "strength": request.strength}
        if row.guiders:
            if scheduler.order > 1:
                raise ValueError(
                    f"scheduler {request.sampling.scheduler} asks the model twice in a step, and {row.title}'s guiders "
                    "count once; choose euler, or the model's own"
                )
            own = {name: made_by_config(block.block, name) for name in row.guiders}
            guiders = own_guiders(own, request.guidance, request.sampling)
        else:
            ours = guider(request.guidance, request.sampling, order=scheduler.order, adds=row.adds_guidance)
            guiders = {"guider": ours}
        with unmasked(parts["transformer"], row.text_mask, given):
            found = run(
                block,
                {**parts, **solvers, **guiders},
                inputs=_known(block, given),
                outputs=("latents", "audio_latents") if row.sound else ("latents",),
                on_step=on_step,
                unpack=lambda tokens: self._unpacked(parts, latents, tokens),
            )
        made = self._unpacked(parts, latents, found["latents"]) if row.packed else found["latents"]
        return made.squeeze(2) if row.output == "image" and made.ndim == 5 else made, found.get("audio_latents")

    def decode(self, parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
        from ..denoising.blocks import run

        name, latents = f"{self.row.output}s", request.latents
        block = self._group(parts, "decode", leaf=name if self.row.sound else "")
        is_still = tensor.ndim == 4 and has_frames(parts["config"]("vae"))
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
        }
        pixels = run(block, parts, inputs=_known(block, given), outputs=(name,))[name]
        return pixels.movedim(1 if self.row.output == "image" else 2, -1)  # B H W C, B F H W C

    def decode_audio(self, parts: Parts, request: DecodeAudio, *, sound: Tensor) -> tuple[Tensor, int]:
        import torch

        from ..denoising.blocks import run

        block = self._group(parts, "decode", leaf="audio")
        each = sound.unbind() if self.row.one_by_one else [sound]
        given = (
            {"audio_latents": latents, "audio_num_frames": latents.shape[1], "output_type": "pt"} for latents in each
        )
        heard = [run(block, parts, inputs=_known(block, one), outputs=("audio",))["audio"] for one in given]
        return torch.cat(heard), sound_rate(parts["config"], title=self.row.title)

    def _group(self, parts: Parts, stage: str, *, has_frame: bool = False, leaf: str = "") -> Assembly:
        """The family's blocks without those of other stages, and with the branches of a first frame if there is one;
        with `leaf`, of these the one alone that makes this."""
        from ..denoising.blocks import Assembly

        pipeline = self.row.variant(parts["model_index"], parts["config"]).blocks
        key = (pipeline, stage, has_frame, leaf)
        if key not in self.assemblies:
            block = self._blocks(pipeline, stage, has_frame)
            self.assemblies[key] = Assembly(_leaf(block, leaf) if leaf else block)
        return self.assemblies[key]

    def _blocks(self, pipeline: str, stage: str, has_frame: bool) -> ModularPipelineBlocks:
        import diffusers

        block = copy.deepcopy(blocks_of(getattr(diffusers, pipeline)))
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
        for name, inner in list(block.sub_blocks.items()) if has_frame else ():
            known = (inner.sub_blocks[branch] for branch in self.row.frame_branches if branch in inner.sub_blocks)
            block.sub_blocks[name] = next(known, inner)
        if stage == "text":
            vars(block.sub_blocks["text_encoder"]).update(self.row.settings)
        return block

    def _handed_on(self, parts: Parts, block: Assembly) -> list[str]:
        """What of a stage's block the denoise block takes, by name."""
        wanted = self._group(parts, "denoise").inputs
        return [name for name in block.outputs if name in wanted]

    def _warn_if_cut(self, parts: Parts, request: EncodeText) -> None:
        from .checks import warn_if_cut

        tokenizer = parts.get("tokenizer_2") or parts.get("tokenizer")  # CLIP, the first of two, reads 77 always
        if self.row.longest_text and not self.row.text_is_fixed and tokenizer is not None:
            warn_if_cut(getattr(tokenizer, "tokenizer", tokenizer), request.prompt, text_length=request.text_length)

    def _unpacked(self, parts: Parts, latents: Latents, tokens: Tensor) -> Tensor:
        """What a loop holds, as B C F H W: of B tokens C*P*P or B C*P*P H/P W/P each token is P x P latents.

        Tokens without B are those of one video.
        """
        from torch.nn.functional import pixel_shuffle

        vae, patch = parts["config"]("vae"), self.row.patch
        if tokens.ndim == 4:
            is_packed = tokens.shape[1] == vae.get("latent_channels", 0) * patch**2
            return pixel_shuffle(tokens, patch) if is_packed else tokens
        if tokens.ndim == 2:
            tokens = tokens.unsqueeze(0)
        if tokens.ndim != 3:
            return tokens
        multiple = patch * latent_width(vae)
        rows, columns = latents.height // multiple, latents.width // multiple
        grid = tokens.unflatten(1, (-1, rows, columns)).unflatten(4, (-1, patch, patch))  # B F H/P W/P C P P
        return grid.permute(0, 4, 1, 2, 5, 3, 6).flatten(5, 6).flatten(3, 4)  # B C F H W


def _keyframe(block: Assembly, parts: Parts, request: EncodeImage) -> dict[str, Tensor]:
    """What the denoise block is told of a video's first frame, and the frame itself for the text's: bytes 1 H W C."""
    from ..denoising.blocks import run

    frame = as_bytes(request.image.pixels).cpu()
    asked = {"image": _picture(frame[0]), "width": request.width, "height": request.height}
    found = run(block, parts, inputs=_known(block, asked), outputs=("condition_latents",))
    return {**_flat(found), FRAME: frame}


def _picture(pixels: Tensor) -> Any:
    """Of bytes H W C, as diffusers' blocks take it."""
    from PIL.Image import fromarray

    return fromarray(pixels.cpu().numpy())


def _leaf(block: ModularPipelineBlocks, output: str) -> ModularPipelineBlocks:
    """The first of its blocks without others inside that makes this."""
    if not block.sub_blocks:
        return block
    return next(_leaf(each, output) for each in block.sub_blocks.values() if output in each.intermediate_output_names)


def _of_several(on_step: OnStep, place: int, count: int) -> OnStep:
    """For the video at that place of several, which are made one after the other."""
    return lambda done, total, current: on_step(place * total + done, count * total, current)


def _known(block: Assembly, given: Mapping[str, Any]) -> dict[str, Any]:
    """What of it the block takes."""
    return {name: value for name, value in given.items() if name in block.inputs and value is not None}


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
    keeps_alpha = parts["config"]("vae").get("in_channels") == 4
    found = []
    for picture in references:
        if picture.shape[2] == 4 and not keeps_alpha:
            colours, alpha = picture.split((3, 1), dim=2)
            picture = colours * alpha + 1 - alpha
        found.append(_picture(as_bytes(picture).cpu()))
    return found
