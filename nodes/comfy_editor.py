"""ComfyUI's file for its own editor (litegraph), written from ours: `example_workflows/`, which it offers as templates.

Run `python -m latentloom.nodes.comfy_editor` after a change of `workflows/` or of a node's inputs, and before a
release: it writes `node_list.json`, too, by which ComfyUI-Manager finds our nodes without running us.
"""

import itertools
import json
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from .files.atomic import write_atomic
from .graph.graph import Graph, Link, Node, in_order, read_graph
from .graph.ready import ready
from .graph.resolve import param_values, plain_value
from .graph.scalars import SCALAR_TYPES
from .graph.spec import InputSpec, NodeSpec
from .headless.workflow_files import SHIPPED, shipped_files
from .hosts import comfy_folders
from .hosts.comfy_file import fixed_inputs, folded
from .hosts.comfyui import comfy_type
from .hosts.native.node import NATIVE
from .registry import SPECS

EXAMPLES = Path(__file__).parent.parent / "example_workflows"
NODE_LIST = EXAMPLES.parent / "node_list.json"
SAMPLE = "example.png"  # a picture that comes with ComfyUI, in its input folder: ours, beside a workflow, are not there

MODES = {"run": 0, "mute": 2, "bypass": 4}
WIDTH, GAP = 340, 60
TITLE, ROW, TALL = 30, 26, 110  # pixels of a node's head, of a socket or widget, and of a text of several lines


def editor_file(graph: Graph) -> dict[str, Any]:
    """A checked workflow as ComfyUI's editor saves it. Params become their values; sub-workflows and for-each, which
    that editor has otherwise or not at all, the nodes that they stand for."""
    graph = ready(graph, SPECS).written  # with what is muted, which that editor shows
    numbers = {name: number for number, name in enumerate(graph.nodes, 1)}
    links = _links(graph, numbers)
    sources = {name: {link.node for link in _wires(node).values()} for name, node in graph.nodes.items()}
    places = _places(graph, _columns(graph, sources))
    turns = in_order(sources)

    def node(name: str, node: Node) -> dict[str, Any]:
        spec = SPECS[node.type]
        ends = [
            [link[0] for link in links.values() if link[1:3] == [numbers[name], i]] for i in range(len(spec.outputs))
        ]
        return {
            "id": numbers[name],
            "type": node.type,
            "pos": places[name],
            "size": [WIDTH, _height(spec)],
            "flags": {},
            "order": turns.index(name),
            "mode": MODES[node.mode],
            "inputs": [_slot(socket, links.get((name, socket.name))) for socket in slots(spec)],
            "outputs": [
                {"name": output.name, "type": comfy_type(output.type), "links": own}
                for output, own in zip(spec.outputs, ends, strict=True)
            ],
            **({"title": node.title} if node.title else {}),
            "properties": {"Node name for S&R": node.type},
            "widgets_values": _widget_values(graph, node),
        }

    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"latentloom/{graph.name}")),
        "revision": 0,
        "last_node_id": len(numbers),
        "last_link_id": len(links),
        "nodes": [node(name, each) for name, each in graph.nodes.items()],
        "links": list(links.values()),
        **{"groups": [], "config": {}, "extra": {}, "version": 0.4},
    }


def slots(spec: NodeSpec) -> list[InputSpec]:
    """A node's inputs in its editor's order: those for wires only, then its widgets, which take a wire too."""
    return sorted(_listed(spec), key=is_widget)


def is_widget(socket: InputSpec) -> bool:
    return socket.type in SCALAR_TYPES


def example_text(path: Path) -> str:
    return json.dumps(editor_file(read_graph(path)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _listed(spec: NodeSpec) -> list[InputSpec]:
    """A node's inputs in the order in which `INPUT_TYPES` lists them: what must be given comes first."""
    return sorted(fixed_inputs(spec), key=lambda socket: not socket.required)


def _wires(node: Node) -> dict[str, Link]:
    return {socket: entry for socket, entry in node.inputs.items() if isinstance(entry, Link)}


def _links(graph: Graph, numbers: Mapping[str, int]) -> dict[tuple[str, str], list[Any]]:
    """[link, from node, from output, to node, to input, type] by the node and socket it goes to."""
    links: dict[tuple[str, str], list[Any]] = {}
    for name, node in graph.nodes.items():
        sockets = [socket.name for socket in slots(SPECS[node.type])]
        for socket, wire in sorted(_wires(node).items(), key=lambda item: sockets.index(item[0])):
            outputs = SPECS[graph.nodes[wire.node].type].outputs
            output = [each.name for each in outputs].index(wire.socket)
            end, kind = [numbers[name], sockets.index(socket)], comfy_type(outputs[output].type)
            links[name, socket] = [len(links) + 1, numbers[wire.node], output, *end, kind]
    return links


def _slot(socket: InputSpec, link: list[Any] | None) -> dict[str, Any]:
    is_list = socket.type == "choice" or socket.widget in comfy_folders.KINDS
    kind = "COMBO" if is_list else comfy_type(socket.type)
    slot: dict[str, Any] = {"name": socket.name, "type": kind, "link": link and link[0]}
    if not socket.required:
        slot["shape"] = 7  # a hollow circle: may stay empty
    return slot | ({"widget": {"name": socket.name}} if is_widget(socket) else {})


def _widget_values(graph: Graph, node: Node) -> list[Any]:
    """In the order of `INPUT_TYPES`; behind each seed what becomes of it after a run."""
    params, values = param_values(graph, {}), list[Any]()
    plain = {key: plain_value(entry, params) for key, entry in node.inputs.items() if not isinstance(entry, Link)}
    given = folded(SPECS[node.type], plain)
    for socket in filter(is_widget, _listed(SPECS[node.type])):
        value = given.get(socket.name, socket.default)
        if socket.widget in ("picture", "mask"):
            # what another workflow made is called so in ComfyUI's output folder; ours, which ship, are not there
            is_made = value and not any(SHIPPED.glob(f"*/{value}"))
            value = str(Path(value).with_stem(f"{Path(value).stem}_{1:05}_")) if is_made else SAMPLE
        values += [value, "fixed"] if socket.widget == "seed" else [value]
    return values


def _height(spec: NodeSpec) -> int:
    inputs = fixed_inputs(spec)
    widgets = [socket for socket in inputs if is_widget(socket)]
    rows = max(len(inputs) - len(widgets), len(spec.outputs)) + len(widgets)
    rows += sum(socket.widget == "seed" for socket in widgets)
    return TITLE + ROW * rows + TALL * sum(socket.widget == "multiline" for socket in widgets)


def _columns(graph: Graph, sources: Mapping[str, Collection[str]]) -> dict[str, tuple[int, int]]:
    """(column, row) of each node by our layout; of a workflow without one, a column behind the last that feeds it."""
    if graph.nodes.keys() <= graph.layout.keys():
        return {name: cast("tuple[int, int]", tuple(cast("list[int]", graph.layout[name]))) for name in graph.nodes}
    found: dict[str, tuple[int, int]] = {}
    for row, name in enumerate(in_order(sources)):
        found[name] = (1 + max((found[each][0] for each in sources[name]), default=0), row)
    return found


def _places(graph: Graph, columns: Mapping[str, tuple[int, int]]) -> dict[str, list[int]]:
    """The columns, as wide and as tall as nodes are there."""
    places: dict[str, list[int]] = {}
    ranked = sorted(columns, key=lambda name: columns[name])
    for column, (_, names) in enumerate(itertools.groupby(ranked, key=lambda name: columns[name][0])):
        top = 0
        for name in names:
            places[name] = [column * (WIDTH + GAP), top]
            top += TITLE + _height(SPECS[graph.nodes[name].type]) + GAP
    return places


if __name__ == "__main__":
    for file in shipped_files():
        write_atomic(EXAMPLES / file.name, example_text(file).encode())
    functions = {id: spec.call.__name__ for id, spec in SPECS.items() if not spec.origin}
    functions |= {id: kind.FUNCTION for id, kind in NATIVE.items()}
    write_atomic(NODE_LIST, (json.dumps(functions, indent=1) + "\n").encode())
