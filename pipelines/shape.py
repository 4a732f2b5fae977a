"""Which sizes and lengths a model can paint, and which masks and reference pictures it takes; found without torch.

Sides are multiples of what the VAE and the transformer's patches take together, a video's length a multiple plus one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..parallel.errors import BadInput
from ..parallel.wording import worded
from .families import FAMILIES, ROWS
from .models.describe import card_of, filled
from .models.facts import family_size_multiple, levels_of
from .models.folder import component_in, read_index
from .values import Latents, Mask, Model, References

if TYPE_CHECKING:
    from .requests import EncodeImage

NOTHING_SHOWN = "the latents are an empty canvas, which shows nothing; put a Denoise before Decode"
KEEPS_NOTHING = (
    "the mask keeps a part of a picture, but the canvas is empty; put a picture on it with Encode Image, or "
    "take the mask away"
)
FRAME_OR_PICTURES = (
    "Encode Text has a first frame and reference pictures, and the model takes one of both; take one away"
)
# Of a reference picture: pixels of a side, and how many times the short side the long one may be.
LEAST_SIDE, LONGEST = 64, 8


@lru_cache(maxsize=64)
def size_multiple(model: Model) -> int:
    """Pixels that width and height must be a multiple of."""
    return family_size_multiple(Path(model.folder), FAMILIES[model.family])


def check_size(model: Model, width: int, height: int) -> None:
    """Raises `ValueError` naming the nearest sizes that fit."""
    nearest = nearest_size(model, width, height)
    if nearest != (width, height):
        raise BadInput(
            "{} x {} is no size that {} can paint; width and height must be multiples of {}, such as {} x {}",
            width,
            height,
            model.source,
            size_multiple(model),
            nearest[0],
            nearest[1],
        )


def nearest_size(model: Model, width: int, height: int) -> tuple[int, int]:
    """The size nearest to this one that the model can paint."""
    multiple = size_multiple(model)
    across, down = (max(multiple, round(side / multiple) * multiple) for side in (width, height))
    return across, down


def check_frames(model: Model, frames: int) -> None:
    """Raises `ValueError` naming the nearest lengths that fit."""
    family, nearest = FAMILIES[model.family], nearest_frames(model, frames)
    if frames in nearest:
        return
    if not family.frame_multiple:
        raise BadInput("frames is {}, but {} makes pictures; set frames to 0 or 1", frames, model.source)
    raise BadInput(
        "frames is {}; {} makes videos of {}k + {} frames{}, such as {} or {}",
        frames,
        model.source,
        family.frame_multiple,
        family.frame_rest,
        f", from {family.least_frames} to {family.most_frames}" if family.most_frames else "",
        nearest[0],
        nearest[1],
    )


def nearest_frames(model: Model, frames: int) -> tuple[int, ...]:
    """The lengths nearest to this one that the model can make."""
    family = FAMILIES[model.family]
    multiple, rest, least, most = family.frame_multiple, family.frame_rest, family.least_frames, family.most_frames
    if not multiple:
        return (1,)
    near = min(max(frames, least), most - multiple) if most else max(frames, least)
    low = (near - rest) // multiple * multiple + rest
    return low, low + multiple


def why_too_large(model: Model, width: int, height: int) -> str:
    """Why a size that the model can paint shows nothing sensible, as a sentence; empty where nobody says so."""
    card = card_of(model)
    if not card.most_side or max(width, height) <= card.most_side:
        return ""
    return worded(
        "{} was trained on pictures of up to {} pixels a side, and paints nothing sensible at {} "
        "x {}; take {} x {}, or another model",
        model.source,
        card.most_side,
        width,
        height,
        card.width,
        card.height,
    )


def check_fps(model: Model, fps: float) -> None:
    """Raises `ValueError` for a rate that is not the model's, where it has but one; 0 stands for its own."""
    family = FAMILIES[model.family]
    if fps and family.fps and fps != family.fps:
        raise BadInput(
            "fps is {:g}, but {} makes {:g} frames a second, and its sound to them; set fps to 0",
            fps,
            family.title,
            family.fps,
        )


def why_no_mask(model: Model) -> str:
    """Why the model cannot keep a part of a picture, as a sentence; empty where it can."""
    family = FAMILIES[model.family]
    if family.takes_mask:
        return ""
    return worded(
        "{} cannot keep a part of a picture and takes no mask; take the mask away, or choose a "
        "model of one of these families: {}",
        family.title,
        ", ".join(each.title for each in FAMILIES.values() if each.takes_mask),
    )


def check_mask_size(latents: Latents, mask: Mask) -> None:
    """Raises `ValueError` for a mask that does not lie over the picture."""
    size, shape = (latents.height, latents.width), tuple(mask.pixels.shape)
    if shape not in ((1, *size), (latents.batch, *size)):
        got, right = (" x ".join(map(str, each)) for each in (shape, (latents.batch, *size)))
        raise BadInput(
            "the mask is {}, but the pictures are {}; give it their size, and one or one for each", got, right
        )


def why_all_anew(model: Model, strength: float, *, is_empty: bool) -> str:
    """Why a strength below 1 has nothing to keep, as a sentence; empty where a picture can be on the canvas."""
    family = FAMILIES[model.family]
    if family.layered and (strength < 1 or is_empty):
        return worded(
            "{} takes a picture apart: put one on the canvas with Encode Image, and set strength to 1", family.title
        )
    if strength >= 1 or (family.takes_image == "start" and not is_empty):
        return ""
    why = "the canvas is empty; put a picture on it with Encode Image, or set strength to 1"
    if family.takes_image == "first_frame":
        why = worded("{} makes every video from noise, one with a first frame too; set strength to 1", family.title)
    if family.takes_image == "nothing":
        why = worded("{} makes everything from noise; set strength to 1", family.title)
    return worded("strength is {:g}, but {}", strength, why)


def why_no_guidance_2(model: Model, guidance_2: float) -> str:
    """Why the model would ignore a guidance of its second expert, as a sentence; empty where it would not."""
    if not guidance_2 or read_index(Path(model.folder)).get("boundary_ratio") is not None:
        return ""
    return worded(
        "guidance_2 is {:g}, but {} has no second expert to guide; set guidance_2 to 0", guidance_2, model.source
    )


def why_no_distilled(model: Model, guidance: float) -> str:
    """Why the model would ignore a number for guidance-distilled models, as a sentence; empty where it would not."""
    if not guidance or card_of(model).distilled_guidance:
        return ""
    return worded("distilled_guidance is {:g}, but {} takes none; set distilled_guidance to 0", guidance, model.source)


def why_no_image(model: Model) -> str:
    """Why Encode Image has nothing to make of a picture for the model, as a sentence; empty where it has."""
    family = FAMILIES[model.family]
    if family.takes_image != "nothing":
        return ""
    if family.references[1]:
        return worded(
            "{} starts from noise and looks at pictures beside it; give this one to Reference "
            "Pictures and its result to Encode Text, and an empty canvas to Denoise",
            family.title,
        )
    makes = {"image": "pictures", "video": "videos"}[family.output]
    return worded("{} makes {} from text only here; take the picture away", family.title, makes)


def check_num_frames(model: Model, num: int) -> None:
    """Raises `ValueError` for several first frames, where the text encoder looks at one."""
    if (family := FAMILIES[model.family]).reads_frame and num != 1:
        raise BadInput("{} first frames: {} reads a text with one of them; give one", num, family.title)


def why_no_references(model: Model, num: int) -> str:
    """Why the model cannot take so many reference pictures, as a sentence; empty where it can."""
    family = FAMILIES[model.family]
    fewest, most = family.references
    if fewest <= num <= most:
        is_lacking = num and family.looker and component_in(read_index(Path(model.folder)), family.looker) is None
        told = "{} looks at reference pictures with {}, which {} lacks; pull the model again, or copy it there"
        return worded(told, family.title, family.looker, model.folder) if is_lacking else ""
    if not most:
        return worded(
            "{} takes no reference pictures; take them away, or choose a model of one of these families: {}",
            family.title,
            ", ".join(each.title for each in FAMILIES.values() if each.references[1]),
        )
    wanted = worded("{} to {} reference pictures", fewest, most) if most > 1 else "one reference picture"
    return worded(
        "{} takes {}, but got {}; give them to Encode Text, by Reference Pictures", family.title, wanted, num or "none"
    )


def check_pictures(references: References, longest: float = LONGEST) -> None:
    """Raises `ValueError` for reference pictures that no model could look at, or not one that sees none `longest` times
    as long as it is wide."""
    for number, picture in enumerate(references.pictures, 1):
        shape = tuple(getattr(picture, "shape", ()))
        if len(shape) != 3 or shape[2] not in (3, 4):
            got = " x ".join(map(str, shape)) or type(picture).__name__
            raise BadInput(
                "reference picture {} is {}; give height x width x 3, or 4 with an alpha channel", number, got
            )
        if min(shape[:2]) < LEAST_SIDE or max(shape[:2]) > longest * min(shape[:2]):
            raise BadInput(
                "reference picture {} is {} x {}; give one of at least {} pixels a side, at most {} "
                "times as long as it is wide",
                number,
                shape[1],
                shape[0],
                LEAST_SIDE,
                longest,
            )
        if not math.isfinite(float(picture.sum())):
            raise BadInput(
                "reference picture {} has values that are no numbers (NaN or infinity); give another", number
            )


def why_not_made(model: Model, output: Literal["image", "video", "audio"]) -> str:
    """Why nothing of that kind can be made of the model's latents, as a sentence; empty where it can."""
    family = FAMILIES[model.family]
    if output == "audio":
        told = worded(
            "{} makes no sound; take Decode Audio away, or choose a model of one of these families: {}",
            family.title,
            ", ".join(each.title for each in FAMILIES.values() if each.has_sound),
        )
        return "" if family.has_sound else told
    if family.output == output:
        return ""
    if family.output == "video":
        return worded("{} makes videos; use Decode Video instead of Decode", model.source)
    return worded("{} makes pictures; use Decode instead of Decode Video", model.source)


def why_other_family(model: Model, family: str, *, what: str) -> str:
    """Why the model cannot go on with what one of that family made, as a sentence; empty where it can."""
    if family == model.family:
        return ""
    return worded(
        "the {} with {} ({}), but the model is {} ({}); use the same model in both places",
        what,
        FAMILIES[family].title if family in FAMILIES else family,
        family,
        FAMILIES[model.family].title,
        model.family,
    )


def why_no_frame(model: Model) -> str:
    """Why the model's text encoder looks at no first frame, as a sentence; empty where it does."""
    family = FAMILIES[model.family]
    if family.reads_frame:
        return ""
    instead = ", and give it to Denoise" if family.takes_image == "first_frame" else ""
    return worded("{} reads the text alone; take first_frame away from Encode Text{}", family.title, instead)


def why_one_frame(model: Model, saw_frame: bool | None, *, has_frame: bool) -> str:
    """Why a text and a canvas do not fit, of which one has a first frame; empty where they do, or nobody knows yet."""
    if (family := FAMILIES[model.family]).needs_frame and not has_frame:
        return worded("{} continues a picture, but got none; give Denoise what Encode Image makes of it", family.title)
    if not FAMILIES[model.family].reads_frame or saw_frame in (None, has_frame):
        return ""
    has, lacks = ("Denoise", "Encode Text") if has_frame else ("Encode Text", "Denoise")
    return worded("{} has a first frame, and {} has none; give both what Encode Image made of it", has, lacks)


def why_no_steps(model: Model, steps: int) -> str:
    """Why the model cannot take so many steps, of noise levels of its own, as a sentence; empty where it can."""
    row = ROWS.get(model.family)
    if row is None:
        return ""
    if steps < row.least_steps:
        return worded("steps is {}; {} needs {} or more", steps, row.title, row.least_steps)
    levels = levels_of(row, Path(model.folder))
    if levels and steps != len(levels):
        return worded(
            "steps is {}, but {} was distilled for {} noise levels of its own; set steps to 0, or "
            "give other levels as sigmas of Sampler Options",
            steps,
            row.title,
            len(levels),
        )
    return ""


def why_no_text(model: Model, length: int) -> str:
    """Why the model cannot read so many tokens, as a sentence; empty where it can, or where its encoder says so."""
    row = ROWS.get(model.family)
    if row is None:
        return ""
    told = worded("text length {}: {}", length, row.title)
    if not row.longest_text:
        return worded("{} reads all of a text, however long; set text length to 0", told) if length else ""
    if row.text_is_fixed and length != row.longest_text:
        return worded("{} always reads {} tokens; set text length to 0", told, row.longest_text)
    return "" if 1 <= length <= row.longest_text else worded("{} reads from 1 to {} tokens", told, row.longest_text)


def why_no_prompt(model: Model, prompt: str, *, saw: bool) -> str:
    """Why the model cannot read nothing at all, as a sentence; empty where it can."""
    row = ROWS.get(model.family)
    if prompt or saw or row is None or row.longest_text:
        return ""
    return worded("the prompt is empty, and {} adds nothing to a text; write one, or a space", row.title)


def check_canvas(model: Model, canvas: Latents | EncodeImage) -> None:
    """Raises `ValueError` for what the model cannot paint."""
    check_size(model, canvas.width, canvas.height)
    check_frames(model, canvas.frames)
    check_fps(model, canvas.fps)


def empty_canvas(model: Model, *, width: int, height: int, frames: int, fps: float, batch: int) -> Latents:
    """Latents without content; zeros take the model's own numbers. Raises `ValueError` for what it cannot paint."""
    canvas = filled(model, width=width, height=height, frames=frames, fps=fps)
    found = Latents(family=model.family, **canvas, batch=batch)
    check_canvas(model, found)
    if batch < 1:
        raise BadInput("batch is {}; paint at least 1 picture", batch)
    return found
