"""A family as a row of data, and what its blocks take and give: made of what our values hold, checked, and back.

`by_blocks.py` makes the four stage functions of a row, by running the row's blocks.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from ...parallel.errors import BadInput
from ..values import as_bytes
from .family import Card, Family, Line

if TYPE_CHECKING:
    from torch import Tensor

    from ..values import Latents

logger = logging.getLogger("latentloom")

LEVELS = "sample_sigmas"  # entry of model_index.json: the noise levels that a model was distilled for, and no others
# Entries of which configs of VAEs of videos have one.
TEMPORAL = (
    "temperal_downsample",
    "temporal_compression_ratio",
    "spatio_temporal_scaling",
    "temporal_downsample_factors",
)
# Which part of a pipeline has the rate of its sounds, and what its config calls it. Of LTX-2 the vocoder, which comes
# last, and whose rate may be a multiple of that of `audio_vae`.
RATES = (
    ("vocoder", "output_sampling_rate"),
    ("vocoder", "sampling_rate"),
    ("audio_vae", "sample_rate"),
    ("audio_vae", "sampling_rate"),
    ("sound_tokenizer", "sampling_rate"),
    ("vae", "sampling_rate"),
    ("vae", "sample_rate"),
)
Configs = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Variant:
    """One of a family's models: its defaults, and the blocks that run it."""

    card: Card
    blocks: str  # the modular pipeline of diffusers whose blocks it takes
    # By which values one knows it: of entries of model_index.json, or of configs (`scheduler.shift`); or what such a
    # value must be, as a function.
    when: Mapping[str, Any] = field(default_factory=dict[str, Any])
    marked_by: str = ""  # an entry of model_index.json that only it has
    sigmas: tuple[float, ...] = ()  # the noise levels that it was distilled for, where its index does not say them


@dataclass(frozen=True, kw_only=True)
class Row(Line):
    """A line of models. What cannot be read from diffusers' blocks or from the model's configs stands here. Fields that
    `Family` has too are its own; of references the blocks say whether the text encoders see them as well."""

    # The `_class_name`s of `model_index.json` that it reads, beside its variants' modular ones.
    pipelines: tuple[str, ...]
    reads_modular: bool = True  # whether it reads those, too
    variants: tuple[Variant, ...]  # the first that fits is the model's
    longest_text: int = 0  # tokens that it reads at most; with `text_is_fixed` that is no choice. 0 is all of a text.
    text_is_fixed: bool = False
    output: Literal["image", "video"] = "image"
    # What the text stage loads; a name ending in `?` may be absent from a model.
    text: tuple[str, ...] = ("tokenizer", "text_encoder")
    # What its transformer calls the mask of its text, of one that needs none where nothing is hidden.
    text_mask: str = ""
    # The module here whose `made` makes its blocks, where they are not those of its variants' pipelines.
    made_by: str = ""
    image: tuple[str, ...] = ("vae",)
    denoise: tuple[str, ...] = ("transformer", "scheduler")
    decoders: tuple[str, ...] = ()  # what else decodes its pixels
    sound: tuple[str, ...] = ()  # what decoding its sound loads; none of a row without sound
    least_steps: int = 1
    one_by_one: bool = False  # whether its blocks make one video at a time
    decodes_one: bool = False  # whether its VAE takes one video at a time
    patch: int = 2  # how many latents wide a token of the transformer is
    takes_image: Literal["start", "first_frame", "nothing"] = "nothing"
    # Whether latents of a start picture are drawn by a seed; else they are the most likely ones.
    draws_picture: bool = False
    # Which branches of its blocks know of a first frame, of a row whose text encoder looks at it.
    frame_branches: tuple[str, ...] = ()
    # Which branches know of reference pictures, of a row whose blocks have some for them; and what its blocks take them
    # as, prepared pictures as they are needed to denoise included, whose pixels are then None.
    reference_branches: tuple[str, ...] = ()
    sees: Callable[[Sequence[Any]], dict[str, Any]] = lambda pictures: {"image": [*pictures]}
    # Whether guidance of g adds g times the branches' difference to the prompt's own prediction, rather than to the
    # other one's: the number is then what others call the scale less one.
    adds_guidance: bool = False
    # Guiders that its blocks have in their code, of which the first takes the guidance; none are ours alone.
    guiders: tuple[str, ...] = ()
    packed: bool = False  # whether its blocks give and take latents as tokens
    distilled: str = ""  # the name of the blocks' input that is distilled guidance
    # What the text block has another value of, by the name of its attribute.
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    # What its blocks make on the CPU and look for there, whatever device they work on.
    kept_on_cpu: tuple[str, ...] = ()
    # Entries of model_index.json that diffusers' blocks have in their code: a model with others is refused.
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # From the classic pipeline, as tests/pipelines/route_differences.md tells them; empty where there is none.
    differences: str = ""

    def variant(self, index: Mapping[str, Any], config: Configs) -> Variant:
        """Raises ValueError for a model that diffusers' blocks would run wrong."""
        for name, value in self.fixed.items():
            if index.get(name, value) != value:
                raise ValueError(
                    f"model_index.json has {name} {str(index[name])[:60]}, but diffusers' blocks of {self.title} know "
                    f"only {value}; use a model with these"
                )
        named = [each for each in self.variants if each.blocks == index["_class_name"]]
        likely = named if len(named) == 1 else [each for each in self.variants if _fits(each, index, config)]
        found = likely[0]
        own: dict[str, Any] = {"text_length": self.longest_text} if self.text_is_fixed else {}
        if levels := index.get(LEVELS) or found.sigmas:
            own["steps"] = len(levels)
        return replace(found, card=replace(found.card, **own))

    @functools.cached_property
    def family(self) -> Family:
        shared = {each.name: getattr(self, each.name) for each in fields(Family) if hasattr(self, each.name)}
        own: dict[str, Any] = {
            "pipelines": (*self.pipelines, *dict.fromkeys(each.blocks for each in self.variants if self.reads_modular)),
            "components": {
                "encode_text": self.text,
                "encode_image": self.image if self.takes_image != "nothing" or self.references[1] else (),
                "denoise": self.denoise,
                "decode": ("vae", *self.decoders),
                **({"decode_audio": self.sound} if self.sound else {}),
                **({"upscale": ("vae", *(f"{name}?" for name in self.beside))} if self.beside else {}),
            },
            "card": lambda index, config: self.variant(index, config).card,
            "size_multiple": lambda config: self.patch * latent_width(config("vae")),
            "reads_frame": bool(self.frame_branches),
        }
        return Family(**(shared | own))


def latent_width(vae: Mapping[str, Any]) -> int:
    """Pixels that a latent is wide, from the config of any of diffusers' VAEs."""
    for name in ("spatial_compression_ratio", "scale_factor_spatial"):
        if vae.get(name):
            return vae[name]
    if "spatial_downsample_factors" in vae:
        return math.prod(vae["spatial_downsample_factors"])
    if "spatio_temporal_scaling" in vae:  # LTX-Video, which cuts patches before anything else
        return vae["patch_size"] * 2 ** sum(vae["spatio_temporal_scaling"])
    if "temperal_downsample" in vae:
        return 2 ** len(vae["temperal_downsample"])
    return 2 ** (len(vae["block_out_channels"]) - 1)


def latent_channels(vae: Mapping[str, Any]) -> int:
    """Channels of a latent, from the config of a VAE of pictures, or of Qwen-Image's, which is one of videos."""
    return vae["z_dim"] if has_frames(vae) else vae["latent_channels"]


def has_frames(vae: Mapping[str, Any]) -> bool:
    """Whether it is a VAE of videos, to which a picture is a video of one frame."""
    return any(name in vae for name in TEMPORAL)


def has_alpha(vae: Mapping[str, Any]) -> bool:
    """Whether it is a VAE of pictures with an alpha channel."""
    return 4 in (vae.get("in_channels"), vae.get("input_channels"))


def sound_rate(config: Configs, *, title: str) -> int:
    """Samples a second of a model's sounds. Raises `ValueError` where no part says so."""
    for part, name in RATES:
        if name in (found := config(part)):
            return int(found[name])
    raise ValueError(f"no part of {title} says how many samples a second its sounds have; call it yourself")


def _fits(variant: Variant, index: Mapping[str, Any], config: Configs) -> bool:
    if variant.marked_by and index.get(variant.marked_by) is None:
        return False
    for name, value in variant.when.items():
        component, _, key = name.partition(".")
        found = config(component).get(key) if key else index.get(name)
        if not (value(found) if callable(value) else found == value):
            return False
    return True


# ---- What diffusers' blocks take and give, made of what our values hold and back: lists, pictures, tokens.
#
# Values hold tensors alone. Of a list `name` the tensors are called `name.0`, `name.1`.

# B pictures, F latent frames, C channels, H W latent height and width, S tokens, P side of a token in latents


def flat(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors by name, those of a list by name and place, each with a row for its one prompt or picture."""
    from torch import Tensor

    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, list):
            tensors = (each.unsqueeze(0) for each in value if isinstance(each, Tensor))
            found |= {f"{name}.{place}": each for place, each in enumerate(tensors)}
    return found


def listed(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The inverse of `flat`: a list has an entry for each row."""
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        whole, _, place = name.partition(".")
        if place:
            found.setdefault(whole, []).extend(tensor.unbind(0))
        else:
            found[name] = tensor
    return found


def joined(each: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Of what was made of one picture after the other, with a row for each."""
    import torch

    found = list(each)
    return {name: torch.cat([one[name] for one in found]) for name in found[0]}


def in_lists(references: Mapping[str, Tensor], batch: int) -> dict[str, Any]:
    """References as the blocks made them: in a list for all pictures of a batch, else with a row for each."""
    found: dict[str, Any] = {}
    for name, tensor in references.items():
        whole, _, place = name.partition(".")
        if place:
            found.setdefault(whole, []).append(tensor)
        else:
            found[name] = tensor.repeat_interleave(batch, dim=0)
    return found


def pictures(references: Sequence[Tensor], vae: Mapping[str, Any]) -> list[Any]:
    """As diffusers' blocks take them, over white where the VAE knows no alpha channel."""
    found = []
    for each in references:
        if each.shape[2] == 4 and not has_alpha(vae):
            colours, alpha = each.split((3, 1), dim=2)
            each = colours * alpha + 1 - alpha
        found.append(picture(as_bytes(each).cpu()))
    return found


def picture(pixels: Tensor) -> Any:
    """Of bytes H W C, as diffusers' blocks take it."""
    from PIL.Image import fromarray

    return fromarray(pixels.cpu().numpy())


def unpacked(tokens: Tensor, latents: Latents, *, vae: Mapping[str, Any], patch: int) -> Tensor:
    """What a loop holds, as B C F H W: of B S C*P*P or B C*P*P H/P W/P each token is P x P latents.

    Tokens without B are those of one video.
    """
    from torch.nn.functional import pixel_shuffle

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


# ---- What a node was given against what the loaded parts can take: a mistake is one sentence, and no error of shapes.


def repeated(embeddings: Mapping[str, Tensor], batch: int) -> dict[str, Tensor]:
    """One prompt's embeddings, a row per picture: to diffusers' blocks each picture is its own prompt. What has a row
    for each already is left as it is.

    The blocks could repeat the rows themselves, but not with a start picture each, nor the sizes given to RoPE.
    """
    return {
        name: tensor if len(tensor) == batch else tensor.repeat_interleave(batch, dim=0)
        for name, tensor in embeddings.items()
    }


def warn_if_cut(tokenizer: Any, prompt: str, *, text_length: int) -> int:
    """Log one sentence when `prompt` has more tokens than `text_length`; returns how many are cut."""
    num_tokens = len(tokenizer(prompt, truncation=False, verbose=False)["input_ids"])
    cut = max(0, num_tokens - text_length)
    if cut:
        beginning = " ".join(prompt.split())[:40]
        logger.warning(
            f"the prompt '{beginning}...' has {num_tokens} tokens; the last {cut} are cut at text length {text_length}"
        )
    return cut


def check_latents(tensor: Tensor, shape: tuple[int, ...], *, title: str) -> None:
    """Refuse latents of another model: `shape` is what this one has for each picture, without the batch."""
    if tuple(tensor.shape[1:]) != shape:
        got, right = (" x ".join(map(str, s)) for s in (tensor.shape[1:], shape))
        raise ValueError(
            f"the latents are {got}, but this {title} model needs {right} for that size; encode the picture with it"
        )


def check_channels(tensor: Tensor, channels: int, *, title: str) -> None:
    """Refuse to decode latents of another model of the same family."""
    if tensor.shape[1] != channels:
        raise ValueError(
            f"the latents have {tensor.shape[1]} channels, but this {title} model decodes {channels}; "
            "decode with the model that denoised"
        )


def check_text(embeddings: Tensor, width: int, *, title: str) -> None:
    """Refuse text that another model of the same family encoded."""
    if embeddings.shape[-1] != width:
        raise BadInput(
            "the text was encoded {} wide, but this {} model reads {}; encode the text with the model that denoises",
            embeddings.shape[-1],
            title,
            width,
        )
