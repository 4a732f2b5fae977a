"""What a pipeline class is called with and gives, as inputs and outputs of a node."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....parallel.errors import BadInput
from ....pipelines.signatures.table import Kind, Output, Parameter, Signature
from ....pipelines.values import Audio, Image, Video
from ...graph.problems import Names
from ...graph.spec import InputSpec, OutputSpec
from ..arguments import argument

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

logger = logging.getLogger("latentloom")
# Socket types of kinds of parameters. What has none cannot be given.
TYPES: dict[Kind, str] = {
    **{"text": "string", "number": "float", "integer": "int", "switch": "bool", "choice": "choice", "json": "string"},
    **{"texts": "list[string]", "numbers": "list[float]", "integers": "list[int]"},
    **{"picture": "Image", "pictures": "Image", "conditions": "Image", "mask": "Mask"},
    **{"video": "Video", "references": "Video", "audio": "Audio"},
}
# What pipelines give, as values. What has none is dropped.
SHOWN: dict[Output, type] = {"image": Image, "video": Video, "audio": Audio}
RANGES: dict[str, tuple[float, float]] = {
    "num_inference_steps": (1, 10_000),
    **dict.fromkeys(("height", "width"), (1, 16384)),
    **dict.fromkeys(("num_frames", "video_length"), (1, 4096)),
    **dict.fromkeys(("num_images_per_prompt", "num_videos_per_prompt", "num_waveforms_per_prompt"), (1, 256)),
    **dict.fromkeys(("max_sequence_length", "max_text_length", "max_lyric_length", "tokenizer_max_length"), (1, 16384)),
}
LONGEST = 10_000  # characters of a text: some classes clean it with patterns whose work grows with its square
LONG_TEXTS = ("prompt", "lyrics", "instruction")
# By kind.
HELP = {
    **dict.fromkeys(("picture", "pictures"), "A batch gives several pictures"),
    "mask": "White is painted; a batch gives several masks",
    "conditions": "Pictures that the video shows at places of it",
    **dict.fromkeys(("references", "video"), "One clip"),
    "audio": "One sound, at any rate",
    "json": "JSON; empty is the pipeline's own",
}
PLACE, STRENGTH = "_index", "_strength"  # how the sockets beside one of conditions end


def inputs_of(signature: Signature) -> list[InputSpec]:
    """Raises `ValueError` for a class that needs what no socket can give, or gives nothing that can be shown."""
    if why := why_not(signature):
        raise ValueError(f"{why}; call it from Python: latentloom.Pool(...).spread(...)")
    return [socket for each in signature.parameters if _type(each) for socket in (input_of(each), *_beside(each))]


def why_not(signature: Signature) -> str:
    """Why the node cannot run a class; "" if it can."""
    lacks = [*signature.lacks, *(each.name for each in signature.parameters if each.is_required and not _type(each))]
    if lacks:
        return f"{signature.name} must be given {', '.join(lacks)}, which no node makes"
    if not any(output in SHOWN for output in signature.outputs):
        gives = " and ".join(signature.outputs) or "tensors"
        return f"{signature.name} gives {gives}, which Run Pipeline cannot hand on"
    return ""


def input_of(parameter: Parameter) -> InputSpec:
    is_long = parameter.kind == "text" and any(word in parameter.name for word in LONG_TEXTS)
    low, high = RANGES.get(parameter.name, (None, None))
    default = parameter.default
    return InputSpec(
        name=parameter.name,
        type=_type(parameter),
        required=parameter.is_required,
        default="" if parameter.kind == "json" else tuple(default) if isinstance(default, list) else default,
        choices=parameter.choices,
        min=low,
        max=high,
        longest=LONGEST if parameter.kind in ("text", "texts") else 0,
        widget="json" if parameter.kind == "json" else "multiline" if is_long else "",
        advanced=parameter.is_advanced,
        help=HELP.get(parameter.kind, ""),
    )


def _beside(parameter: Parameter) -> list[InputSpec]:
    """Of conditions: where they hold, and how strongly."""
    if parameter.kind not in ("conditions", "references"):
        return []
    many: Any = {"required": False, "default": (), "advanced": parameter.is_advanced}
    place = InputSpec(
        name=parameter.name + PLACE,
        type="list[int]",
        help="The frame of each picture, -1 the last; LTX-2 counts latent frames; empty is the first for all",
        **many,
    )
    strength = InputSpec(
        name=parameter.name + STRENGTH, type="list[float]", min=0, max=1, help="Of each; empty is 1", **many
    )
    return [place, strength] if parameter.kind == "conditions" else [strength]


def outputs_of(signature: Signature) -> dict[Output, OutputSpec]:
    return {each: OutputSpec(name=each, type=SHOWN[each].__name__) for each in SHOWN if each in signature.outputs}


def _type(parameter: Parameter) -> str:
    return TYPES.get(parameter.kind, "")


def arguments_of(signature: Signature, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What the pipeline is called with, of what stands at its sockets. Raises `ValueError` by the socket's name."""
    sockets = {socket.name: socket for socket in inputs_of(signature)}
    if unknown := next((name for name in inputs if name not in sockets), ""):
        hint = f"it {why}" if (why := signature.left_out.get(unknown)) else Names().offer(unknown, sockets)
        raise BadInput("{} has no input {!r}; {}", signature.name, unknown, hint)
    given = {name: argument(sockets[name], value) for name, value in inputs.items()}
    if missing := next((s.name for s in sockets.values() if s.required and given.get(s.name) is None), ""):
        raise BadInput("{} needs {}; give it", signature.name, missing)
    clips = {name: clip for name, clip in given.items() if isinstance(clip, Video)}
    rates = {rate: clip.fps for name, clip in clips.items() if (rate := f"{name}_fps") in sockets}
    given |= {name: fps for name, fps in rates.items() if given.get(name) is None}
    found = {
        each.name: _conditions(each, given)
        if each.kind in ("conditions", "references")
        else _argument(each.kind, given.get(each.name))
        for each in signature.parameters
    }
    for each in signature.parameters:
        mask, clip = found[each.name], found.get("video")
        if each.kind == "mask" and mask is not None and isinstance(clip, list):
            found[each.name] = mask if isinstance(mask, list) else [mask] * len(clip)  # one holds for the whole clip
    return {name: value for name, value in found.items() if value is not None}


def _conditions(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    """What `pipelines.signatures.table` reads: frames, each with its place and its strength."""
    name, value = parameter.name, given.get(parameter.name)
    if value is None:
        return None
    from ....pipelines.whole.shown import frames_of, pictures_of

    frames = pictures_of(value) if parameter.kind == "conditions" else [frames_of(value)]
    rows: dict[str, list[Any]] = {}
    for end, usual in ((PLACE, 0), (STRENGTH, 1.0)):
        rows[end] = list(given.get(name + end) or [usual] * len(frames))
        if len(rows[end]) != len(frames):
            counts = f"{name} are {len(frames)} and {name + end} {len(rows[end])}"
            raise ValueError(f"{counts}; give one for each, or none")
    return [
        {"frames": each, "index": index, "strength": strength}
        for each, index, strength in zip(frames, rows[PLACE], rows[STRENGTH], strict=True)
    ]


def _argument(kind: Kind, value: Any) -> Any:
    """None is left to the pipeline."""
    if value is None:
        return None
    if kind == "json":
        return value if not isinstance(value, str) else json.loads(value) if value.strip() else None
    if kind in ("texts", "numbers", "integers"):
        return list(value)
    if kind not in ("picture", "pictures", "mask", "video"):
        return value
    from ....pipelines.whole.shown import frames_of, pictures_of

    if kind == "video":
        return frames_of(value)
    pictures: list[Picture] = pictures_of(value)
    return pictures if kind == "pictures" or len(pictures) > 1 else pictures[0]


def values_of(signature: Signature, found: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the pipeline gave, as a value for each of `SHOWN`; None where it gives no such thing."""
    from ....pipelines.whole.shown import RATE, audio_of, image_of, video_of

    fps = signature.fps
    if isinstance(fps, str):  # the parameter that says it
        usual = next(each.default for each in signature.parameters if each.name == fps)
        fps = float(arguments.get(fps, usual))
    parts = {output: found.get(name) for output, name in signature.outputs.items()}  # diffusers leaves out what is None
    image = image_of(parts["image"]) if parts.get("image") is not None else None
    video = video_of(parts["video"], fps) if parts.get("video") is not None else None
    if (sound := parts.get("audio")) is None:
        return image, video, None
    is_one = signature.outputs["audio"] == "sound"  # of Cosmos 3
    return image, video, audio_of(sound, found[RATE], is_one=is_one)


def tell_size(name: str, arguments: Mapping[str, Any], shown: Sequence[Any]) -> None:
    """Most pipelines round sizes and lengths to what they can paint without a word: it is logged."""
    pixels = next((each.pixels for each in shown if each is not None), None)
    if pixels is None:
        return
    made = dict(zip(("width", "height", "num_frames"), (*pixels.shape[-2:-4:-1], pixels.shape[1]), strict=True))
    for size, number in made.items():
        asked = arguments.get(size, number)
        if (size != "num_frames" or pixels.ndim == 5) and asked != number:
            logger.warning("%s made %s %s, where %s was asked for", name, size, number, asked)
