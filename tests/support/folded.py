"""A workflow that goes through a list of prompts by a sub-workflow, for tests and for the session with ComfyUI."""

from collections.abc import Sequence
from typing import Any

from latentloom.nodes.graph.graph import Graph, graph_from_plain

PROMPTS = ("a red star", "a blue ring", "a green cube", "a yellow ball", "two stars", "a red ring", "a cube", "a ball")
MODEL = {"model": {"param": "model"}}
PAINT: dict[str, Any] = {
    "title": "Paint",
    "params": {"model": {"type": "Model"}, "prompt": {"type": "string"}, "steps": {"type": "int", "default": 1}},
    "nodes": {
        "text": {"type": "LoomEncodeText", "inputs": {**MODEL, "prompt": {"param": "prompt"}}},
        "canvas": {"type": "LoomEmptyLatents", "inputs": {**MODEL, "width": 96, "height": 96}},
        "denoise": {
            "type": "LoomDenoise",
            "inputs": {
                **MODEL,
                "conditioning": {"from": "text.conditioning"},
                "latents": {"from": "canvas.latents"},
                "steps": {"param": "steps"},
                "seed": 9,
            },
        },
        "decode": {"type": "LoomDecode", "inputs": {**MODEL, "latents": {"from": "denoise.latents"}}},
    },
    "outputs": {"image": {"from": "decode.image"}},
}


def paintings(prompts: Sequence[str] = PROMPTS, *, steps: int = 1) -> Graph:
    """A picture of each prompt, saved as one batch called `paintings`."""
    model = {"model": {"from": "load_model.model"}}
    save = {"type": "LoomSaveImage", "inputs": {"image": {"from": "paint.image"}, "name": "paintings"}}
    return graph_from_plain(
        {
            "format": 2,
            "name": "paintings",
            "params": {"prompts": {"type": "list[string]", "default": [*prompts]}},
            "nodes": {
                "load_model": {"type": "LoomLoadModel", "inputs": {"source": "builtin:bobbin"}},
                "paint": {
                    "type": "sub:paint",
                    "inputs": {**model, "steps": steps},
                    "each": {"prompt": {"param": "prompts"}},
                },
                "save": save,
            },
            "subs": {"paint": PAINT},
            "outputs": {"pictures": {"from": "save.files"}},
        }
    )
