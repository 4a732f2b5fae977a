"""What each pipeline class of diffusers is called with and gives: from a table, which
`tests/bench/pipeline_signatures.py` makes, or by itself.

Importing this imports neither torch nor diffusers, so that files are checked and sockets are drawn without them.
"""

import dataclasses
import functools
import importlib
import inspect
import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...parallel.errors import did_you_mean

TABLE = Path(__file__).with_name("signatures.json")
# What somebody has read of the classes' own code: for each text, path and JSON among their parameters a verdict, with
# its reason. One that is not there is not given, so that no new diffusers brings a path, an address or a format string
# that nobody has looked at.
REVIEWED = Path(__file__).with_name("reviewed.json")

Plain = Literal["text", "number", "integer", "switch", "choice", "texts", "numbers", "integers", "json"]
Shown = Literal["picture", "pictures", "mask", "conditions", "references", "video", "audio"]
# `conditions` are pictures at places of a video, `references` a clip beside it, as `condition_class` finds them.
Kind = Plain | Shown
TEXTS: tuple[Kind, ...] = ("text", "texts", "json")  # what may hold any characters, and so needs a verdict
SCALES = ("true_cfg_scale", "guidance_scale")  # parameters that are scales of guidance; of two the first counts
Output = Literal["image", "video", "audio"]


class Parameter(NamedTuple):
    """One of what a pipeline is called with. What has no default is required; a default of None is the pipeline's own
    choice. There are two thousand: as tuples they are made in a quarter of the time."""

    name: str
    kind: Kind
    is_required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    is_advanced: bool = False


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One pipeline class."""

    name: str
    parameters: tuple[Parameter, ...]
    outputs: Mapping[Output, str]  # what it gives that can be shown, and what its output class calls that
    fps: str | float = 0.0  # frames a second of its videos, or the parameter that says so
    parts: tuple[str, ...] = ()  # the components that every call of a modular pipeline needs
    lacks: tuple[str, ...] = ()  # tensors that it must be given, which no socket has
    # Texts that it takes and is never given, each with the reason.
    left_out: Mapping[str, str] = field(default_factory=dict)
    # Components that it makes itself, of a package of their own, to check what it is asked for and what it made.
    guard: tuple[str, ...] = ()
    transformers: tuple[str, ...] = ()  # the classes that its transformers may have
    takes_loras: bool = False

    def why_not_of(self, index: Mapping[str, Any]) -> str:
        """Why the parts of a model with this index make no such pipeline, by its transformers; "" if they may."""
        own = index["_class_name"]
        named = [entry for part, entry in index.items() if part.startswith("transformer")]
        found = [entry[1] for entry in named if isinstance(entry, list) and len(entry) >= 2]
        other = next((kind for kind in found if isinstance(kind, str) and kind not in self.transformers), "")
        if own == self.name or not other:
            return ""
        wanted = " or ".join(self.transformers)
        remedy = f"choose {own}, or" if own in class_names() else "choose"
        return f"its transformer is a {other}, and {self.name} takes a {wanted}; {remedy} another model"

    def guidance(self, arguments: Mapping[str, Any]) -> float:
        """The scale of guidance where each step of this call is likely to ask the transformer for two branches, else 1.

        Where there are two scales, `guidance_scale` is of a distilled model, which has one branch. That of a modular
        pipeline is its guider's.
        """
        usual = {each.name: each.default for each in self.parameters}
        scale = next((name for name in SCALES if name in usual), "")
        value = arguments.get(scale, usual.get(scale))
        is_told = "negative_prompt" in usual or (self.parts and scale == "guidance_scale")
        if not is_told or not isinstance(value, int | float) or value <= 1:
            return 1.0
        is_on = scale == "guidance_scale" or arguments.get("negative_prompt") is not None
        return float(value) if is_on else 1.0


def signature_of(name: str) -> Signature:
    """Raises `ValueError` with the nearest class for one that is not in the table."""
    classes = _table()["classes"]
    if name not in classes:
        raise ValueError(
            f"{name[:100]!r} is none of the {len(classes)} pipeline classes that are known; "
            f"{did_you_mean(name[:100], classes)}write the _class_name of the folder's model_index.json"
        )
    return _signature(name)


def class_names() -> tuple[str, ...]:
    return tuple(_table()["classes"])


@functools.cache
def _signature(name: str) -> Signature:
    row = _table()["classes"][name]
    parameters = [_parameter(*each, is_advanced=key == "advanced") for key in MAIN for each in row[key].items()]
    required = [each for each in parameters if each.is_required]
    left_out = {each.name: why for each in parameters if (why := _why_not_given(name, each))}
    return Signature(
        name=name,
        parameters=tuple(each for each in parameters if each.name not in left_out),
        outputs=row["gives"],
        fps=row.get("fps", 0.0),
        parts=tuple(row.get("parts", ())),
        lacks=(*row.get("lacks", ()), *(each.name for each in required if each.name in left_out)),
        left_out=left_out,
        guard=tuple(row.get("guard", ())),
        transformers=tuple(row["of"]),
        takes_loras=row.get("loras", False),
    )


MAIN = ("takes", "advanced")


def _why_not_given(name: str, parameter: Parameter) -> str:
    """Why a class is never given a text that it takes; "" where somebody has found that it may be."""
    if parameter.kind not in TEXTS:
        return ""
    verdict = reviewed()["classes"].get(name, {}).get(parameter.name)
    if verdict is None:
        return "nobody has looked at what the class does with it"
    found = reviewed()["verdicts"][verdict]
    return "" if found["is_taken"] else found["reason"]


@functools.cache
def reviewed() -> dict[str, Any]:
    """{"verdicts": {name: {"is_taken", "reason"}}, "classes": {class: {parameter: verdict}}}"""
    return json.loads(REVIEWED.read_text())


def _parameter(name: str, row: list[Any], *, is_advanced: bool) -> Parameter:
    """[kind], which must be given, or [kind, default], or ["choice", default, choices]."""
    return Parameter(
        name=name,
        kind=row[0],
        is_required=len(row) == 1,
        default=row[1] if len(row) > 1 else None,
        choices=tuple(row[2]) if len(row) > 2 else (),
        is_advanced=is_advanced,
    )


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_text())


# ---- What a pipeline class is called with and gives, classic or modular: from its signature or its blocks
#
# A modular pipeline is its default blocks here. They know workflows (a picture is given, or none): a call takes what
# one of them takes that none of its own blocks makes, and must have what all of them must. *Conditions* are frames that
# a video is to show or to follow, which a pipeline takes as objects of a class of its own.

# Parameters that take objects of diffusers', and what stands for them: what these are made of (`whole.called`).
MADE_OF = {
    "references": {
        "reference_images": "list[PIL.Image.Image]",
        "reference_video": "list[PIL.Image.Image]",
        "reference_video_fps": "float",
        "reference_audio": "torch.Tensor",
    }
}
# Blocks that rewrite the prompt by a language model, and the components that these are: a folder may lack them.
REWRITERS = ("prompt_upsampler",)
GUIDANCE = "guidance_scale"  # the call of a pipeline with a guider has no such parameter: its guider has, and is told
# What classes of conditions call the frame at which one holds; one without holds for the whole video.
PLACES = ("index", "frame_index")


def is_modular(kind: type) -> bool:
    """Whether it is a subclass of diffusers' ModularPipeline, which is not imported for it."""
    return hasattr(kind, "default_blocks_name")


@functools.cache
def blocks_of(kind: Any) -> Any:
    """The default blocks of a modular class; to be copied before they are changed."""
    import diffusers

    name = kind.default_blocks_name
    package = importlib.import_module(kind.__module__.rpartition(".")[0])
    return (getattr(diffusers, name, None) or getattr(package, name))()


def workflows_of(kind: Any) -> list[Any]:
    """The blocks that run, of each of its workflows."""
    blocks = blocks_of(kind)
    return [blocks.get_workflow(name) for name in getattr(blocks, "_workflow_map", None) or ()] or [blocks]


def parameters_of(kind: Any) -> Mapping[str, inspect.Parameter]:
    """What its call takes, by name."""
    if is_modular(kind):
        return {each.name: each for each in _parameters(kind)}
    return dict(list(inspect.signature(kind.__call__).parameters.items())[1:])


def _parameters(kind: Any) -> Iterator[inspect.Parameter]:
    flows = [{each.name: each for each in flow.inputs} for flow in workflows_of(kind)]
    for each in blocks_of(kind).inputs:
        if each.name is None or not any(each.name in flow for flow in flows):
            continue
        if each.name in MADE_OF:
            yield from (_as_parameter(name, hint, None) for name, hint in MADE_OF[each.name].items())
            continue
        is_required = all(each.name in flow and flow[each.name].required for flow in flows)
        no_default = is_required and each.default is None
        yield _as_parameter(each.name, each.type_hint, inspect.Parameter.empty if no_default else each.default)
    if "guider" in (specs := specs_of(kind)):
        yield _as_parameter(GUIDANCE, "float", (specs["guider"].config or {}).get(GUIDANCE))


def _as_parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint)


def results_of(kind: Any) -> tuple[str, ...]:
    """What a modular pipeline gives, by name."""
    return tuple(each.name for each in blocks_of(kind).outputs)


def specs_of(kind: Any) -> dict[str, Any]:
    """The components of a modular pipeline, as diffusers describes them."""
    return {each.name: each for each in blocks_of(kind).expected_components}


def parts_of(kind: Any) -> tuple[str, ...]:
    """The components that every call of a modular pipeline needs and none of its blocks makes."""
    needs = [
        {each.name for each in flow.expected_components if each.default_creation_method == "from_pretrained"}
        for flow in workflows_of(kind)
    ]
    return tuple(
        name for name in specs_of(kind) if all(name in each for each in needs) and not name.startswith(REWRITERS)
    )


def condition_class(annotation: Any) -> type | None:
    """The class of conditions that a parameter takes, or a list of; None where it takes none."""
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return annotation if "strength" in names_of(annotation) else None
    return next((found for each in typing.get_args(annotation) if (found := condition_class(each))), None)


def names_of(kind: Any) -> set[str]:
    """The fields of a class of conditions."""
    return {field.name for field in dataclasses.fields(kind)}


def conditioned(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call with the conditions among them, `frames` with a `strength` and an `index`, as objects.

    `frames` is a picture, or a list of them for a clip.
    """
    wanted = inspect.signature(type(pipe).__call__).parameters
    found = dict(arguments)
    for name in arguments.keys() & wanted.keys():
        kind = condition_class(wanted[name].annotation)
        if kind is not None and isinstance(arguments[name], list):
            found[name] = [_condition(kind, each) if isinstance(each, dict) else each for each in arguments[name]]
    return found


def _condition(kind: Any, told: Mapping[str, Any]) -> Any:
    names = names_of(kind)
    field = "frames" if "frames" in names else "video" if isinstance(told["frames"], list) else "image"
    place = next((name for name in PLACES if name in names), "")
    return kind(**{field: told["frames"]}, strength=told["strength"], **({place: told["index"]} if place else {}))
