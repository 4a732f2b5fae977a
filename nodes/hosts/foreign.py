"""What pictures of other programs say of how they were made: ComfyUI, A1111 and its kin, InvokeAI, SwarmUI.

It is read and shown, and nothing of it is ever run. Whatever such a text says is bounded, and what is not understood is
left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...pipelines.models.json_file import JsonFault
from ..files.picture_files import opened, read_metadata
from ..graph.problems import GraphError
from .comfy_graph import back, graph_of, object_in, said

MAX_CHARACTERS = 20_000
"""Of a prompt; of anything else `MAX_WORD`."""
MAX_WORD = 300
MAX_MORE = 40
MAX_CHUNK = 1 << 20
"""Characters of a text that is looked at."""
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
    picture.
    """
    texts = {key: text for key, text in _texts(path).items() if len(text) <= MAX_CHUNK}
    for read in READERS:
        try:
            if found := read(texts):
                return found
        except (GraphError, JsonFault, ValueError, RecursionError):  # no text of this program after all, or damaged
            continue
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
    "seed": "Seed",
    "steps": "Steps",
    "sampler": "Sampler",
    "scheduler": "Schedule type",
    "model": "Model",
    "strength": "Denoising strength",
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
    told = object_in(texts.get("invokeai_metadata", ""))
    if not told and "sd-metadata" in texts:
        outer = object_in(texts["sd-metadata"])
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
    told = _inner(object_in(texts.get("parameters", "")), "sui_image_params")
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


# ComfyUI: the graph that was run, from which the values nearest to the picture are taken

COMFY = {
    "seed": ("seed", "noise_seed"),
    "steps": ("steps",),
    "guidance": ("guidance", "cfg", "cfg_scale"),
    "sampler": ("sampler_name",),
    "scheduler": ("scheduler",),
    "model": ("ckpt_name", "unet_name", "model_name", "gguf_name"),
    "strength": ("denoise",),
    "width": ("width",),
    "height": ("height",),
}


def _comfy(texts: Texts) -> Foreign | None:
    nodes, kinds = graph_of(texts)
    if not nodes:
        return None
    ends = [name for name, kind in kinds.items() if "save" in kind.lower() or "preview" in kind.lower()]
    near = list(back(nodes, ends or list(nodes)[-1:], lambda name: True))

    def first(*keys: str) -> Any:
        found = (nodes[name][key] for name in near for key in keys if key in nodes[name])
        return next((value for value in found if not isinstance(value, list | dict)), None)

    loras = dict.fromkeys(nodes[n]["lora_name"] for n in near if isinstance(nodes[n].get("lora_name"), str))
    own = {name: first(*keys) for name, keys in COMFY.items()}
    own["prompt"] = said(nodes, near, "positive", "conditioning", "guider")
    own["negative_prompt"] = said(nodes, near, "negative")
    return _foreign("ComfyUI", own, [*loras])


READERS: tuple[Callable[[Texts], Foreign | None], ...] = (_invoke, _swarm, _a1111, _comfy)


def _inner(plain: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = plain.get(key)
    return found if isinstance(found, dict) else {}


def _more(told: Mapping[str, Any]) -> dict[str, str]:
    plain = {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
    return {_word(key): _word(value) for key, value in list(plain.items())[:MAX_MORE] if value}


def _text(value: object) -> str:
    return _shown(value)[:MAX_CHARACTERS]


def _word(value: object) -> str:
    return _shown(value)[:MAX_WORD]


def _shown(value: object) -> str:
    """Without what steers a terminal or a page."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


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


BOUNDED: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("prompt", "negative_prompt"), _text),
    **dict.fromkeys(("seed", "steps", "width", "height"), _whole),
    **dict.fromkeys(("guidance", "strength"), _number),
    **dict.fromkeys(("sampler", "scheduler"), _word),
    "model": _named,
}
"""How what is said of each is read."""
