"""The values on wires: small frozen descriptions, and handles to the tensors that nodes pass on.

Every value crosses a process border as plain data: `to_plain` gives nested dicts of str, int, float, bool, None, lists
and tensors, `from_plain` reads them back. Values that hold tensors compare by identity.
"""

# B batch, H height, W width, C channels, F frames, S samples

from __future__ import annotations

import dataclasses
import functools
import io
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..parallel.errors import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image as Pillow
    from torch import Tensor

Dtype = Literal["fp32", "bf16", "fp16"]
Quantization = Literal["none", "int8", "int4", "fp8", "fp8_dynamic"]
# What makes the blocks of a transformer into something faster: nothing, torch's own compiler, Torch-TensorRT.
Engine = Literal["eager", "inductor", "tensorrt"]
# Where text encoders work: on the model's device, or on the CPU, which rounds differently.
TextEncoder = Literal["device", "cpu"]
# Whether whole steps are replayed as CUDA graphs, which changes no bit of a result.
Graphs = Literal["auto", "on", "off"]
Scheduler = Literal["model", "euler", "heun", "unipc", "dpm++2m"]
StepCache = Literal["none", "first_block", "mag", "taylorseer", "sea"]
# How much change each step cache of diffusers overlooks that has such a number, unless it is given another.
THRESHOLDS: Mapping[StepCache, float] = {"first_block": 0.05, "mag": 0.06, "sea": 0.25}
# Of a seed: the same in every number format, or what diffusers draws in the model's own; they differ in half
# precision.
Noise = Literal["seed", "diffusers"]
# Of pixels: floats in 0..1, or what files hold of them, whole numbers in 0..255 (uint8).
Depth = Literal["floats", "bytes"]


@dataclass(frozen=True, kw_only=True)
class Lora:
    """One LoRA on a model: a safetensors file, known by its content."""

    path: str
    sha256: str
    adapter: str
    scale: float = 1.0


NUM_SEEDS = 2**64
MARK = ",compiled"  # of a plan by which the transformer is compiled, whatever the model says
COMPILING = f"auto{MARK}"  # the plan `auto`, which may also choose to compile the transformer


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a model runs. Without devices it runs in the process that asks; with them, in one rank on each."""

    devices: tuple[str, ...] = ()
    # How one denoise uses them, such as `cfg=2,ulysses=2` (see `parallel.plan`), `auto`, or `auto,compiled`. Empty is
    # what the workflow says, and `auto` where it says nothing.
    plan: str = ""
    replicas: int = 1  # groups of equal size that work on different jobs
    cluster: str = ""  # the address of a Ray cluster whose machines each have these devices; none is this machine

    @property
    def group_size(self) -> int:
        """How many devices work on one job together, on one machine."""
        return len(self.devices) // self.replicas

    @property
    def compiles(self) -> bool:
        """Whether its plan has the transformer compiled."""
        return self.plan.endswith(MARK)


@dataclass(frozen=True, kw_only=True)
class Model:
    """Which weights to use and how, without the weights; the component store and ranks are keyed by it."""

    # A folder, `FILE.safetensors@BASE` or `FILE.gguf@BASE` with absolute paths, a hub id, or `builtin:NAME`.
    source: str
    folder: str  # the folder of the files on this machine; of a single-file checkpoint, that of its base
    family: str  # empty for a pipeline that is run as a whole
    revision: str = ""
    fingerprint: str = ""  # changes when the files change
    device: str = "cpu"
    dtype: Dtype = "fp32"
    quantization: Quantization = "none"
    engine: Engine = "eager"
    graphs: Graphs = "auto"
    text_encoder: TextEncoder = "device"
    place: Place = field(default_factory=Place)
    loras: tuple[Lora, ...] = ()

    @property
    def is_compiled(self) -> bool:
        return self.engine != "eager"


# Engines as keys had `compiled` before there were engines, so that what is kept stays good.
COMPILED: Mapping[str, bool] = {"eager": False, "inductor": True}


@dataclass(frozen=True, kw_only=True, eq=False)
class Conditioning:
    """What the text encoders made of one prompt. Tensor names are the family's own (diffusers' names)."""

    family: str
    prompt: str
    negative_prompt: str
    positive: Mapping[str, Tensor]
    # None where there is nothing to steer away from: guidance must then be off.
    negative: Mapping[str, Tensor] | None = None
    # The reference pictures in the model's latent space, beside both.
    references: Mapping[str, Tensor] = field(default_factory=dict)
    saw_frame: bool = False  # whether the text encoder looked at the first frame of the video as well


@dataclass(frozen=True, kw_only=True, eq=False)
class Latents:
    """A picture or video in a model's latent space, with its geometry in pixels.

    `tensor` is None for an empty canvas. `sound` is what a model that makes sound as well painted beside it, in its
    family's own form: a row for each video. `extras` holds what an image-to-video model is told about the first frame.
    """

    family: str
    width: int
    height: int
    frames: int = 1
    fps: float = 0.0
    batch: int = 1
    seeds: tuple[int, ...] = ()
    tensor: Tensor | None = None
    sound: Tensor | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.tensor is None


@dataclass(frozen=True, kw_only=True, eq=False)
class Image:
    """Pictures as B H W C floats in 0..1, on the CPU (ComfyUI's convention); as bytes only for who takes them."""

    pixels: Tensor

    @classmethod
    def from_pil(cls, *pictures: Pillow.Image) -> Image:
        """Pillow's pictures, as Load Image reads their files: upright, transparency over white. Raises `ValueError`
        for several sizes, and more than 8 bits a channel."""
        import numpy as np

        if len(sizes := {f"{picture.width} x {picture.height}" for picture in pictures}) != 1:
            raise ValueError(f"pictures of {' and '.join(sorted(sizes)) or 'no size'} are no batch; give some of one")
        return cls.from_numpy(np.stack([np.asarray(_colours(picture)) for picture in pictures]))

    @classmethod
    def from_numpy(cls, array: NDArray[np.uint8]) -> Image:
        """Bytes H W, H W C or B H W C, of 1 channel (grey) or 3 (red, green, blue). Raises `ValueError`."""
        import torch

        shape = (*array.shape, 1) if array.ndim == 2 else array.shape
        if str(array.dtype) != "uint8" or len(shape) not in (3, 4) or shape[-1] not in (1, 3):
            got = f"an array {' x '.join(map(str, array.shape))} of {array.dtype} is no picture"
            raise ValueError(f"{got}; give uint8, height x width x 3, or with transparency a picture of Pillow's")
        pixels = torch.from_numpy(array.copy()).reshape(-1, *shape[-3:])
        return cls(pixels=pixels.expand(-1, -1, -1, 3).float().div_(255))

    def to_numpy(self) -> NDArray[np.uint8]:
        """Bytes B H W C, a copy."""
        return as_bytes(self.pixels).cpu().numpy().copy()

    def to_pil(self) -> list[Pillow.Image]:
        """One of Pillow's pictures for each of the batch."""
        from PIL import Image as Pillow

        return [Pillow.fromarray(picture) for picture in self.to_numpy()]

    def _repr_png_(self) -> bytes:
        """What a notebook shows: the first four, side by side."""
        row = self.pixels[:4].transpose(0, 1).flatten(1, 2)  # H B*W C
        Image(pixels=row[None]).to_pil()[0].save(file := io.BytesIO(), "PNG")
        return file.getvalue()


def _colours(picture: Pillow.Image) -> Pillow.Image:
    from PIL import Image as Pillow
    from PIL import ImageOps

    if (mode := picture.mode).startswith(("I", "F")):
        raise ValueError(f"a picture of mode {mode} has more than 8 bits a channel; convert it, or load_image its file")
    upright = ImageOps.exif_transpose(picture)
    if not upright.has_transparency_data:
        return upright.convert("RGB")
    return Pillow.alpha_composite(Pillow.new("RGBA", upright.size, "white"), upright.convert("RGBA")).convert("RGB")


@dataclass(frozen=True, kw_only=True, eq=False)
class References:
    """Pictures that a model looks at while it paints another, in the order by which a prompt may name them."""

    # Each H W C floats in 0..1 of a size of its own, on the CPU; a fourth channel is how much of it there is.
    pictures: tuple[Tensor, ...]

    @property
    def num_pictures(self) -> int:
        return len(self.pictures)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mask:
    """Where pictures are painted anew, as B H W floats on the CPU: 1 is painted, 0 kept (ComfyUI's convention)."""

    pixels: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Video:
    """Clips as B F H W C floats in 0..1, on the CPU, played at `fps`; as bytes only for who takes them."""

    pixels: Tensor
    fps: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Audio:
    """Sounds as B C S floats in -1..1, on the CPU, with `rate` samples a second in each channel."""

    waveform: Tensor
    rate: int


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to walk from noise to picture, beyond the number of steps. Zero means the model's own."""

    scheduler: Scheduler = "model"
    shift: float = 0.0  # flow shift: larger spends more steps on the layout, smaller on detail
    sigmas: tuple[float, ...] = ()  # explicit noise levels, falling from 1; replaces the number of steps
    # Whether the shift bends these as well, as pipelines of diffusers do that are called with `sigmas`.
    shift_sigmas: bool = False
    guidance_start: float = 0.0
    guidance_stop: float = 1.0  # guidance acts between these fractions of the steps
    guidance_rescale: float = 0.0


Value = Lora | Model | Conditioning | Latents | Image | References | Mask | Video | Audio | Sampling
V = TypeVar("V")


def as_bytes(pixels: Tensor) -> Tensor:
    """Pixels as bytes (uint8), where they are: floats ... H W C in 0..1, rounded, picture by picture, so that little
    memory is taken on the way; bytes as they came.
    """
    import torch

    if pixels.dtype == torch.uint8:
        return pixels
    found = torch.empty(pixels.shape, dtype=torch.uint8, device=pixels.device)
    _fill_bytes(found, pixels)
    return found


def _fill_bytes(found: Tensor, pixels: Tensor) -> None:
    if pixels.ndim > 3:
        for part, source in zip(found, pixels, strict=True):
            _fill_bytes(part, source)
    else:
        found.copy_(pixels.float().clamp(0, 1).mul_(255).round_())


def to_plain(value: Any) -> Any:
    """Nested dicts, lists, scalars and detached tensors, where they are; the inverse of `from_plain`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return typing.cast("Tensor", value).detach()


def from_plain(kind: type[V], plain: Mapping[str, Any]) -> V:
    """Read one value of type `kind` back from plain data; unknown or missing names raise `ValueError`.

    What is a value already, rather than plain, is taken as it is.
    """
    check_names(kind, plain)
    hints = field_types(kind)
    read = {name: _reader(hints[name])(each) for name, each in plain.items()}
    try:
        return kind(**read)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} cannot be read from {sorted(plain)}: {error}") from None


def check_names(kind: type, given: Iterable[str]) -> None:
    """Raise `ValueError` for a name that is no field of `kind`, with the nearest that is one."""
    names = field_types(kind)
    for unknown in sorted(set(given) - names.keys()):
        hint = did_you_mean(unknown, names)
        raise ValueError(f"{kind.__name__} has no {unknown}; {hint}{'It' if hint else 'it'} has {', '.join(names)}")


@functools.cache
def field_types(kind: type) -> Mapping[str, Any]:
    """The type of each field of a value, by its name."""
    hints = typing.get_type_hints(kind, localns={"Tensor": object})
    return {f.name: hints[f.name] for f in dataclasses.fields(typing.cast(Any, kind))}


@functools.cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """What reads a field of this type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _reader(next(a for a in args if a is not type(None)))
        return lambda plain: None if plain is None else inner(plain)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return lambda plain: from_plain(hint, plain) if isinstance(plain, Mapping) else plain
    if origin in (tuple, list, Sequence):
        each, make = _reader(args[0]), tuple if origin is tuple else list
        return lambda plain: make(map(each, plain))
    if origin in (dict, Mapping):
        each = _reader(args[1])
        return lambda plain: {key: each(item) for key, item in plain.items()}
    return lambda plain: plain
