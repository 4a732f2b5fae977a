"""What pictures of other programs say of how they were made: ComfyUI, A1111 and its kin, InvokeAI, SwarmUI.

It is read and shown, and nothing of it is ever run. Whatever such a text says is bounded, and what is not understood is
left out.
"""

import contextlib
import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...pipelines.models.regular_file import JsonFault, parse_strict
from ..files.picture_files import opened, read_metadata
from ..graph.problems import GraphError
from .comfy_file import read_chunk

MAX_CHARACTERS = 20_000  # of a prompt; of anything else `MAX_WORD`
MAX_WORD = 300
MAX_MORE = 40
MAX_CHUNK = 1 << 20  # characters of a text that is looked at
MAX_SEED = 2**64 - 1
USER_COMMENT, EXIF_IFD, MAKE, MODEL = 0x9286, 0x8769, 0x010F, 0x0110

Texts = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """What a foreign picture says; what it does not is empty."""

    tool: str
    prompt: str = ""
    negative_prompt: str = ""
    seed: int | None = None
    steps: int | None = None
    guidance: float | None = None
    sampler: str = ""
    scheduler: str = ""
    model: str = ""
    loras: tuple[str, ...] = ()
    strength: float | None = None
    width: int | None = None
    height: int | None = None
    more: Mapping[str, str] = field(default_factory=dict[str, str])


def read_foreign(path: Path) -> Foreign | None:
    """What a PNG, JPEG or WebP of another program says; None where it says nothing. Raises `ValueError` for what is no
    picture."""
    texts = {key: text for key, text in _texts(path).items() if len(text) <= MAX_CHUNK}
    for read in READERS:
        # no text of this program after all, or damaged
        with contextlib.suppress(GraphError, JsonFault, ValueError, RecursionError):
            if found := read(texts):
                return found
    return None


def _texts(path: Path) -> dict[str, str]:
    """The chunks of a PNG, else what programs hide in a camera's fields."""
    if texts := read_metadata(path):
        return texts
    with opened(path, max_pixels=None) as picture:
        try:
            exif = picture.getexif()
            fields = {**exif, **exif.get_ifd(EXIF_IFD)}
        except (OSError, SyntaxError, ValueError, KeyError, TypeError, EOFError):
            return {}
    texts = {"parameters": _comment(fields.get(USER_COMMENT))}
    for tag in (MAKE, MODEL):
        key, colon, text = str(fields.get(tag, "")).partition(":")
        if colon and key in ("prompt", "workflow"):
            texts[key] = text
    return {key: text for key, text in texts.items() if text}


def _comment(value: object) -> str:
    if not isinstance(value, bytes):
        return value if isinstance(value, str) else ""
    code, text = value[:8], value[8:]
    if code.startswith(b"UNICODE"):
        return text.decode("utf-16-le" if text[1:2] == b"\0" else "utf-16-be", errors="replace").strip("\0")
    return (text if code.startswith((b"ASCII", b"\0")) else value).decode("utf-8", errors="replace").strip("\0")


def _foreign(tool: str, told: Mapping[str, Any], loras: object, more: Mapping[str, Any] | None = None) -> Foreign:
    """What was told under our names, bounded; what it was not, and what is none of its kind, is left out."""
    read = {name: bounded(told[name]) for name, bounded in BOUNDED.items() if told.get(name) is not None}
    named = tuple(map(_named, loras[:MAX_MORE])) if isinstance(loras, list) else ()
    return Foreign(tool=tool, loras=named, more=_more(more or {}), **read)


# A1111, Forge, SD.Next: a text of lines, the last of them "Steps: 20, Sampler: Euler, ..."

SETTING = re.compile(r'\s*([A-Za-z][\w /-]{0,60}):\s*("(?:\\.|[^"\\])*"|[^,]*)(?:,|$)')
NEGATIVE = "Negative prompt:"
A1111 = {
    **{name: name.capitalize() for name in ("seed", "steps", "sampler", "model")},
    **{"scheduler": "Schedule type", "strength": "Denoising strength"},
}


def _a1111(texts: Texts) -> Foreign | None:
    text = texts.get("parameters", "").strip()
    lines = text.split("\n")
    start = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].startswith("Steps: ")), None)
    if start is None:
        return None
    prompt, _, negative = "\n".join(lines[:start]).partition(NEGATIVE)
    settings = SETTING.findall("\n".join(lines[start:])[:MAX_CHARACTERS])
    told = {key.strip(): value.strip().strip('"') for key, value in settings}
    width, _, height = told.pop("Size", "").partition("x")
    guidance, distilled = told.pop("CFG scale", ""), told.pop("Distilled CFG Scale", "")
    own = {name: told.pop(key, "") for name, key in A1111.items()}
    own |= {"prompt": prompt.strip(), "negative_prompt": negative.strip(), "guidance": distilled or guidance}
    loras = [*dict.fromkeys(re.findall(r"<lora:([^:>]{1,200})", prompt))]
    return _foreign("A1111", {**own, "width": width, "height": height}, loras, told)


# InvokeAI and SwarmUI: an object of their own


def _invoke(texts: Texts) -> Foreign | None:
    told = _object(texts.get("invokeai_metadata", ""))
    if not told and "sd-metadata" in texts:
        outer = _object(texts["sd-metadata"])
        told = {**_inner(outer, "image"), "model": outer.get("model_weights", "")}
    if not told:
        return None
    prompt = told.get("positive_prompt", told.get("prompt", ""))
    if isinstance(prompt, list):
        prompt = ", ".join(str(part.get("prompt", "")) for part in prompt if isinstance(part, dict))
    own = {
        "prompt": prompt,
        "guidance": told.get("cfg_scale", told.get("guidance")),
        "scheduler": told.get("scheduler", told.get("sampler")),
        "sampler": None,
    }
    more = {key: told[key] for key in ("app_version", "generation_mode", "vae", "clip_skip") if key in told}
    return _foreign("InvokeAI", {**told, **own}, told.get("loras"), more)


def _swarm(texts: Texts) -> Foreign | None:
    told = _inner(_object(texts.get("parameters", "")), "sui_image_params")
    if not told:
        return None
    own = {"negative_prompt": told.get("negativeprompt"), "guidance": told.get("cfgscale"), "strength": None}
    return _foreign("SwarmUI", {**told, **own}, told.get("loras"))


def _named(value: object) -> str:
    """A model or LoRA, which newer versions nest."""
    if isinstance(value, dict):
        inner = next((value[key] for key in ("model", "lora") if isinstance(value.get(key), dict)), value)
        return _word(inner.get("name", inner.get("model_name", "")))
    return _word(value)


# ComfyUI: the graph that was run, read backwards from its end; the values nearest to the picture are taken

MAX_NODES = 2000
TEXTS = ("text", "text_g", "t5xxl", "clip_l", "prompt", "string", "value")
# What the values of ComfyUI's own nodes are called, which its editor's file tells by their order only.
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

Nodes = Mapping[str, Mapping[str, Any]]  # inputs by node; a wire is [node, output]
COMFY = {
    **{name: (name,) for name in ("steps", "scheduler", "width", "height")},
    "seed": ("seed", "noise_seed"),
    "guidance": ("guidance", "cfg", "cfg_scale"),
    "sampler": ("sampler_name",),
    "model": ("ckpt_name", "unet_name", "model_name", "gguf_name"),
    "strength": ("denoise",),
}


def _comfy(texts: Texts) -> Foreign | None:
    nodes, kinds = _graph(texts)
    if not nodes:
        return None
    ends = [name for name, kind in kinds.items() if "save" in kind.lower() or "preview" in kind.lower()]
    near = list(_back(nodes, ends or list(nodes)[-1:], lambda name: True))

    def first(*keys: str) -> Any:
        found = (nodes[name][key] for name in near for key in keys if key in nodes[name])
        return next((value for value in found if not isinstance(value, list | dict)), None)

    loras = dict.fromkeys(nodes[n]["lora_name"] for n in near if isinstance(nodes[n].get("lora_name"), str))
    own = {name: first(*keys) for name, keys in COMFY.items()}
    own["prompt"] = _said(nodes, near, "positive", "conditioning", "guider")
    own["negative_prompt"] = _said(nodes, near, "negative")
    return _foreign("ComfyUI", own, [*loras])


def _graph(texts: Mapping[str, str]) -> tuple[Nodes, dict[str, str]]:
    """The nodes' inputs, and their classes."""
    if "prompt" in texts and isinstance(prompt := read_chunk(texts["prompt"]), dict):
        entries = {str(key): entry for key, entry in list(prompt.items())[:MAX_NODES] if isinstance(entry, dict)}
        inputs = {key: entry["inputs"] for key, entry in entries.items() if isinstance(entry.get("inputs"), dict)}
        if inputs:
            return inputs, {key: str(entries[key].get("class_type", "")) for key in inputs}
    plain = _object(texts.get("workflow", ""))
    nodes, links = plain.get("nodes"), plain.get("links")
    if not isinstance(nodes, list):
        return {}, {}
    ends = {link[0]: [str(link[1]), link[2]] for link in links or () if isinstance(link, list) and len(link) > 4}
    entries = {str(node["id"]): node for node in nodes[:MAX_NODES] if isinstance(node, dict) and "id" in node}
    kinds = {key: str(node.get("type", "")) for key, node in entries.items()}
    return {key: _inputs_of(node, ends) for key, node in entries.items()}, kinds


def _inputs_of(node: Mapping[str, Any], ends: Mapping[Any, list[Any]]) -> dict[str, Any]:
    values, sockets = node.get("widgets_values"), node.get("inputs")
    names = WIDGETS.get(str(node.get("type")), ())
    told = dict(zip(names, values, strict=False)) if isinstance(values, list) else {}
    wires = [each for each in sockets if isinstance(each, dict)] if isinstance(sockets, list) else []
    linked = {str(each.get("name")): each["link"] for each in wires if isinstance(each.get("link"), int)}
    return {**told, **{name: ends[link] for name, link in linked.items() if link in ends}}


def _back(nodes: Nodes, starts: list[str], goes: Callable[[str], bool]) -> Iterator[str]:
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


def _said(nodes: Nodes, near: list[str], *sockets: str) -> str:
    """The text that reaches the first of these sockets."""
    for name in near:
        for socket in sockets:
            start = _source(nodes[name].get(socket))
            if start not in nodes:
                continue
            for each in _back(nodes, [start], lambda key: key != "negative" or "negative" in sockets):
                texts = [nodes[each].get(key) for key in TEXTS]
                if found := next((text for text in texts if isinstance(text, str) and text.strip()), ""):
                    return found
    return ""


READERS: tuple[Callable[[Texts], Foreign | None], ...] = (_invoke, _swarm, _a1111, _comfy)


def _object(text: str) -> dict[str, Any]:
    found = parse_strict(text.encode()) if text.lstrip().startswith("{") else {}
    return found if isinstance(found, dict) else {}


def _inner(plain: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = plain.get(key)
    return found if isinstance(found, dict) else {}


def _more(told: Mapping[str, Any]) -> dict[str, str]:
    plain = {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
    return {_word(key): _word(value) for key, value in list(plain.items())[:MAX_MORE] if value}


def _text(value: object, most: int = MAX_CHARACTERS) -> str:
    """Without what steers a terminal or a page."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")[:most]


_word = functools.partial(_text, most=MAX_WORD)


def _whole(value: object) -> int | None:
    number = _number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value <= MAX_SEED else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,20}", value.strip()):
        return whole if (whole := int(value)) <= MAX_SEED else None
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) <= MAX_SEED else None


# How what is said of each is read.
BOUNDED: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("prompt", "negative_prompt"), _text),
    **dict.fromkeys(("seed", "steps", "width", "height"), _whole),
    **dict.fromkeys(("guidance", "strength"), _number),
    **dict.fromkeys(("sampler", "scheduler"), _word),
    "model": _named,
}
