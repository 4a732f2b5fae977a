"""A workflow as Python has it: read, built by calling nodes, written, compared.

While it is built a call of a node runs nothing: the workflow gets a node, and the caller a `Wire` in place of what the
node will give. It has the type of that for who checks types, and goes where that would go.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from ...parallel.progress import SILENT
from ..execution.schedule import needs_of
from ..files.atomic import write_atomic
from ..files.workspace import Workspace
from ..graph import graph as form
from ..graph.graph import Graph, Link, ParamRef
from ..graph.problems import parse_json, short
from ..graph.ready import ready
from ..graph.resolve import Resolved
from ..graph.scalars import LISTS, PLAIN_TYPES, can_feed
from ..graph.spec import SCALARS, InputSpec, NodeSpec
from ..headless.workflow_files import graph_of, read_workflow, shipped_files
from ..registry import SPECS
from ..steps.arguments import BUILDING, MAKERS, argument, check_names

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Wire:
    """What stands for a value that is known only in a run: a node's output, a param, or an element of a list."""

    workflow: Workflow
    entry: Any  # a link, a reference to a param, or a list
    type: str
    is_each: bool = False

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.type} of the workflow {self.workflow.name!r}: its {name} is known only in a run")

    def _refuse(self, *_: str) -> NoReturn:
        words = "known only in a run; choose by the node switch, and make texts of it by format_text"
        raise ValueError(f"a {self.type} of the workflow {self.workflow.name!r} is {words}")

    __bool__ = __format__ = _refuse


class Workflow:
    """Nodes, their values and wires, params and outputs; what a file holds.

    In its `with` block each call of a node function adds that node. Its files may be read from anywhere where it was
    built, as the caller's own code says so; one that was read has its own folder and the present one.
    """

    def __init__(self, name: str, *, description: str = "") -> None:
        self.graph = Graph(name=name, description=description, nodes={})
        self.file: Path | None = None  # where it was read
        self._blocks: list[Token[Callable[..., Any] | None]] = []

    @classmethod
    def read(cls, source: Path | str) -> Workflow:
        """Of a file, ours or ComfyUI's, a picture, video or sound that carries one, or of the name of a template.

        Raises `ValueError`.
        """
        path = Path(source)
        if isinstance(source, str) and not path.is_file():
            path = next((file for file in shipped_files() if file.stem == source), path)
        return cls._of(read_workflow(path), path)

    @classmethod
    def from_text(cls, text: str | bytes) -> Workflow:
        """Of the text of a file, ours or ComfyUI's. Raises `ValueError`."""
        return cls.from_plain(parse_json(text))

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Workflow:
        """Of what JSON holds, ours or ComfyUI's. Raises `ValueError`."""
        return cls._of(graph_of(plain, name="workflow"), Path("workflow.json"))

    @classmethod
    def _of(cls, graph: Graph, file: Path) -> Workflow:
        made = cls(graph.name)
        made.graph, made.file = graph, file
        return made

    @property
    def name(self) -> str:
        return self.graph.name

    def __str__(self) -> str:
        """The text of its file."""
        return form.graph_text(self.graph)

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r}, {len(self.graph.nodes)} nodes>"

    def write(self, path: Path | str) -> Path:
        """Write its file, whole or not at all. Raises `ValueError`."""
        write_atomic(Path(path), str(self).encode())
        return Path(path)

    def diff(self, other: Workflow) -> str:
        """What `other` has more (+), has not (-) and has changed (~), a line each; empty where both do the same."""
        return "\n".join(_differences(_meaning(self.graph), _meaning(other.graph)))

    def steps(self, *, out: Path | str = "output") -> list[Step]:
        """The nodes that a run needs, each after those that feed it, for a program that runs them itself and keeps
        what they give. Files go into the folder `out`. Raises `ValueError` for a workflow that cannot run."""
        workspace = Workspace(output_dir=Path(out))
        needs = needs_of(ready(self.graph, SPECS, workspace=workspace))
        return [Step(name=name, nodes=needs.nodes, workspace=workspace) for name in needs.order]

    # ---- Building

    def __enter__(self) -> Workflow:
        self._blocks.append(BUILDING.set(self.add))
        return self

    def __exit__(self, *_: object) -> None:
        BUILDING.reset(self._blocks.pop())

    def add(self, node: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """A node, called as its function; for those from outside, whose functions know of no workflow. Any other
        function is called once, and the nodes that it calls become a sub-workflow, with a param for each argument.

        Raises as the function does for what an input does not take, and `ValueError` for what no file can hold.
        """
        spec = next((each for each in SPECS.values() if each.call is node), None)
        if spec is None:
            return self._add_sub(node, args, kwargs)
        given = _given(spec, args, kwargs)
        plain = {name: value for name, value in given.items() if not isinstance(value, Wire)}
        chosen = (spec.chooser.choose(plain) if spec.chooser else None) or spec
        if chosen is not spec:
            check_names(spec.call, given, [each.name for each in chosen.inputs])
        outputs = {each.name: (chosen.output(each.name) or each).type for each in spec.outputs}
        return self._added(form.Node(type=spec.id, version=spec.version), spec.call.__name__, chosen, given, outputs)

    def _add_sub(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        given = inspect.signature(call).bind(*args, **kwargs).arguments
        types = {name: value.type if isinstance(value, Wire) else _kind(value, name) for name, value in given.items()}
        inner = Workflow(_named(call.__name__))
        inner.graph = inner.graph.model_copy(update={"subs": self.graph.subs})  # whose names are taken
        with inner:
            made = call(**{name: Wire(inner, ParamRef(param=name), type) for name, type in types.items()})
        wires = made if isinstance(made, tuple) else () if made is None else (made,)
        for wire in wires:
            inner.output("", wire)
        own = inner.graph
        params = {name: form.SubParam(type=type) for name, type in types.items()}
        sub = form.Sub(params=params, nodes=own.nodes, outputs=own.outputs)
        name = _free_name(own.name, [name for name, each in own.subs.items() if each != sub])
        self.graph = self.graph.model_copy(update={"subs": {**own.subs, name: sub}})
        outputs = {wire.entry.socket: wire.type for wire in wires}
        return self._added(form.Node(type=f"{form.SUB}{name}"), call.__name__, None, given, outputs)

    def _added(
        self, node: form.Node, base: str, spec: NodeSpec | None, given: Mapping[str, Any], outputs: Mapping[str, str]
    ) -> Any:
        """The node with what was given to it, and what stands for what it will give."""
        name = _free_name(base, self.graph.nodes)
        entries = {each: self._entry(spec.input(each) if spec else None, each, value) for each, value in given.items()}
        each = {name: entries.pop(name) for name, value in given.items() if isinstance(value, Wire) and value.is_each}
        node = node.model_copy(update={"inputs": entries, "each": each})
        self.graph = self.graph.model_copy(update={"nodes": {**self.graph.nodes, name: node}})
        wires = [Wire(self, Link.to(name, output), type) for output, type in outputs.items()]
        return tuple(wires) if len(wires) > 1 else wires[0] if wires else None

    def param(
        self,
        name: str,
        default: T,
        *,
        choices: Sequence[str] = (),
        min: float | None = None,
        max: float | None = None,
        help: str = "",
    ) -> T:
        """A value that whoever runs the workflow sets by this name, to be given to nodes. Raises `ValueError`."""
        if name in self.graph.params:
            raise ValueError(f"the workflow has a param {name} already; use what it gave, or another name")
        given = {"type": "choice" if choices else _kind(default, name), "choices": [*choices], "min": min, "max": max}
        made = form.Param.model_validate({**given, "default": default, "help": help})
        self.graph = self.graph.model_copy(update={"params": {**self.graph.params, _named(name): made}})
        return cast(T, Wire(self, ParamRef(param=name), made.type))

    def each(self, elements: Sequence[T]) -> T:
        """One after the other of a list, or of a param that is one: what is given it is there once for each."""
        is_wire = isinstance(elements, Wire)
        type = elements.type if is_wire else _kind([*elements], "each")
        return cast(T, Wire(self, elements.entry if is_wire else [*elements], LISTS[type], is_each=True))

    def output(self, name: str, value: object) -> None:
        """Let a run give what a node gives by this name. Raises `ValueError`."""
        if not isinstance(value, Wire) or not isinstance(value.entry, Link):
            got = f"the output {name}" if name else f"what {self.name} returns"
            raise ValueError(f"{got} is no value of a node of this workflow; give what one of them gave")
        if (name := name or value.entry.socket) in self.graph.outputs:
            raise ValueError(f"the workflow {self.name!r} has an output {name} already; give each a name of its own")
        outputs = {**self.graph.outputs, _named(name): self._own(value).entry}
        self.graph = self.graph.model_copy(update={"outputs": outputs})

    def _entry(self, socket: InputSpec | None, name: str, value: Any) -> Any:
        """What the file says of an input. One without a socket has it by a choice that only files tell."""
        if isinstance(value, Wire):
            gives = self._own(value).type
            if socket and not (can_feed(gives, socket.type) or (gives, socket.type) == ("string", "choice")):
                raise ValueError(f"{name} is given a {gives}; it takes a {socket.type}")
            return value.entry
        if socket and socket.type not in PLAIN_TYPES:
            makers = MAKERS.get(socket.type, "a node")
            raise ValueError(f"{name} takes a {socket.type}, which no file can hold: give what {makers} returns")
        plain = argument(socket, value) if socket else value
        return form.Wrapped(value=plain) if isinstance(plain, dict) else plain

    def _own(self, wire: Wire) -> Wire:
        if wire.workflow is not self:
            raise ValueError(f"a {wire.type} of the workflow {wire.workflow.name!r} is given to {self.name!r}")
        return wire


def _given(spec: NodeSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What was given to a node, by the names of its inputs; None says nothing."""
    try:
        bound = inspect.signature(spec.call).bind(*args, **kwargs)
    except TypeError as error:
        check_names(spec.call, kwargs)
        raise TypeError(f"{spec.call.__name__}: {error}") from None
    given = {**dict(zip(bound.signature.parameters, bound.args, strict=False)), **bound.kwargs}
    if told := next((name for name in spec.injected if name in given), None):
        raise ValueError(f"{told} comes from the run of a workflow; leave it out")
    return {name: value for name, value in given.items() if value is not None}


def _free_name(name: str, taken: Collection[str]) -> str:
    number = 1
    while (found := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return found


def _kind(value: object, name: str) -> str:
    """The type of a plain value, as files name it."""
    first = value[0] if isinstance(value, list) and value else value
    if (kind := SCALARS.get(type(first))) is None:
        raise ValueError(f"{name} is {short(value)}; it takes text, a number, yes or no, or a list of one of these")
    return f"list[{kind}]" if isinstance(value, list) else kind


def _named(name: str) -> str:
    if not re.fullmatch(form.NAME_PATTERN, name):
        raise ValueError(f"{short(name)} is no name; give lower-case letters, digits and _, beginning with a letter")
    return name


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One node of a workflow, to be called with what those before it gave, by their names, and with params."""

    name: str
    nodes: Mapping[str, Resolved] = field(repr=False)
    workspace: Workspace = field(repr=False)

    @property
    def needs(self) -> list[str]:
        """The steps that feed it, and then the params that it takes, but for those that are called as a step is."""
        own = self.nodes[self.name]
        params = [entry.param for entry in own.node.inputs.values() if isinstance(entry, ParamRef)]
        params = [each for each in params if each not in self.nodes]
        return [*dict.fromkeys([*(link.node for link in own.links.values()), *params])]

    def __call__(self, **given: object) -> object:
        """What the node gives, a tuple where it has several outputs, of what it `needs`; a param that is not given has
        the workflow's own value. Raises what the node raises."""
        own = self.nodes[self.name]
        inputs = dict(own.values)
        for name, entry in own.node.inputs.items():
            if isinstance(entry, ParamRef) and entry.param in given and entry.param not in self.nodes:
                inputs[name] = given[entry.param]
        for name, link in own.links.items():
            inputs[name] = self.nodes[link.node].spec.part(given[link.node], link.socket)
        with outside():
            return own.spec.make(inputs, progress=SILENT, workspace=self.workspace)


@contextmanager
def outside() -> Iterator[None]:
    """Within it no workflow is built: the nodes of a run are none of the one around it."""
    before = BUILDING.set(None)
    try:
        yield
    finally:
        BUILDING.reset(before)


# ---- What differs

ENTRIES = {"from", "param", "value"}  # the one key of an input that is no plain value


def _meaning(graph: Graph) -> dict[str, Any]:
    """Plain data without what means nothing to a run."""
    plain = form.graph_to_plain(graph)
    return {key: value for key, value in plain.items() if key not in ("$schema", "format", "layout", "meta")}


def _differences(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    where = ".".join(key for key in path if key not in ("nodes", "inputs"))
    if isinstance(one, dict) and isinstance(other, dict) and not ENTRIES & {*one, *other}:
        for key in dict.fromkeys([*one, *other]):
            yield from _differences(one.get(key, ...), other.get(key, ...), (*path, key))
    elif one is ...:
        yield f"+ {where}: {_shown(other)}"
    elif other is ...:
        yield f"- {where}: {_shown(one)}"
    elif one != other:
        yield f"~ {where}: {_shown(one)} -> {_shown(other)}"


def _shown(value: Any) -> str:
    """Of a node or param its type, of a wire where it comes from."""
    if isinstance(value, dict):
        value = value.get("type") or value.get("from") or value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
