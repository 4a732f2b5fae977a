"""Pipelines that make a safety checker of their own, from a package and files that this project does not bring.

NVIDIA's licence of the Cosmos models forbids to run them without it. So there is no way to: what a model's folder says
of the checker is not read, and a class whose package or files are not here is refused at `check`. With both here it is
made and runs as the package has it, without a network.
"""

import importlib.util
from collections.abc import Mapping
from typing import Any

from ..models.source import find_snapshot
from ..signatures.table import Signature, class_names, signature_of

PACKAGE = "cosmos_guardrail"
FILES = ("nvidia/Cosmos-1.0-Guardrail", "Qwen/Qwen3Guard-Gen-0.6B")  # the hub's models that it loads when it is made
SWITCHES = ("enable_safety_checker",)  # what a folder could say so that none is made


def why_no_guard(signature: Signature) -> str:
    """What is missing here of the safety checker that this class makes, with what brings it; "" where nothing is."""
    if not signature.guard:
        return ""
    gone = {f"the files of {each}": f"hf download {each}" for each in FILES if find_snapshot(each) is None}
    if importlib.util.find_spec(PACKAGE) is None:
        gone = {f"the package {PACKAGE}": f"pip install {PACKAGE}", **gone}
    remedy = ", then ".join(f"`{each}`" for each in gone.values())
    told = f"{signature.name} runs only with its safety checker, and not here are {', '.join(gone)}; run {remedy}"
    return told if gone else ""


def without_guard(name: str, index: Mapping[str, Any]) -> dict[str, Any]:
    """What a folder's index says to a class of this name, but for what it says of a safety checker."""
    guard = signature_of(name).guard if name in class_names() else ()
    return {key: value for key, value in index.items() if not guard or key not in (*guard, *SWITCHES)}
