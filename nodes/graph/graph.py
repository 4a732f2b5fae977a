"""The workflow file, formats 1 and 2: what it holds, reading it and writing it, and the order of its nodes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, ValidationError
from pydantic.json_schema import WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from ...parallel.wording import worded
from .problems import GraphError, Names, Problem, parse_json, read_bytes, refuse, short

FORMAT = 2  # format 1 has no sub-workflows, lists and for-each; a file that has none of them is still written as that
MAX_NODES = 10_000
MAX_META_BYTES = 64 << 10  # the most bytes of `meta`, which travels in every picture that the workflow makes

TYPE_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,127}$"
SUB = "sub:"  # before the name of a sub-workflow of the file, where a node's type stands
NAME_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Target = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}\.[a-z][a-z0-9_]{0,63}$")]
Package = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$")]
Scalar = bool | int | float | str
Mode = Literal["run", "mute", "bypass"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Link(_Part):
    """`{"from": "node.socket"}`: another node's output."""

    source: Target = Field(validation_alias="from", serialization_alias="from")

    @classmethod
    def to(cls, node: str, socket: str) -> Link:
        return cls.model_validate({"from": f"{node}.{socket}"})

    @property
    def node(self) -> str:
        return self.source.partition(".")[0]

    @property
    def socket(self) -> str:
        return self.source.partition(".")[2]


class ParamRef(_Part):
    """`{"param": "name"}`: the value of one of the workflow's parameters."""

    param: Name


class Wrapped(_Part):
    """`{"value": ...}`: a value as it is, even where it looks like a link."""

    value: JsonValue


def _kind(value: Any) -> str | None:
    """Which of the forms of an input it is: a link, a param and a value are the one key of an object."""
    if isinstance(value, dict):
        return {("from",): "link", ("param",): "param", ("value",): "value"}.get(tuple(value))
    return {Link: "link", ParamRef: "param", Wrapped: "value"}.get(type(value), "plain")


PLAIN_SCHEMA = {"type": ["string", "number", "boolean", "null", "array"]}
Input = Annotated[
    Annotated[Link, Tag("link")]
    | Annotated[ParamRef, Tag("param")]
    | Annotated[Wrapped, Tag("value")]
    | Annotated[JsonValue, WithJsonSchema(PLAIN_SCHEMA), Tag("plain")],
    Discriminator(_kind),
]
Text = Annotated[
    Annotated[ParamRef, Tag("param")] | Annotated[str, Tag("text")],
    Discriminator(lambda value: "param" if isinstance(value, ParamRef | dict) else "text"),
]
Number = Annotated[
    Annotated[ParamRef, Tag("param")] | Annotated[int, Tag("int")] | Annotated[float, Tag("float")],
    Discriminator(
        lambda value: "param" if isinstance(value, ParamRef | dict) else "int" if type(value) is int else "float"
    ),
]


class Lines(_Part):
    """`{"lines": "a\\nb"}`: the lines of a text that are not empty."""

    lines: Text


class Span(_Part):
    """`{"range": [first, last]}` or `[first, last, step]`: numbers, the last one among them."""

    range: Annotated[list[Number], Field(min_length=2, max_length=3)]


class Folder(_Part):
    """`{"folder": "pictures", "match": "*.png"}`: the paths of its files by name, none of folders inside."""

    folder: Text
    match: Annotated[str, Field(max_length=200)] = "*"


def _list_kind(value: Any) -> str | None:
    if isinstance(value, dict):
        keys = {"from": "link", "param": "param", "lines": "lines", "range": "range", "folder": "folder"}
        return next((kind for key, kind in keys.items() if key in value), None)
    kinds = {list: "list", Link: "link", ParamRef: "param", Lines: "lines", Span: "range", Folder: "folder"}
    return kinds.get(type(value))


# What a for-each goes through. A link is refused where it is unfolded: what it gives is known only in a run.
Listed = Annotated[
    Annotated[Link, Tag("link")]
    | Annotated[ParamRef, Tag("param")]
    | Annotated[Lines, Tag("lines")]
    | Annotated[Span, Tag("range")]
    | Annotated[Folder, Tag("folder")]
    | Annotated[list[Scalar], Tag("list")],
    Discriminator(_list_kind),
]


class Node(_Part):
    """One node: its type is the class type in every host, or `sub:` and the name of a sub-workflow of the file."""

    type: Annotated[str, Field(pattern=rf"{TYPE_PATTERN}|^{SUB}[a-z][a-z0-9_]{{0,63}}$")]
    version: Annotated[int, Field(ge=1)] = 1
    title: Annotated[str, Field(max_length=200)] = ""
    mode: Mode = "run"
    """A muted node is left out with all that needs it; a bypassed one hands on what it is given (see `ready.py`)."""
    inputs: dict[Name, Input] = {}
    each: dict[Name, Listed] = {}
    """For-each: the node is there once for each element, which stands at that input. Several lists go side by side."""


class _Form(_Part):
    type: Any
    default: Scalar | list[Scalar] | None = None
    choices: list[str] = []
    min: int | float | None = None
    max: int | float | None = None
    help: str = ""


class Param(_Form):
    """A value that the user of the workflow sets by name. Without a default it must be given."""

    type: Literal["string", "int", "float", "bool", "choice", "list[string]", "list[int]", "list[float]"]
    group: Annotated[str, Field(max_length=100)] = ""
    """The heading that a form puts it under."""


class SubParam(_Form):
    """An input of a sub-workflow, a wire's or a value's. What it leaves out is said by the first node that takes it."""

    type: Annotated[str, Field(pattern=r"^(list\[)?[A-Za-z][A-Za-z0-9_]{0,127}\]?$")]


class Sub(_Part):
    """A sub-workflow: nodes that take what stands at its own params, and no other; used by nodes of its type."""

    title: Annotated[str, Field(max_length=200)] = ""
    help: str = ""
    params: dict[Name, SubParam] = {}
    nodes: Annotated[dict[Name, Node], Field(max_length=MAX_NODES)]
    outputs: dict[Name, Link] = {}
    layout: dict[str, JsonValue] = {}


def _bounded(meta: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if (size := len(json.dumps(meta, ensure_ascii=False).encode(errors="surrogatepass"))) > MAX_META_BYTES:
        words = f"{size} bytes are too many, at most {MAX_META_BYTES} are kept; put a reference there, and the rest "
        raise PydanticCustomError("too_large", "{words}", {"words": words + "into a file of its own"})
    return meta


class Graph(_Part):
    """A workflow. `meta` is the user's own and `layout` the editor's; like `$schema`, they mean nothing to a run."""

    schema_uri: Annotated[str, Field(alias="$schema", max_length=1000)] = ""
    """Where an editor finds the JSON Schema of this file."""
    format: Literal[2] = FORMAT
    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str = ""
    requires: dict[Package, Annotated[str, Field(max_length=200)]] = {}
    params: dict[Name, Param] = {}
    nodes: Annotated[dict[Name, Node], Field(max_length=MAX_NODES)]
    subs: dict[Name, Sub] = {}
    outputs: dict[Name, Link] = {}
    meta: Annotated[dict[str, JsonValue], AfterValidator(_bounded)] = {}
    layout: dict[str, JsonValue] = {}


def read_graph(source: str | bytes | Path) -> Graph:
    """Read a workflow from text, bytes or a file. Raises `GraphError` with every problem of its form."""
    return graph_from_plain(parse_json(read_bytes(source) if isinstance(source, Path) else source))


def graph_from_plain(data: Any) -> Graph:
    """A workflow from parsed JSON of any known format. Raises `GraphError`."""
    if not isinstance(data, dict):
        raise refuse("not_a_workflow", worded("the file holds {}; a workflow is an object with nodes", short(data)))
    number = data.get("format")
    if type(number) is not int or number < 1:
        got = short(number) if "format" in data else "missing"
        message = worded('"format" is {}; a workflow of this version says "format": {}; add it', got, FORMAT)
        raise refuse("format", message)
    if number > FORMAT:
        message = worded(
            "the file has format {}, this latentloom reads up to {}; install a newer one (pip install --upgrade "
            "latentloom), or save the workflow with the older version",
            number,
            FORMAT,
        )
        raise refuse("format_too_new", message)
    try:
        # a file of format 1 is one of format 2; a golden file of every format is kept for ever in tests/nodes/golden
        return Graph.model_validate({**data, "format": FORMAT})
    except ValidationError as error:
        names = Names()
        errors = error.errors(include_url=False, include_context=False)
        raise GraphError(_problem(each, names) for each in errors) from None


def in_order(sources: Mapping[str, Collection[str]]) -> list[str]:
    """Nodes, each after those that feed it, otherwise as they come; without those on a cycle, or fed by one. `sources`
    must list every node that it names."""
    # Kahn's algorithm, because graphlib makes an object per node and looks for cycles first: four times as slow
    num_missing = {name: len(feeding) for name, feeding in sources.items()}
    users: dict[str, list[str]] = {}
    for name, feeding in sources.items():
        for source in feeding:
            users.setdefault(source, []).append(name)
    order = [name for name, num in num_missing.items() if num == 0]
    for name in order:  # grows while it is read
        for user in users.get(name, ()):
            num_missing[user] -= 1
            if num_missing[user] == 0:
                order.append(user)
    return order


def graph_to_plain(graph: Graph) -> dict[str, Any]:
    """Plain data in the file's order of keys, without what says nothing. `layout` comes last."""
    plain = graph.model_dump(by_alias=True, exclude_defaults=True)
    plain["nodes"] = _plain_nodes(graph.nodes, plain["nodes"])
    for name, sub in graph.subs.items():
        own = plain["subs"][name]
        plain["subs"][name] = {**own, "nodes": _plain_nodes(sub.nodes, own["nodes"])}
    # the oldest format that holds the workflow, so that older versions read what they can
    has_lists = any(param.type.startswith("list[") for param in graph.params.values())
    number = 2 if graph.subs or has_lists or any(node.each for node in graph.nodes.values()) else 1
    first = {"$schema": graph.schema_uri} if graph.schema_uri else {}
    return {**first, "format": number, "name": graph.name, **plain}


def _plain_nodes(nodes: Mapping[str, Node], plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"type": node.type, "version": node.version, **plain[name]} for name, node in nodes.items()}


_scalar = partial(json.dumps, ensure_ascii=False, allow_nan=False)


def graph_text(graph: Graph) -> str:
    """The file's text: one line for each value and link, so that a diff shows what changed."""
    return _text(graph_to_plain(graph), "") + "\n"


def _text(value: Any, indent: str, *, tall: bool = False) -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value and (tall or [*value] not in (["from"], ["param"], ["value"])):
        lines = [f"{inner}{_scalar(key)}: {_text(item, inner, tall=key == 'inputs')}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return _scalar(value)


def _known(path: Sequence[str]) -> list[str]:
    """The keys that there are beside the last of a path."""
    if path[0] == "subs":
        return _known(path[2:]) if len(path) > 3 else [*Sub.model_fields]
    part = {1: Graph, 3: {"nodes": Node, "params": Param}.get(path[0], Link)}.get(len(path), Link)
    return [str(field.alias or field.validation_alias or name) for name, field in part.model_fields.items()]


def _problem(error: ErrorDetails, names: Names) -> Problem:
    """One of pydantic's errors in our words."""
    path = [str(part) for part in error["loc"] if part != "[key]"]
    node = path[1] if path[0] == "nodes" and len(path) > 1 else ""
    first = 2 if path[0] == "subs" else 0
    has_socket = path[first : first + 1] == ["nodes"] and path[first + 2 : first + 3] in (["inputs"], ["each"])
    if has_socket:
        del path[first + 4 : first + 5]  # the tag of `Input` or `Listed`, no part of the path that the user sees
    socket = path[3] if node and has_socket and len(path) > 3 else ""
    got, kind, where = short(error["input"]), error["type"], short(".".join(path))
    code, message = "bad_value", worded("{} is {}: {}; correct it", where, got, error["msg"])
    if kind == "extra_forbidden":
        hint = names.offer(path[-1], _known(path)) + ("; keys of your own go into meta" if len(path) == 1 else "")
        code = "unknown_key"
        message = worded("{} is no key of a workflow; {}; remove or correct it", where, hint)
    elif kind == "missing":
        code, message = "missing_key", worded("{} is missing; add it", where)
    elif kind == "string_pattern_mismatch":
        rule = "lower-case letters, digits and _, starting with a letter, at most 64 (links are node.socket)"
        code, message = "bad_name", worded("{} is {}; a name is made of {}; rename it", where, got, rule)
    elif kind == "union_tag_not_found" and path[first + 2 : first + 3] == ["each"]:
        forms = '["a", "b"], {"param": "name"}, {"lines": "..."}, {"range": [1, 8]} or {"folder": "..."}'
        code, message = "bad_input", f"{where} is {got}; write a list: {forms}"
    elif kind == "union_tag_not_found":
        forms = '{"from": "node.socket"}, {"param": "name"} or {"value": ...}'
        code, message = "bad_input", worded("{} is the object {}; write {}", where, got, forms)
    elif kind == "too_large":
        code, message = "too_large", worded("{}: {}", where, error["msg"])
    elif kind == "too_long":
        code, message = "too_long", worded("{} has too many entries: {}; split the workflow", where, error["msg"])
    return Problem(node, socket, code, message)
