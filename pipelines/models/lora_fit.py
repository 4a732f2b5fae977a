"""Whether a LoRA is made for a model, told from the headers of both, as far as they use the same names."""

from __future__ import annotations

from pathlib import Path

from ..values import Model
from .folder import inspect_components, read_index
from .packed.experts import single_files
from .tensor_file import TensorFile

PREFIX, DOWN, UP = "transformer.", ".lora_A.weight", ".lora_B.weight"
"""How diffusers writes what changes a transformer; other projects' names are converted only when it is loaded."""


def why_of_another(file: TensorFile, model: Model) -> str:
    """Why a LoRA in diffusers' names cannot be the model's, as a sentence; empty where it can, or nobody knows."""
    layers = [
        name[len(PREFIX) : -len(DOWN)] for name in file.tensors if name.startswith(PREFIX) and name.endswith(DOWN)
    ]
    folder = Path(model.folder)
    components = inspect_components(folder, read_index(folder))
    transformer = components.get("transformer")
    if not layers or transformer is None or single_files(model, components):
        return ""
    held = {name: entry.shape for weights in transformer.weights for name, entry in weights.tensors.items()}
    known = [layer for layer in layers if f"{layer}.weight" in held]
    made_for = f"choose a LoRA made for {model.source}"
    if not known:
        return f"LoRA {file.path} changes {layers[0][:200]!r} and the like, which the model has not; {made_for}"
    for layer in known:
        down, up = file.tensors[f"{PREFIX}{layer}{DOWN}"], file.tensors.get(f"{PREFIX}{layer}{UP}")
        shape = held[f"{layer}.weight"]
        if up is not None and len(down.shape) == len(shape) == 2 and (up.shape[0], down.shape[1]) != shape:
            got, right = (" x ".join(map(str, each)) for each in ((up.shape[0], down.shape[1]), shape))
            return f"LoRA {file.path} changes {layer[:200]!r} as one of {got}, and the model's is {right}; {made_for}"
    return ""
