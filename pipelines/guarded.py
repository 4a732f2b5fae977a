"""Models that are run with a safety checker, from a package and files that this project does not bring.

NVIDIA's licence of the older Cosmos models forbids to run them without it. So there is no way to: what a model's folder
says of the checker is not read, and a class whose package or files are not here is refused at `check`. With both here
it is made and runs as the package has it, without a network. Cosmos 3 came out under OpenMDW 1.1, which asks for none,
though diffusers' documents do: it is checked, unless whoever owns the machine, and answers for it, has left that out.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..parallel.errors import BadInput
from ..parallel.wording import worded
from .models.source import find_snapshot
from .signatures.table import Signature, class_names, signature_of
from .values import Model, as_bytes

if TYPE_CHECKING:
    from torch import Tensor

PACKAGE = "cosmos_guardrail"
FILES = ("nvidia/Cosmos-1.0-Guardrail", "Qwen/Qwen3Guard-Gen-0.6B")  # the hub's models that it loads when it is made
SWITCHES = ("enable_safety_checker",)  # what a folder could say so that none is made
# Of the environment, which ranks inherit: 0 leaves the checker out where that is a choice.
VARIABLE = "LATENTLOOM_SAFETY_CHECKER"
# Families and classes of which it is one. `why_unguarded`, `passed` and `checked` are for models of these alone.
OWNERS = {"cosmos_3": "Cosmos3OmniPipeline"}


def why_no_guard(signature: Signature) -> str:
    """What is missing here of the safety checker that this class makes, with what brings it; "" where nothing is."""
    return _why_none(signature.name) if signature.guard else ""


def why_unguarded(model: Model) -> str:
    """What is missing here of the safety checker that the model's family has; "" where nothing is."""
    return _why_none(OWNERS[model.family])


def _why_none(name: str) -> str:
    gone = {f"the files of {each}": f"hf download {each}" for each in FILES if find_snapshot(each) is None}
    if importlib.util.find_spec(PACKAGE) is None:
        gone = {f"the package {PACKAGE}": f"pip install {PACKAGE}", **gone}
    remedy = ", then ".join(f"`{each}`" for each in gone.values())
    told = f"{name} runs only with its safety checker, and not here are {', '.join(gone)}; run {remedy}"
    if name in OWNERS.values():
        told += f", or start latentloom with {VARIABLE}=0 if this machine is yours and you answer for what it makes"
    return told if gone and not _is_left_out(name) else ""


def without_guard(name: str, index: Mapping[str, Any]) -> dict[str, Any]:
    """What a folder's index says to a class of this name, but for what it says of a safety checker."""
    guard = signature_of(name).guard if name in class_names() else ()
    found = {key: value for key, value in index.items() if not guard or key not in (*guard, *SWITCHES)}
    return found | dict.fromkeys(SWITCHES, False) if _is_left_out(name) else found


def _is_left_out(name: str) -> bool:
    return name in OWNERS.values() and os.environ.get(VARIABLE) == "0"


def passed(model: Model, prompt: str) -> str:
    """The prompt. ValueError for one that the checker of the model's family refuses."""
    with _checker(model) as checker:
        if checker is not None and not checker.check_text_safety(prompt):
            raise BadInput("the safety checker of {} refuses this prompt; write another", model.source)
    return prompt


def checked(model: Model, clips: Tensor) -> Tensor:
    """Clips B F H W C as the checker of the model's family leaves them, which hides faces: frames in which it changes
    nothing keep their bits. ValueError for a clip that it refuses."""
    import torch

    with _checker(model) as checker:
        for clip in clips if checker is not None else ():
            seen = as_bytes(clip)
            found = checker.check_video_safety(seen.numpy().copy())
            if found is None:
                told = worded("the safety checker of {} refuses this video; write another prompt", model.source)
                raise ValueError(told)
            changed = ((made := torch.from_numpy(found)) != seen).flatten(1).any(1)
            clip[changed] = made[changed] if clip.dtype == torch.uint8 else made[changed] / 255
    return clips


@contextmanager
def _checker(model: Model) -> Iterator[Any]:
    """On the model's device meanwhile; None where it is left out."""
    if _is_left_out(OWNERS[model.family]):
        yield None
        return
    try:
        _made().to(model.device)
        yield _made()
    finally:
        _made().to("cpu")


@functools.cache
def _made() -> Any:
    from .components.building import offline

    with offline():
        return importlib.import_module(PACKAGE).CosmosSafetyChecker()
