"""Which pipelines the installed diffusers has today for the transformers that the project splits."""

import inspect
import re
import warnings

import diffusers
from diffusers import DiffusionPipeline

from latentloom.pipelines.split_plans import SPLIT_PLANS


def live_pipelines() -> dict[str, type[DiffusionPipeline]]:
    """By name; without those that diffusers calls deprecated. Imports all of diffusers: about ten seconds."""
    with warnings.catch_warnings(action="ignore"):  # old parts of diffusers use what torch has deprecated
        found = {name: getattr(diffusers, name) for name in dir(diffusers)}
    return {name: kind for name, kind in found.items() if _is_pipeline(kind) and transformers_of(kind)}


def transformers_of(pipeline: type[DiffusionPipeline]) -> set[str]:
    """The classes with a split plan among those that its constructor takes for a transformer."""
    parameters = inspect.signature(pipeline.__init__).parameters.values()
    hints = [str(parameter.annotation) for parameter in parameters if parameter.name.startswith("transformer")]
    return {word for hint in hints for word in re.findall(r"\w+", hint)} & SPLIT_PLANS.keys()


def _is_pipeline(kind: object) -> bool:
    return inspect.isclass(kind) and issubclass(kind, DiffusionPipeline) and ".deprecated." not in kind.__module__
