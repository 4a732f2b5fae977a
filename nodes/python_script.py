"""A workflow as a script in Python: each node is a call of its function in `latentloom.nodes`.

Params are variables at the top; a value is written only where it is not the function's own. What is muted or bypassed
is left out, as in a run. Texts go into it as Python's literals, so that none of them can be code.
"""

import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from .execution.schedule import needs_of
from .graph.graph import ParamRef
from .graph.problems import refuse
from .graph.ready import Ready
from .graph.resolve import Resolved
from .graph.scalars import as_type

WIDTH = 100  # columns; a call that is longer has a line for each argument
MODULE = "nodes"


def to_python(ready: Ready, targets: Collection[str] | None = None) -> str:
    """The script that makes what a run of the workflow makes, or these nodes and outputs of it; a for-each is written
    out. Raises `GraphError` for a workflow that cannot run, and for nodes that are not ours."""
    needs, types = needs_of(ready, targets), ready.types
    for name in needs.order:
        if origin := needs.nodes[name].spec.origin:
            message = f"it comes from {origin}, and a script has ours only; leave it out, or run the file instead"
            raise refuse("not_ours", message, node=name)
    taken = {MODULE, "print"}

    def fresh(name: str) -> str:
        """A variable: words of Python and names that are taken get an underscore."""
        word = re.sub(r"\W", "_", name)
        while word in taken or keyword.iskeyword(word):
            word += "_"
        taken.add(word)
        return word

    entries = (entry for node in needs.nodes.values() for entry in node.node.inputs.values())
    used = {entry.param for entry in entries if isinstance(entry, ParamRef)}
    params = {name: fresh(name) for name in ready.params if name in used}
    outputs = {
        (name, output.name): fresh(name if len(spec.outputs) == 1 else f"{name}_{output.name}")
        for name in needs.order
        for spec in [types[needs.nodes[name].node.type]]  # a function gives all that it ever gives
        for output in spec.outputs
    }
    lines = [f'"""{_title(ready.file.name)}: written by latentloom."""', "", f"from latentloom import {MODULE}", ""]
    if params:
        lines += [*(f"{variable} = {ready.params[name]!r}" for name, variable in params.items()), ""]
    for name in needs.order:
        node = needs.nodes[name]
        given = [variable for (source, _), variable in outputs.items() if source == name]
        call = f"{MODULE}.{types[node.node.type].call.__name__}("
        lines += _call(node, ", ".join(given) + " = " + call if given else call, _arguments(node, outputs, params))
    written = [(name, each) for name in needs.order for each in needs.nodes[name].spec.outputs if each.type == "Saved"]
    printed = [f"print({outputs[name, output.name]}.files)" for name, output in written]
    return "\n".join([*lines, *(["", *printed] if printed else [])]) + "\n"


def _title(name: str) -> str:
    """A workflow's name inside of a docstring."""
    return "".join(c if c.isprintable() and c not in '"\\' else " " for c in name)


def _call(node: Resolved, start: str, arguments: Iterable[str]) -> Iterator[str]:
    """The lines of one node."""
    given = list(arguments)
    if node.node.title:
        yield f"# {_title(node.node.title)}"
    if len(line := start + ", ".join(given) + ")") <= WIDTH:
        yield line
    else:
        yield from (start, *(f"    {argument}," for argument in given), ")")


def _arguments(node: Resolved, outputs: Mapping[tuple[str, str], str], params: Mapping[str, str]) -> Iterator[str]:
    """Such as `seed=7`."""
    for socket in node.spec.inputs:
        entry = node.node.inputs.get(socket.name)
        if link := node.links.get(socket.name):
            yield f"{socket.name}={outputs[link.node, link.socket]}"
        elif isinstance(entry, ParamRef) and entry.param in params:
            yield f"{socket.name}={params[entry.param]}"
        elif (value := node.values[socket.name]) != as_type(socket.type, socket.default):
            yield f"{socket.name}={value!r}"
