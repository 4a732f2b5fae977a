"""The stage functions of a family that paints pictures from noise or from a picture, also within a mask.

Its module says which blocks of diffusers do what, and what is peculiar about them; all else is the same here. `rows.py`
has the families that know no mask and need not say so much.
"""

# B pictures, S text tokens, C channels, H W latent height and width

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .checks import check_channels, check_latents, check_text, check_text_length, repeated
from .family import OnStep, Parts
from .row import has_frames, latent_width

if TYPE_CHECKING:
    from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
    from torch import Generator, Tensor

    from ..requests import Decode, Denoise, EncodeImage, EncodeText

Make = Callable[[], "ModularPipelineBlocks"]


class Blocks(NamedTuple):
    """What makes the blocks of each stage: classes of diffusers', or functions of the family's."""

    text: Make
    image: Make
    from_noise: Make
    from_picture: Make
    decode: Make


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The four functions of a family's module."""

    title: str
    blocks: Callable[[], Blocks]
    """Called by the stages: it imports diffusers."""
    longest_text: int
    tokenizer: str
    """That of the encoder which reads `text_length` tokens; a model may lack it."""
    text_outputs: tuple[str, str]
    text_mask: str = ""
    """What the transformer calls the mask of its text, of one that needs none where nothing is hidden."""
    packed: int = 2
    """How many latents wide a token is in the blocks' loop; 1 where it has latents as they are."""
    distilled: str = ""
    """The name of the blocks' input that is distilled guidance."""
    draws_picture: bool = True
    """Whether latents of a picture are drawn by a seed; else they are the most likely ones."""

    def encode_text(self, parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        check_text_length(request.text_length, title=self.title, longest=self.longest_text)
        prompts = (request.prompt, request.negative_prompt)
        positive, negative = (self._encoded(parts, prompt, request.text_length) for prompt in prompts)
        return positive, negative

    def _encoded(self, parts: Parts, prompt: str, text_length: int) -> dict[str, Tensor]:
        from ..denoising.blocks import assembled, run
        from ..denoising.guidance import guider
        from ..values import Sampling
        from .checks import warn_if_cut

        if self.tokenizer in parts:
            warn_if_cut(parts[self.tokenizer], prompt, text_length=text_length)
        parts = {**parts, "guider": guider(1.0, Sampling())}  # off: one prompt a call
        inputs = {"prompt": prompt, "max_sequence_length": text_length}
        return run(assembled(self.blocks().text), parts, inputs=inputs, outputs=self.text_outputs)

    def encode_image(self, parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
        from ..denoising.blocks import assembled, run
        from ..denoising.noise import generators, seeds_of

        picture = 2.0 * request.image.pixels.movedim(-1, 1) - 1.0  # B C H W in -1..1
        inputs: dict[str, Any] = {"processed_image": picture}
        if self.draws_picture:
            inputs["generator"] = generators(seeds_of(request.seed, len(picture)), request.noise)
        found = run(assembled(self.blocks().image), parts, inputs=inputs, outputs=("image_latents",))
        return _of_pictures(found["image_latents"]), {}

    def denoise(self, parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep) -> Tensor:
        from ..denoising.blocks import run
        from ..denoising.guidance import guider, is_guided
        from ..denoising.masked import masked
        from ..denoising.schedulers import choose
        from ..denoising.text_mask import unmasked

        config, conditioning, latents = parts["transformer"].config, request.conditioning, request.latents
        check_text(conditioning.positive["prompt_embeds"], config.joint_attention_dim, title=self.title)
        scheduler = choose(parts["scheduler"], request.sampling)
        inputs: dict[str, Any] = {
            **repeated(conditioning.positive, len(generators)),
            "height": latents.height,
            "width": latents.width,
            "num_inference_steps": request.steps,
            "generator": generators,
        }
        if is_guided(request.guidance) and conditioning.negative is not None:
            negative = repeated(conditioning.negative, len(generators))
            inputs |= {f"negative_{name}": tensor for name, tensor in negative.items()}
        if self.distilled:
            inputs[self.distilled] = request.distilled_guidance
        factor = latent_width(parts["vae.config"])
        rows, columns = latents.height // factor, latents.width // factor
        shape, make = (config.in_channels // self.packed**2, rows, columns), self.blocks().from_noise
        if latents.tensor is not None:
            check_latents(latents.tensor, shape, title=self.title)
            inputs |= {"image_latents": latents.tensor, "strength": request.strength}
            make = self.blocks().from_picture
        blocks, mask = masked(make, request.mask, shape, patch=self.packed)
        guide = guider(request.guidance, request.sampling, order=scheduler.order)
        with unmasked(parts["transformer"], self.text_mask, inputs):
            found = run(
                blocks,
                {**parts, "scheduler": scheduler, "guider": guide},
                inputs={**inputs, **mask},
                outputs=("latents",),
                on_step=on_step,
                unpack=(lambda tokens: _unpacked(tokens, rows, columns)) if self.packed == 2 else None,
            )
        return _of_pictures(found["latents"])

    def decode(self, parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
        from ..denoising.blocks import assembled, run

        vae = parts["vae"].config
        is_of_videos = has_frames(vae)
        check_channels(tensor, vae.z_dim if is_of_videos else vae.latent_channels, title=self.title)
        inputs = {"latents": tensor.unsqueeze(2) if is_of_videos else tensor, "output_type": "pt"}  # B C 1 H W
        found = run(assembled(self.blocks().decode), parts, inputs=inputs, outputs=("images",))
        return found["images"].movedim(1, -1)  # B H W C


def _of_pictures(latents: Tensor) -> Tensor:
    """B C H W, also of a VAE to which a picture is a video of one frame."""
    return latents.squeeze(2) if latents.ndim == 5 else latents


def _unpacked(tokens: Tensor, rows: int, columns: int) -> Tensor:
    """From B S C*4, one token for 2 x 2 latents, to B C H W."""
    grid = tokens.unflatten(1, (rows // 2, columns // 2)).unflatten(3, (-1, 2, 2))  # B H/2 W/2 C 2 2
    return grid.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)  # B C H W
