"""What a model family is: data that says which folders it reads and what it needs, and its stage functions.

`Parts` of the denoise stage also hold `"vae.config"` (the VAE's config: the stage never loads its weights), and those
of every stage hold `"model_index"`, the entries of model_index.json (`boundary_ratio` and the like), `"config"`, which
reads a component's config by its name, and `"shells"`, which stand for the components that the stage does not load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...parallel.wording import worded

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from ..requests import Decode, DecodeAudio, Denoise, EncodeImage, EncodeText, Stage

# A model's loaded components by the names of its `model_index.json`; absent optional ones are missing.
Parts = Mapping[str, Any]

# (steps done, steps in all, makes an estimate of the finished latents as B C H W or B C F H W) after every step.
OnStep = Callable[[int, int, "Callable[[], Tensor]"], None]


@dataclass(frozen=True, kw_only=True)
class Card:
    """Defaults of one model. A family fills it in; a file `latentloom.json` in the model's folder overrides it.

    Sizes are in pixels; `guidance` is the true, two-branch guidance scale (1 is off), `distilled_guidance` the number
    that guidance-distilled models such as FLUX.1-dev take as an input (0 where the model takes none).
    """

    name: str = ""
    about: str = ""
    licence: str = ""
    width: int = 1024
    height: int = 1024
    most_side: int = 0  # of the largest pictures that it is good for; 0 where nobody says
    frames: int = 1
    fps: float = 0.0
    steps: int = 28
    guidance: float = 1.0
    second_guidance: float = 0.0  # that of a second expert, as a share of the first's; 0 of a model without one
    distilled_guidance: float = 0.0
    text_length: int = 512  # tokens that a prompt is padded or cut to
    negative_prompt: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a family, and the row that it may be made of, say of a line of models in the same words."""

    name: str
    title: str
    frame_multiple: int = 0  # video lengths are a multiple of this plus `frame_rest`; 0 for pictures
    frame_rest: int = 1
    least_frames: int = 1
    most_frames: int = 0  # 0 is any number
    latent_frames: int = 1  # how many frames of latents `frame_multiple` frames are
    more_latent_frames: int = 0  # which its transformer sees beside those, such as the picture that it starts from
    fps: float = 0.0  # frames a second of all its videos; 0 where that is a choice
    needs_frame: bool = False  # whether its videos begin with a picture, and none without
    takes_mask: bool = False  # whether a part of the start picture can be kept while the rest is painted anew
    # Whether it takes the start picture apart into layers: frames of a video, each with an alpha channel. Its prompt is
    # read by the last of its text blocks alone, for those before tell of the picture where nobody wrote one.
    layered: bool = False
    # By name (library, class) of what its makers publish beside the parts that an index names.
    beside: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    references: tuple[int, int] = (0, 0)  # the fewest and the most pictures that it looks at beside a prompt
    reference_side: int = 1024  # pixels of a side of a square as large as it scales such a picture to, or at most to
    longest_reference: int = 8  # how many times its short side its long one may be
    looker: str = ""  # the component that paints in place of `transformer` where there are reference pictures


@dataclass(frozen=True, kw_only=True)
class Family(Line):
    """One line of models. Importing a family's module imports neither torch nor diffusers; its functions do."""

    pipelines: tuple[str, ...]  # the `_class_name`s of `model_index.json` that this family reads
    output: Literal["image", "video"]
    # What each stage loads, and nothing else; a name ending in `?` may be absent from a model. Only a family with
    # sound has `decode_audio`.
    components: Mapping[Stage, tuple[str, ...]]
    # (model_index, reader of a component's config by name) -> defaults of this model.
    card: Callable[[Mapping[str, Any], Callable[[str], Mapping[str, Any]]], Card]
    # Pixels that width and height must be a multiple of, from the component configs.
    size_multiple: Callable[[Callable[[str], Mapping[str, Any]]], int]
    # What an input picture is to it: where denoising starts (strength), the first frame of a video, or no input.
    takes_image: Literal["start", "first_frame", "nothing"] = "start"
    reads_frame: bool = False  # whether its text encoder looks at the first frame, too
    # The fewest and the most pictures, none or one, that a model's videos end with, from the component configs.
    last_images: Callable[[Callable[[str], Mapping[str, Any]]], tuple[int, int]] = lambda config: (0, 0)

    @property
    def has_sound(self) -> bool:
        return "decode_audio" in self.components

    def idle(self, *, looks: bool) -> str:
        """Of two transformers the one that is not loaded, by whether a denoise `looks` at reference pictures; "" of a
        family with no such two."""
        return "transformer" if looks and self.looker else self.looker

    @property
    def does(self) -> str:
        """What it makes of what, in words."""
        made = {"image": "picture", "video": "video"}[self.output] + (" with sound" if self.has_sound else "")
        least, most = self.references
        told = [] if least or self.layered or self.needs_frame else [worded("text to {}", made)]
        if self.layered:
            told.append("picture to layers")
        elif self.takes_image == "start":
            told.append("picture to picture")
        elif self.takes_image == "first_frame":
            told.append(worded("first frame to {}", made))
        if self.takes_mask:
            told.append("inpainting")
        if most and self.output == "video":
            told.append(worded("up to {} reference pictures to {}", most, made))
        elif most:
            told.append(worded("edits of up to {} pictures", most) if most > 1 else "edits of one picture")
        return ", ".join(told)


class FamilyModule(Protocol):
    """The functions of a family's module; what its family has not, sound or references, a module leaves out.

    Tensors in and out are on the device of the parts. Zeros of a request that stand for the model's own numbers are
    filled in.
    """

    @property
    def FAMILY(self) -> Family: ...

    def encode_text(self, parts: Parts, request: EncodeText) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
        """(positive, negative) conditioning of one prompt, batch 1; None of a model that has nothing to steer from."""
        ...

    def encode_image(self, parts: Parts, request: EncodeImage) -> tuple[Tensor | None, dict[str, Tensor]]:
        """(normalised latents or None, extras) of pictures B H W C in 0..1."""
        ...

    def denoise(
        self, parts: Parts, request: Denoise, *, generators: list[Generator], on_step: OnStep
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Normalised latents, B C H W or B C F H W; of a family with sound these and the sound's, a row for each video.

        One CPU generator per picture makes its noise.
        """
        ...

    def decode(self, parts: Parts, request: Decode, *, tensor: Tensor) -> Tensor:
        """Pixels in 0..1: B H W C, or B F H W C from a video family; `tensor` is that of the latents, on the device."""
        ...

    def decode_audio(self, parts: Parts, request: DecodeAudio, *, sound: Tensor) -> tuple[Tensor, int]:
        """Of a family with sound: B C S in -1..1, and samples a second; `sound` is that of the latents."""
        ...

    def upscale(self, parts: Parts, tensor: Tensor) -> Tensor:
        """Of one that has a second pass: latents B C F H W of twice the height and width, in fp32."""
        ...

    def encode_references(self, parts: Parts, references: Sequence[Tensor]) -> dict[str, Tensor]:
        """Of one that takes reference pictures: normalised latents of pictures H W C in 0..1; `parts` are those of
        `encode_image`."""
        ...


def of_several(on_step: OnStep, place: int, count: int) -> OnStep:
    """For the video at that place of several, which are made one after the other."""
    return lambda done, total, current: on_step(place * total + done, count * total, current)
