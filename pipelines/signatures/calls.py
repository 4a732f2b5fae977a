"""What a pipeline class of diffusers is called with and gives, classic or modular: from its signature or its blocks.

A modular pipeline is its default blocks here. They know workflows (a picture is given, or none): a call takes what one
of them takes that none of its own blocks makes, and must have what all of them must.

*Conditions* are frames that a video is to show or to follow, which a pipeline takes as objects of a class of its own.
"""

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from ..denoising.inside import blocks_of

# Parameters that take objects of diffusers', and what stands for them: what these are made of (`whole.modular`).
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
            yield from (_parameter(name, hint, None) for name, hint in MADE_OF[each.name].items())
            continue
        is_required = all(each.name in flow and flow[each.name].required for flow in flows)
        no_default = is_required and each.default is None
        yield _parameter(each.name, each.type_hint, inspect.Parameter.empty if no_default else each.default)
    if "guider" in (specs := specs_of(kind)):
        yield _parameter(GUIDANCE, "float", (specs["guider"].config or {}).get(GUIDANCE))


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
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
