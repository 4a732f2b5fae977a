"""A modular pipeline of diffusers, put together from components and called by name, as a classic one is.

Its blocks are the default ones of its class, and what they make of a config they make. A block that rewrites the prompt
with a language model is left out where that is not in the folder.
"""

# C channels, S samples

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...parallel.wording import worded
from ..components.building import quiet_libraries
from ..signatures.table import (
    GUIDANCE,
    MADE_OF,
    REWRITERS,
    is_modular,
    parameters_of,
    results_of,
)
from ..values import Audio
from .sound import rate_of, resampled

if TYPE_CHECKING:
    from diffusers.modular_pipelines.modular_pipeline import ModularPipeline


def put_together(kind: Any, parts: Mapping[str, Any], values: Mapping[str, Any]) -> ModularPipeline:
    """The pipeline of these components; `values` are those of its configs that the index has."""
    import diffusers

    blocks = getattr(diffusers, kind.default_blocks_name)()
    for name in REWRITERS:
        if name in blocks.sub_blocks and name not in parts:
            blocks.sub_blocks.pop(name)
    with quiet_libraries():
        pipe = kind(blocks=blocks)
        settings = {name: values[name] for name in pipe._config_specs if values.get(name) is not None}
        pipe.update_components(**parts, **settings)
    return pipe


def taken(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the call is given; of a classic pipeline the arguments themselves. References are made as it takes them,
    and guidance is as `guided` sets it. Raises `ValueError` for what it does not take, which diffusers would ignore,
    and where the folder lacks a component that this call needs."""
    if not is_modular(type(pipe)):
        return dict(arguments)
    known, names = parameters_of(type(pipe)), {each.name for each in pipe.blocks.inputs}
    given = {name: value for name, value in arguments.items() if name != GUIDANCE or GUIDANCE in names}
    if unknown := next((name for name in arguments if name not in known), ""):
        near = difflib.get_close_matches(unknown, known, n=1)
        hint = worded("did you mean {}?", near[0]) if near else f"it takes {', '.join(known)}"
        raise ValueError(f"{type(pipe).__name__} takes no {unknown[:100]}; {hint}")
    given = _referred(pipe, given)
    for name in given.keys() - names:
        if given.pop(name) != known[name].default:
            raise ValueError(f"{name} is for {', '.join(REWRITERS)}, which the model's folder lacks; leave it out")
    flow = pipe.blocks.get_execution_blocks(**given)
    if missing := [each.name for each in flow.expected_components if getattr(pipe, each.name, None) is None]:
        raise ValueError(f"this call needs {', '.join(missing)}, which the model's folder lacks; copy it there")
    return given


def run(pipe: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What it gives, by name, called with what is `taken`."""
    made = pipe(**given, output=list(results_of(type(pipe))))
    return {name: value for name, value in made.items() if value is not None}


@contextlib.contextmanager
def guided(pipe: Any, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Within it the guider of a modular pipeline has the scale that is among the arguments, or its own."""
    guider, scale = getattr(pipe, "guider", None), arguments.get(GUIDANCE)
    if guider is None or scale is None or not is_modular(type(pipe)):
        yield
        return
    pipe.guider = guider.new(**{GUIDANCE: scale})
    try:
        yield
    finally:
        pipe.guider = guider


def _referred(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with MiniMax-H3's references, which are objects of diffusers', made of a call's: the pictures,
    then the clip, then the sound, as a prompt counts each kind."""
    names = MADE_OF["references"]
    given = {name: value for name, value in arguments.items() if name not in names}
    found = {name: arguments[name] for name in names if arguments.get(name) is not None}
    if made := _references(pipe, **found) if found else []:
        given["references"] = made
    return given


def _references(
    pipe: Any,
    *,
    reference_images: Any = (),
    reference_video: Any = None,
    reference_video_fps: float | None = None,
    reference_audio: Audio | None = None,
) -> list[Any]:
    from diffusers.modular_pipelines.minimax_h3.references import (
        MiniMaxH3AudioReference,
        MiniMaxH3ImageReference,
        MiniMaxH3VideoReference,
    )

    pictures = reference_images if isinstance(reference_images, list | tuple) else [reference_images]
    made: list[Any] = [MiniMaxH3ImageReference(image=each) for each in pictures]
    if reference_video is not None:
        made.append(MiniMaxH3VideoReference(frames=reference_video, fps=reference_video_fps))
    if reference_audio is not None:
        if len(reference_audio.waveform) != 1:
            raise ValueError(f"reference_audio holds {len(reference_audio.waveform)} sounds; it takes one: give one")
        made.append(MiniMaxH3AudioReference(audio=resampled(reference_audio, rate_of(pipe))[0]))  # C S
    return made
