"""What each stage is asked for: made once, checked once, passed as it is in one process and as plain data to ranks.

Each raises `ValueError` that says what would be right. A number is never negative, and zero stands for the model's own
everywhere, but for a seed. A new field is a line here, one in the node, and its use in a stage or a family; what a
model does not take of it is a rule in `settling.py`.
"""

import copy
import functools
import math
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from ..parallel.errors import did_you_mean
from ..parallel.plan import ParallelPlan
from .values import (
    NUM_SEEDS,
    Conditioning,
    Depth,
    Image,
    Latents,
    Mask,
    Model,
    Noise,
    References,
    Sampling,
    StepCache,
    check_names,
    field_types,
    from_plain,
)

if TYPE_CHECKING:
    import torch

Stage = Literal["encode_text", "encode_image", "denoise", "upscale", "decode", "decode_audio"]
MAX_STEPS = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """What the requests of all stages have in common."""

    stage: ClassVar[Stage]
    model: Model

    def __new__(cls, **fields: Any) -> Self:
        check_names(cls, fields)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, hint in field_types(type(self)).items():
            object.__setattr__(self, name, _check(hint)(name, getattr(self, name)))

    def resolved(self, **fields: Any) -> Self:
        """The request with values that a stage has chosen itself, which are not checked again."""
        assert fields.keys() <= vars(self).keys(), f"{type(self).__name__} has not all of {', '.join(fields)}"
        changed = copy.copy(self)  # dataclasses.replace would check again what the stage knows to be right
        for name, value in fields.items():
            object.__setattr__(changed, name, value)
        return changed


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodeText(Request):
    """A prompt to be read by the model's text encoders."""

    stage: ClassVar[Stage] = "encode_text"
    prompt: str
    negative_prompt: str = ""  # empty is the model's own text, a space is none
    text_length: int = 0  # tokens that the text is padded or cut to
    references: References | None = None  # pictures that the model looks at beside the prompt
    # What encode_image made of a video's first frame, for a model whose text encoder looks at it.
    first_frame: Latents | None = None
    # What was made of the same references with another prompt: their latents are taken from it.
    before: Conditioning | None = None
    # How many ranks of the process group hold the encoders between them; each is given the same request.
    split: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodeImage(Request):
    """A picture, already of the size to paint, to start from or to be a video's first frame."""

    stage: ClassVar[Stage] = "encode_image"
    image: Image
    last_image: Image | None = None  # of the same size, for a video to end with
    width: int = 0  # pixels, as are those of the height; 0 is the picture's own
    height: int = 0
    frames: int = 0
    fps: float = 0.0
    seed: int = 0  # picture i of a batch uses seed + i
    noise: Noise = "seed"


@dataclass(frozen=True, kw_only=True, eq=False)
class Denoise(Request):
    """A canvas to be painted: picture i of its batch is made from noise of `seed + i`, as it is made alone."""

    stage: ClassVar[Stage] = "denoise"
    conditioning: Conditioning
    latents: Latents
    seed: int = 0
    steps: int = 0
    guidance: float = 0.0  # how strongly the prompt acts; 1 is off
    strength: float = 1.0  # how much of a start picture is painted anew; 1 is all of it
    guidance_2: float = 0.0  # True guidance of the second expert (Wan 2.2)
    distilled_guidance: float = 0.0  # what guidance-distilled models (FLUX.1-dev) take as an input
    step_cache: StepCache = "none"
    cache_threshold: float = 0.0  # how much change a step cache overlooks; 0 is the cache's own
    # Where the start picture is painted anew, as many pixels as the canvas; elsewhere it is kept. None: everywhere.
    mask: Mask | None = None
    sound: bool = False  # whether one is painted beside a video, of a model that may (Cosmos 3)
    sampling: Sampling = field(default_factory=Sampling)
    # As stock pipelines draw it in half precision, for whoever compares with them, it is `diffusers`.
    noise: Noise = "seed"
    # How all ranks of the process group share the work; each is given the same request. Where the model's place
    # decides, it is set from there.
    plan: ParallelPlan = field(default_factory=ParallelPlan)

    def on_device(self, dtype: "torch.dtype") -> Self:
        """With its tensors on the model's device: numbers in this format, masks of texts as they are."""
        import torch

        device, text, latents = self.model.device, self.conditioning, self.latents

        def moved(tensors: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: each.to(device, dtype if each.is_floating_point() else each.dtype)
                for name, each in tensors.items()
            }

        negative, tensor = text.negative, latents.tensor
        if tensor is not None:
            tensor = tensor.to(device, dtype)
            tensor = tensor.expand(latents.batch, *tensor.shape[1:])
        mask = None if self.mask is None else self.mask.pixels.to(device, torch.float32).clamp(0, 1)
        both = {"positive": moved(text.positive), "negative": None if negative is None else moved(negative)}
        return self.resolved(
            conditioning=replace(text, **both, references=moved(text.references)),
            latents=replace(latents, tensor=tensor, extras=moved(latents.extras)),
            mask=None if mask is None else Mask(pixels=mask),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Upscale(Request):
    """Denoised latents to be made twice as wide and high by the model's own upsampler."""

    stage: ClassVar[Stage] = "upscale"
    latents: Latents


@dataclass(frozen=True, kw_only=True, eq=False)
class Decode(Request):
    """Denoised latents to be made visible."""

    stage: ClassVar[Stage] = "decode"
    latents: Latents
    depth: Depth = "floats"
    split: int = 1  # how many ranks of the process group share the rows; each is given the same request


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodeAudio(Request):
    """Denoised latents whose sound is to be heard."""

    stage: ClassVar[Stage] = "decode_audio"
    latents: Latents


R = TypeVar("R", bound=Request)


def first_step(steps: int, strength: float) -> int:
    """The step to begin with; strength leaves the earlier ones out. Rounded as diffusers does."""
    return int(steps - min(steps * strength, steps))


def made(kind: type[R], given: R | Mapping[str, Any], fields: Mapping[str, Any]) -> R:
    """A request from what a stage is called with: as it is, or read from plain data, with `fields` on top."""
    if isinstance(given, kind):
        return kind(**{**vars(given), **fields}) if fields else given
    if not isinstance(given, Mapping):
        raise ValueError(f"{kind.stage} got a {type(given).__name__}; give a {kind.__name__}, or its fields by name")
    return from_plain(kind, {**given, **fields})


def _number(name: str, value: Any) -> float:
    """A number that is not negative; zero stands for the model's own."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise ValueError(f"{name} is {value!r:.100}; give a number that is not negative, or 0 for the model's own")
    return float(value)


def _whole(name: str, value: Any) -> int:
    if name == "seed":
        most, right = NUM_SEEDS - 1, f"from 0 up to {NUM_SEEDS - 1}"
    elif name == "steps":
        most, right = MAX_STEPS, f"from 1 to {MAX_STEPS}, or 0 for the model's own"
    else:
        most, right = math.inf, "from 1, or 0 for the model's own"
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r:.100}; give a whole number {right}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {str(value)[:100]}, a {type(value).__name__}; give one text")
    return value


def _choice(choices: tuple[str, ...], name: str, value: Any) -> str:
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ValueError(f"{name} is {value!r}; {hint}choose one of {', '.join(choices)}")
    return value


def _value(kind: type, name: str, value: Any) -> Any:
    """A value of a class, or None where the field may be without one."""
    if not isinstance(value, kind):
        wanted = next((each for each in typing.get_args(kind) if each is not type(None)), kind)
        raise ValueError(f"{name} is a {type(value).__name__}; give a {wanted.__name__}")
    return value


@functools.cache
def _check(hint: Any) -> Callable[[str, Any], Any]:
    if typing.get_origin(hint) is Literal:
        return functools.partial(_choice, typing.get_args(hint))
    return {float: _number, int: _whole, str: _text}.get(hint, functools.partial(_value, hint))
