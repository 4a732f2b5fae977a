"""From a workflow with sub-workflows and for-each to one without.

A node `denoise` in a sub-workflow that the node `paint` uses becomes `paint/denoise`, or `paint/3/denoise` in the third
element of a for-each. Names in a file have no `/`, so that what lies before the first is the file's node.

What a for-each gives is gathered where a socket takes it: pictures into a batch, texts into lines. As an output of the
workflow each element is one by itself, `name/3`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ....parallel.wording import worded
from ...files.workspace import Workspace
from ..graph import MAX_NODES, SUB, Graph, Link, Node, ParamRef, Sub, Wrapped
from ..problems import Names, Problem, short
from ..resolve import Overrides, param_values, plain_value, with_overrides
from ..scalars import fault
from ..spec import Specs
from .lists import elements, made_while_running
from .subs import Copy, Folded, Scope, sub_of, unusable, with_subs
from .unfolded import JOINERS, Unfolded, gathered, link_to, named_apart

UNKNOWN = Node(type=f"{SUB}unknown")  # what stands for a node that cannot be unfolded


def folded_in(graph: Graph) -> list[str]:
    """The nodes that are to be unfolded."""
    return [name for name, node in graph.nodes.items() if node.each or node.type.startswith(SUB)]


def unfold(graph: Graph, specs: Specs, overrides: Overrides, workspace: Workspace | None) -> Unfolded:
    """The workflow with these values, as ordinary nodes. Without a workspace no folder can be looked into."""
    if not folded_in(graph):
        return Unfolded(graph=graph, overrides=overrides)
    return _Unfolding(graph, specs, overrides, workspace).done()


@dataclass(frozen=True)
class _Found:
    """What stands at an input in the end."""

    entry: Any
    place: str = ""  # the input of the file's node where it stands
    is_element: bool = False  # whether it is, or comes from, an element of a for-each
    is_there: bool = True


class _Unfolding:
    def __init__(self, graph: Graph, specs: Specs, overrides: Overrides, workspace: Workspace | None) -> None:
        self.graph, self.specs, self.workspace, self.folded = graph, specs, workspace, folded_in(graph)
        self.left = {
            name: value
            for name, value in overrides.items()
            if name in graph.params or name.partition(".")[0] not in self.folded
        }
        self.params = param_values(graph, overrides)
        self.top = Scope("", "", with_overrides(graph, overrides))
        self.unusable = unusable(graph)
        self.subs = with_subs(graph, specs)
        self.names = Names()
        self.scopes: dict[str, list[Scope]] = {}
        self.lists: dict[str, list[Mapping[str, Any]]] = {}
        self.sources: dict[tuple[str, str], tuple[Link, str]] = {}
        self.joined: dict[str, Node] = {}
        self.places: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.bad: set[str] = set()

    def done(self) -> Unfolded:
        copies: dict[str, list[Copy]] = {}
        # copies are counted while they come, and before any node is made: a file of a few lines may ask for millions
        num_left = MAX_NODES + len(self.folded) - len(self.top.nodes)
        for name in self.folded:
            try:
                found = list(islice(self._copies(self.top, name), num_left + 1))
                if len(found) > num_left:
                    raise Folded("too_long", f"the workflow would have more than {MAX_NODES:,} nodes; shorten its list")
                copies[name] = [each for each in found if each is not None]
                num_left -= len(found)
            except Folded as error:
                self._bad(name, error)
        nodes: dict[str, Node] = {}
        for name in self.top.nodes:
            if name in self.bad:
                nodes[name] = UNKNOWN
                continue
            try:
                own = copies.get(name) or self._copies(self.top, name)
                nodes |= {each.id: self._built(each) for each in own if each}
            except Folded as error:
                self._bad(name, error)
                nodes[name] = UNKNOWN
        outputs = self._outputs()
        whole = {**nodes, **self.joined}
        graph = self.graph.model_copy(update={"nodes": whole, "outputs": outputs, "subs": {}, "layout": {}})
        return Unfolded(graph=graph, overrides=self.left, problems=tuple(self.problems), places=self.places)

    def _bad(self, name: str, error: Folded) -> None:
        self.bad.add(name)
        problem = Problem(name, error.socket, error.problem, str(error), inside=error.inside)
        if problem not in self.problems:
            self.problems.append(problem)

    # ---- which nodes there will be

    def _copies(self, scope: Scope, name: str) -> Iterator[Copy | None]:
        """Of one node of a scope; None for each node that uses a sub-workflow, which counts too."""
        node = scope.nodes[name]
        if not node.type.startswith(SUB):
            yield from self._elements(scope, name)
            return
        for inner in self._inside(scope, name):
            yield None
            for each in inner.nodes:
                yield from self._copies(inner, each)

    def _elements(self, scope: Scope, name: str) -> list[Copy]:
        """Each time that a node is there; once, with no element, where it has no for-each."""
        node, id, before = scope.nodes[name], scope.path + name, f"{scope.words} / " if scope.words else ""
        if not node.each:
            return [Copy(scope, name, id, before + (node.title or name), {})]
        if id not in self.lists:
            self.lists[id] = self._lists(scope, name, node)
        words = f"{before}for_each {name!r}, element"
        return [
            Copy(scope, name, f"{id}/{number}", f"{words} {number} ({short(next(iter(each.values())))})", each)
            for number, each in enumerate(self.lists[id], 1)
        ]

    def _lists(self, scope: Scope, name: str, node: Node) -> list[Mapping[str, Any]]:
        spec, sub = self.specs.get(node.type), sub_of(self.graph, node)
        for socket in node.each:
            if socket in node.inputs:
                message = f"{socket} has a value and is gone through by for_each too; leave one of them out"
                raise scope.fault("each_twice", message, name, socket)
            known = sub.params if sub else {each.name: each for each in spec.inputs} if spec else None
            if known is not None and socket not in known:
                hint = self.names.offer(socket, known)
                raise scope.fault("unknown_input", f"for_each goes through {socket!r}; {hint}", name, socket)
        found: dict[str, list[Any]] = {}
        for socket, source in node.each.items():
            try:
                found[socket] = elements(source, lambda ref: self._plain(scope, ref), self.workspace)
            except ValueError as error:
                raise scope.fault("bad_list", f"for_each {name!r}: {error}", name, socket) from None
        lengths = {socket: len(each) for socket, each in found.items()}
        if len({*lengths.values()}) > 1:
            told = ", ".join(f"{socket} has {length}" for socket, length in lengths.items())
            raise scope.fault("bad_list", f"its lists differ in length ({told}); make them equal", name)
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]

    def _inside(self, scope: Scope, name: str) -> list[Scope]:
        """The insides of a node that uses a sub-workflow, one for each element."""
        node, id = scope.nodes[name], scope.path + name
        if id in self.scopes:
            return self.scopes[id]
        sub = sub_of(self.graph, node)
        wanted = node.type.removeprefix(SUB)
        if sub is None:
            hint = self.names.offer(wanted, self.graph.subs)
            raise scope.fault("unknown_sub", f"the file has no sub-workflow {short(wanted)}; {hint}", name)
        if why := self.unusable.get(wanted):
            raise scope.fault("sub_in_itself", why, name)
        self._check_given(scope, name, node, sub)
        mode = "run" if scope.mode == node.mode == "run" else "mute"
        self.scopes[id] = [
            Scope(f"{each.id}/", each.words, sub.nodes, sub, scope, name, each.element, mode)
            for each in self._elements(scope, name)
        ]
        return self.scopes[id]

    def _check_given(self, scope: Scope, name: str, node: Node, sub: Sub) -> None:
        for socket, entry in node.inputs.items():
            if socket not in sub.params:
                hint = self.names.offer(socket, sub.params)
                message = worded("{} has no input {}; {}", sub.title or node.type, short(socket), hint)
                raise scope.fault("unknown_input", message, name, socket)
            known = self.subs[node.type].input(socket)
            if known and not isinstance(entry, Link | ParamRef) and (found := fault(known, plain_value(entry, {}))):
                raise scope.fault(*found, name, socket)

    # ---- what stands at their inputs

    def _resolved(self, scope: Scope, entry: Any, place: str = "") -> _Found:
        """An input of a node of a scope, in terms of the unfolded workflow."""
        if isinstance(entry, Link):
            return _Found(self._source(scope, entry)[0], place)
        if not isinstance(entry, ParamRef) or scope.outer is None:
            return _Found(entry, place)
        if entry.param in scope.element:
            return _Found(_wrapped(scope.element[entry.param]), "", is_element=True)
        assert scope.sub is not None, "what has an outer scope is a sub-workflow"
        if (param := scope.sub.params.get(entry.param)) is None:
            hint = self.names.offer(entry.param, scope.sub.params)
            message = f"{scope.words}: it has no param {entry.param}; {hint}"
            raise Folded("unknown_param", message)
        given = scope.outer.nodes[scope.user].inputs
        place = f"{scope.user}.{entry.param}" if scope.outer.outer is None else ""
        if entry.param in given:
            return self._resolved(scope.outer, given[entry.param], place)
        if param.default is not None:
            return _Found(_wrapped(param.default), place)
        return _Found(None, place, is_there=False)  # the node's own default holds, or the checker misses it

    def _plain(self, scope: Scope, ref: ParamRef) -> Any:
        entry = self._resolved(scope, ref).entry
        if isinstance(entry, Link):
            raise made_while_running(entry.source)
        if isinstance(entry, ParamRef) and entry.param not in self.params:
            hint = self.names.offer(entry.param, self.graph.params)
            raise ValueError(f"its list is the param {entry.param}, which the workflow lacks; {hint}")
        return plain_value(entry, self.params)

    def _source(self, scope: Scope, link: Link) -> tuple[Link, str]:
        """Where a link of a scope really comes from, and its type ("" where that is not known)."""
        # found once: what a for-each gives may have as many users as elements
        place = (scope.path, link.source)
        if place not in self.sources:
            self.sources[place] = self._found_source(scope, link)
        return self.sources[place]

    def _found_source(self, scope: Scope, link: Link) -> tuple[Link, str]:
        node = scope.nodes.get(link.node)
        if node is None:
            return link_to(scope.path + link.node, link.socket), ""
        if not scope.path and link.node in self.bad:
            return link, ""
        found, type = self._of_each(scope, link, node)
        if node.mode == "bypass" and node.type.startswith(SUB) and (handed := self._handed_on(scope, node, type)):
            return handed, type
        return (found[0] if not node.each else self._gathered(scope, link, found, type)), type

    def _of_each(self, scope: Scope, link: Link, node: Node) -> tuple[list[Link], str]:
        """Where a link to a node of a scope comes from, of each element of the node, and the type of that."""
        if not node.type.startswith(SUB):
            spec = self.specs.get(node.type)
            output = spec.output(link.socket) if spec else None
            copies = self._elements(scope, link.node)
            return [link_to(each.id, link.socket) for each in copies], output.type if output else ""
        sub = sub_of(self.graph, node)
        out = sub.outputs.get(link.socket) if sub else None
        if sub is not None and out is None:
            hint = self.names.offer(link.socket, sub.outputs)
            message = f"{scope.words or 'a link'} comes from {link.source}, which has no such output; {hint}"
            raise Folded("unknown_output", message)
        insides = self._inside(scope, link.node)
        assert out is not None, "a node without its sub-workflow has no inside"
        sources = [self._source(inner, out) for inner in insides]
        return [source for source, _ in sources], sources[0][1]

    def _handed_on(self, scope: Scope, node: Node, type: str) -> Link | None:
        """What a bypassed node that uses a sub-workflow gives: its first linked input of that type."""
        sub = sub_of(self.graph, node)
        for name, param in sub.params.items() if sub else ():
            entry = node.inputs.get(name)
            if param.type == type and isinstance(entry, Link):
                return self._source(scope, entry)[0]
        return None

    def _gathered(self, scope: Scope, link: Link, sources: list[Link], type: str) -> Link:
        """One value of those of all elements, made by nodes that take a few each."""
        if len(sources) == 1:
            return sources[0]
        if type not in JOINERS:
            known = ", ".join(JOINERS)
            raise Folded(
                "not_gathered",
                f"{link.source} of for_each {link.node!r} is {len(sources)} values of the type {type or '?'}, and only "
                f"those of {known} are gathered; use them inside the for-each",
            )
        words = f"{scope.words} / " if scope.words else ""
        title = f"{words}{link.node}, {link.socket} of all elements"
        nodes, found = gathered(f"{scope.path}{link.node}/{link.socket}", title, sources, JOINERS[type], self.specs)
        self.joined |= nodes
        return found

    # ---- the nodes themselves

    def _built(self, copy: Copy) -> Node:
        scope, node = copy.scope, copy.scope.nodes[copy.name]
        inputs: dict[str, Any] = {socket: _wrapped(value) for socket, value in copy.element.items()}
        varied = bool(copy.element)
        for socket, entry in node.inputs.items():
            own = f"{copy.name}.{socket}" if not scope.path and node.each else ""
            found = self._resolved(scope, entry, own)
            if found.place and copy.id != copy.name:
                self.places[f"{copy.id}.{socket}"] = found.place
            if found.is_there:
                inputs[socket] = found.entry
                varied = varied or (socket == "name" and found.is_element)
        spec = self.specs.get(node.type)
        if spec is not None and spec.is_output and not varied:
            inputs = named_apart(inputs, spec, copy.id)
        title = copy.words if scope.path or node.each else node.title
        mode = "mute" if scope.mode != "run" else node.mode
        return node.model_copy(update={"inputs": inputs, "title": title, "mode": mode, "each": {}})

    def _outputs(self) -> dict[str, Link]:
        found: dict[str, Link] = {}
        for name, link in self.graph.outputs.items():
            node = self.top.nodes.get(link.node)
            if node is None or link.node in self.bad:
                found[name] = link
                continue
            try:
                if node.each:
                    if (sub := sub_of(self.graph, node)) and link.socket not in sub.outputs:
                        raise Folded("unknown_output", f"output {name} is {link.source}, which is not there")
                    each, _ = self._of_each(self.top, link, node)
                    found |= {f"{name}/{number}": source for number, source in enumerate(each, 1)}
                else:
                    found[name], _ = self._source(self.top, link)
            except Folded as error:
                self.problems.append(Problem("", name, error.problem, str(error)))
        return found


def _wrapped(value: Any) -> Any:
    return Wrapped.model_construct(value=value) if isinstance(value, list | dict) else value
