"""A graph that ComfyUI wrote into a picture, read backwards from its end: inputs by node, and the texts they are given.

It is a stranger's: nothing of it is run, and what is not understood is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...pipelines.models.json_file import parse_strict
from .comfy_file import read_chunk

MAX_NODES = 2000
TEXTS = ("text", "text_g", "t5xxl", "clip_l", "prompt", "string", "value")
WIDGETS = {
    "KSampler": ("seed", "", "steps", "cfg", "sampler_name", "scheduler", "denoise"),
    "KSamplerAdvanced": ("", "noise_seed", "", "steps", "cfg", "sampler_name", "scheduler"),
    "RandomNoise": ("noise_seed",),
    "BasicScheduler": ("scheduler", "steps", "denoise"),
    "KSamplerSelect": ("sampler_name",),
    "FluxGuidance": ("guidance",),
    "CLIPTextEncode": ("text",),
    "EmptyLatentImage": ("width", "height"),
    "EmptySD3LatentImage": ("width", "height"),
    "CheckpointLoaderSimple": ("ckpt_name",),
    "UNETLoader": ("unet_name",),
    "LoraLoader": ("lora_name",),
    "LoraLoaderModelOnly": ("lora_name",),
}
"""What the values of ComfyUI's own nodes are called, which its editor's file tells by their order only."""

Nodes = Mapping[str, Mapping[str, Any]]
"""Inputs by node; a wire is [node, output]."""


def graph_of(texts: Mapping[str, str]) -> tuple[Nodes, dict[str, str]]:
    """The nodes' inputs, and their classes."""
    if "prompt" in texts and isinstance(prompt := read_chunk(texts["prompt"]), dict):
        entries = {str(key): entry for key, entry in list(prompt.items())[:MAX_NODES] if isinstance(entry, dict)}
        inputs = {key: entry["inputs"] for key, entry in entries.items() if isinstance(entry.get("inputs"), dict)}
        if inputs:
            return inputs, {key: str(entries[key].get("class_type", "")) for key in inputs}
    plain = object_in(texts.get("workflow", ""))
    nodes, links = plain.get("nodes"), plain.get("links")
    if not isinstance(nodes, list):
        return {}, {}
    ends = {link[0]: [str(link[1]), link[2]] for link in links or () if isinstance(link, list) and len(link) > 4}
    entries = {str(node["id"]): node for node in nodes[:MAX_NODES] if isinstance(node, dict) and "id" in node}
    return {key: _inputs_of(node, ends) for key, node in entries.items()}, {
        key: str(node.get("type", "")) for key, node in entries.items()
    }


def _inputs_of(node: Mapping[str, Any], ends: Mapping[Any, list[Any]]) -> dict[str, Any]:
    values, sockets = node.get("widgets_values"), node.get("inputs")
    names = WIDGETS.get(str(node.get("type")), ())
    told = dict(zip(names, values, strict=False)) if isinstance(values, list) else {}
    wires = [each for each in sockets if isinstance(each, dict)] if isinstance(sockets, list) else []
    linked = {str(each.get("name")): each["link"] for each in wires if isinstance(each.get("link"), int)}
    return {**told, **{name: ends[link] for name, link in linked.items() if link in ends}}


def back(nodes: Nodes, starts: list[str], goes: Callable[[str], bool]) -> Iterator[str]:
    """Nodes from these back along wires, the nearest first, by inputs that one `goes`."""
    seen, waiting = set(starts), list(starts)
    for name in waiting:
        yield name
        for key, value in nodes[name].items():
            source = _source(value)
            if source in nodes and source not in seen and goes(key):
                seen.add(source)
                waiting.append(source)


def _source(value: object) -> str:
    """The node that a wire comes from; "" for a plain value."""
    return value[0] if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) else ""


def said(nodes: Nodes, near: list[str], *sockets: str) -> str:
    """The text that reaches the first of these sockets."""
    for name in near:
        for socket in sockets:
            start = _source(nodes[name].get(socket))
            if start not in nodes:
                continue
            for each in back(nodes, [start], lambda key: key != "negative" or "negative" in sockets):
                texts = [nodes[each].get(key) for key in TEXTS]
                if found := next((text for text in texts if isinstance(text, str) and text.strip()), ""):
                    return found
    return ""


def object_in(text: str) -> dict[str, Any]:
    found = parse_strict(text.encode()) if text.lstrip().startswith("{") else {}
    return found if isinstance(found, dict) else {}
