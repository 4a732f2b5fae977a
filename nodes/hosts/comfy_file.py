"""ComfyUI's API format: export to it, and import from it. A node's type is its class type there.

A link there is [node id, output index], so lists and objects that are plain values are wrapped in `__value__`. Params
become their values; outputs and layout have no place there. What is muted or bypassed is left out, as ComfyUI does.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ..graph.graph import Graph, Link, graph_from_plain
from ..graph.problems import GraphError, Problem, parse_json, refuse, short
from ..graph.ready import Ready
from ..graph.resolve import plain_value
from ..graph.scalars import as_type
from ..graph.spec import ARGUMENTS, InputSpec, NodeSpec, Specs

WRAP = "__value__"
OURS = " (latentloom)"  # behind the titles of nodes that ComfyUI has one of its own of, on its page only
UI_FORMAT = "this is ComfyUI's file for its own editor; in ComfyUI use Workflow > Export (API) and give that file"


def to_comfy(ready: Ready) -> dict[str, Any]:
    """The prompt that ComfyUI runs. The workflow must be checked. What files say of a node's sockets is left out, as
    the node asks its files there. Raises `GraphError` for a wire to an input that a node
    does not always have, and has no socket for there. Of a node that is unfolded the ids are as ComfyUI's own: `a:b`.
    """
    if ready.unfolding.problems:
        raise GraphError(ready.unfolding.problems)
    return {
        name.replace("/", ":"): {
            "class_type": node.type,
            "inputs": _exported(name, ready),
            "_meta": {**({"title": node.title} if node.title else {}), "version": node.version},
        }
        for name, node in ready.graph.nodes.items()
    }


def from_comfy(prompt: Any, specs: Specs, name: str = "imported") -> Graph:
    """A workflow from a ComfyUI prompt. Raises `GraphError` that names every foreign node."""
    if not isinstance(prompt, dict):
        raise refuse("not_a_prompt", worded("the file holds {}; a ComfyUI prompt is an object of nodes", short(prompt)))
    if isinstance(prompt.get("nodes"), list):
        raise refuse("not_a_prompt", UI_FORMAT)
    if problems := list(_problems(prompt, specs)):
        raise GraphError(problems)
    names = _names(prompt)
    kinds = {key: specs[entry["class_type"]] for key, entry in prompt.items()}
    nodes = {names[key]: _import(names[key], entry, kinds[key], kinds, names) for key, entry in prompt.items()}
    return graph_from_plain({"format": 1, "name": name[:200] or "imported", "nodes": nodes})


def version_of(spec: NodeSpec, inputs: Mapping[str, Any]) -> int:
    """With which version of a node ComfyUI saved it, which does not say so: today's where all inputs are its own, else
    the first. Its editor's files have values without names, which come at whatever socket has their place now."""
    if spec.migrate is None or spec.chooser is not None:
        return spec.version
    sockets = {name: spec.input(name) for name in inputs}
    strange = (s is None or (s.type == "choice" and type(inputs[name]) is bool) for name, s in sockets.items())
    return 1 if any(strange) else spec.version


def is_comfy(data: Mapping[str, Any]) -> bool:
    """Whether plain data is ComfyUI's API format, or its editor's, which `from_comfy` explains."""
    has_classes = any(isinstance(entry, dict) and "class_type" in entry for entry in data.values())
    return has_classes or isinstance(data.get("nodes"), list)


def read_chunk(text: str) -> Any:
    """The prompt that ComfyUI wrote into a picture. Its executor leaves marks in there, and any of them may be NaN:
    they are dropped, and what is left is JSON as we read it everywhere. Raises `GraphError`."""
    return parse_json(json.dumps(without_marks(parse_json(text, takes_nan=True))))


def without_marks(prompt: Any) -> Any:
    """A prompt without what ComfyUI's executor notes at its nodes."""
    if not isinstance(prompt, dict):
        return prompt
    return {
        key: {name: value for name, value in entry.items() if name != "is_changed"}
        if isinstance(entry, dict)
        else entry
        for key, entry in prompt.items()
    }


def _exported(name: str, ready: Ready) -> dict[str, Any]:
    spec, known = ready.types[ready.graph.nodes[name].type], ready.specs[name]
    entries, params = ready.inputs_as_written(name), ready.params
    if spec.chooser is None:
        return {key: _export(entry, spec.input(key), ready) for key, entry in entries.items()}
    fixed = {socket.name for socket in fixed_inputs(spec)}
    if lost := next((key for key, entry in entries.items() if isinstance(entry, Link) and key not in fixed), ""):
        message = f"{lost} comes by a wire, which {spec.title} has no socket for in ComfyUI; write its value"
        raise refuse("no_socket", message, node=name, socket=lost)
    links = {key: entry for key, entry in entries.items() if isinstance(entry, Link)}
    plain = {key: plain_value(entry, params) for key, entry in entries.items() if key not in links}
    typed = {key: as_type(socket.type, plain[key]) for key in plain if (socket := known.input(key)) is not None}
    wired = {key: _export(entry, None, ready) for key, entry in links.items()}
    return {**wired, **folded(spec, {**plain, **typed})}


def _export(entry: Any, socket: InputSpec | None, ready: Ready) -> Any:
    if isinstance(entry, Link):
        outputs = [output.name for output in ready.types[ready.graph.nodes[entry.node].type].outputs]
        return [entry.node.replace("/", ":"), outputs.index(entry.socket)]
    value = plain_value(entry, ready.params)
    value = as_type(socket.type, value) if socket else value
    return {WRAP: value} if isinstance(value, list | dict) else value


def _problems(prompt: Mapping[str, Any], specs: Specs) -> Iterator[Problem]:
    for key, entry in prompt.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("class_type"), str):
            yield Problem(key[:64], "", "not_a_node", f"it is {short(entry)}; a node has a class_type and inputs")
        elif entry["class_type"] not in specs:
            message = f"node type {short(entry['class_type'])} is not ours; take it out in ComfyUI and export again"
            yield Problem(key[:64], "", "unknown_type", message)
        elif not isinstance(entry.get("inputs", {}), dict):
            yield Problem(key[:64], "", "not_a_node", f"its inputs are {short(entry['inputs'])}; they are an object")


def _names(prompt: Mapping[str, Any]) -> dict[str, str]:
    """ComfyUI's ids are mostly numbers; ours are names. Ids that are names stay as they are."""
    legal = {key for key in prompt if re.fullmatch(r"[a-z][a-z0-9_]{0,63}", key)}
    names, taken = {}, set(legal)
    for number, key in enumerate(prompt):
        if key in legal:
            names[key] = key
            continue
        name = "n" + re.sub(r"[^a-z0-9_]", "_", key.lower())[:40]
        names[key] = f"{name}_{number}" if name in taken else name
        taken.add(names[key])
    return names


def _import(name: str, entry: Mapping[str, Any], spec: NodeSpec, kinds: Specs, names: Mapping[str, str]) -> Any:
    meta = entry.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    version, title, given = meta.get("version"), meta.get("title", ""), entry.get("inputs", {})
    inputs = {
        socket: _import_input(name, socket, value, kinds, names)
        for socket, value in given.items()
        if spec.chooser is None or socket != ARGUMENTS
    }
    if spec.chooser is not None:
        try:
            inputs = unfolded(spec, {**inputs, ARGUMENTS: given.get(ARGUMENTS, "")})
        except ValueError as error:
            raise refuse("bad_arguments", str(error), node=name, socket=ARGUMENTS) from None
    return {
        "type": spec.id,
        "version": version if type(version) is int and version > 0 else version_of(spec, inputs),
        "title": title[:200] if isinstance(title, str) and title != spec.title + OURS else "",
        "inputs": inputs,
    }


def _import_input(name: str, socket: str, value: Any, kinds: Specs, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {"value": value.get(WRAP, value) if len(value) == 1 else value}
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and type(value[1]) is int):
        return value
    source, index = value
    if source not in kinds:
        message = f"comes from node {short(source)}, which is not there"
        raise refuse("unknown_node", message, node=name, socket=socket)
    outputs = kinds[source].outputs
    if not 0 <= index < len(outputs):
        message = f"comes from output {index} of {names[source]}, which has {len(outputs)}; link one of those"
        raise refuse("unknown_output", message, node=name, socket=socket)
    return {"from": f"{names[source]}.{outputs[index].name}"}


# ---- Nodes whose sockets depend on what is given at some of them: here they always have the same ones.


def fixed_inputs(spec: NodeSpec) -> tuple[InputSpec, ...]:
    """A node's sockets in ComfyUI."""
    return (*spec.inputs, *spec.chooser.fixed) if spec.chooser else spec.inputs


def folded(spec: NodeSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of any of a node's sockets, for those that it has in ComfyUI."""
    if spec.chooser is None:
        return dict(values)
    fixed = {socket.name for socket in fixed_inputs(spec)}
    rest = {name: value for name, value in values.items() if name not in fixed}
    kept = {name: value for name, value in values.items() if name in fixed}
    return {**kept, ARGUMENTS: json.dumps(rest)} if rest else kept


def unfolded(spec: NodeSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `folded`; a text that is empty at a socket of the host counts as not given. Raises
    `ValueError`."""
    if spec.chooser is None:
        return dict(values)
    fixed = {socket.name for socket in spec.chooser.fixed}
    kept = {name: value for name, value in values.items() if name != ARGUMENTS and (name not in fixed or value != "")}
    text = values.get(ARGUMENTS) or "{}"
    try:
        rest = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        rest = None
    if not isinstance(rest, dict):
        raise BadInput('{} is {}; write a JSON object of sockets, such as {{"height": 512}}', ARGUMENTS, short(text))
    if twice := next((name for name in rest if name in kept), None):
        raise BadInput("{} is given by its own socket and in {}; leave one of them out", twice, ARGUMENTS)
    return {**kept, **rest}
