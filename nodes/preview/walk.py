"""What the nodes of a workflow would make, asked from the last to the first; the workflow may be half done.

Each node answers by the sketch on its spec, without torch: nothing is loaded, compiled, quantized or hashed here.
"""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...parallel.progress import SILENT
from ...parallel.wording import worded
from ...pipelines.values import Audio, Conditioning, Image, References, Video
from ..files.workspace import Workspace
from ..graph.graph import Link, ParamRef
from ..graph.problems import Problem
from ..graph.ready import Ready
from ..graph.resolve import plain_value
from ..graph.scalars import PLAIN_TYPES, as_type, fault
from ..graph.sketch import Denoising, Given, Made, Refusal, Refused, Seen, Text, Unknown, if_known
from ..graph.spec import VALUE_TYPES, InputSpec, NodeSpec
from .carried import carried

MAX_DENOISES = 100  # how many Denoise nodes are looked at; each takes about 20 ms, and a workflow may be a stranger's
MAX_ASKED = 500  # how many nodes are asked one question; each takes about a millisecond
LONGEST_WALK = 100  # nodes in a row; a longer way is not followed
Question = Literal["means", "reads", "refuses", "writes"]
# What sketches give for a wire type whose values hold what only a run makes.
STAND_INS: Mapping[str, type] = {
    Conditioning.__name__: Text,
    References.__name__: Seen,
    **{kind.__name__: Made for kind in (Image, Video, Audio)},
}

logger = logging.getLogger("latentloom")


@dataclass(frozen=True)
class _Sketched:
    """What one node would make, by output, or `fault`: why that is not known; and what it and those before it told."""

    values: Mapping[str, Any]
    problems: tuple[str, ...] = ()
    fault: str = ""


class Walk:
    """Asks each node at most once, and only where somebody wants to know. What is not known raises `Unknown`.

    `go_on` is called before each node, and raises `Cancelled` where nobody wants to know any more.
    """

    def __init__(
        self,
        ready: Ready,
        *,
        workspace: Workspace,
        accelerators: Sequence[str] | Callable[[], Sequence[str]] | None = None,
        go_on: Callable[[], None] = SILENT.check,
    ) -> None:
        """`accelerators` are this machine's, or a function that looks for them once one is asked for."""
        self.meta = ready.graph.meta
        self._written, self._nodes = ready.written.nodes, ready.graph.nodes
        self.specs = {name: ready.specs[name] for name in self._nodes if name in ready.specs}
        self._params = ready.params
        # Names of files are claimed anew by each walk: two looks at one workflow are no two writers.
        self.workspace = dataclasses.replace(workspace, claims={})
        self.is_machine_known = accelerators is not None
        # Looked for when a node asks: to find GPUs may load torch, and a workflow on the CPU needs neither.
        self.accelerators = functools.cache(accelerators if callable(accelerators) else lambda: accelerators or ())
        self._known: dict[str, _Sketched] = {}
        self._denoises: dict[str, tuple[Denoising, Sequence[str]]] = {}
        self._way: list[str] = []  # the nodes that are being asked, each by the one before it
        self._go_on = go_on
        # Of denoises the plans that they take from the result that the workflow is from, and why they take none.
        self.carried: dict[str, str] = {}
        self.not_carried: dict[str, str] = {}
        self.silent: dict[str, str] = {}  # nodes from outside that were asked in vain, and where each comes from

    def denoising(self) -> list[str]:
        return [name for name, spec in self.specs.items() if spec.denoises is not None]

    def denoise(self, name: str) -> tuple[Denoising, Sequence[str]]:
        """What a denoising node would do, and what cannot be of what it asks for."""
        if name in self._denoises:
            return self._denoises[name]
        spec = self.specs[name]
        assert spec.denoises is not None, worded("{} is one of those that denoise", name)
        given = _Given(self, name, spec)
        found = self._answer(spec.denoises, given, name)
        if not isinstance(found, Denoising):
            raise Unknown(worded("{} does not say what it would do (it gave a {})", name, type(found).__name__))
        if not found.pipeline:  # by the plan of the result that the workflow is from
            try:
                model = carried(self.meta, name, found.model, self.workspace.place)
                self.carried |= {name: model.place.plan} if model is not found.model else {}
                found = dataclasses.replace(found, model=model)
            except ValueError as error:
                self.not_carried[name] = str(error)
        return self._denoises.setdefault(name, (found, given.problems))

    def tells(self, name: str, question: Question) -> Any:
        """What a node says of itself by one of its sketches, which it has; a stranger's may say anything. Raises
        `ValueError`."""
        spec = self.specs[name]
        return self._answer(getattr(spec, question), _Given(self, name, spec), name)

    def told(self, question: Question, needed: Collection[str] | None = None) -> Iterator[tuple[str, Any]]:
        """What the nodes that have such a sketch tell, or those of them that are needed, as far as it is known."""
        asked = (name for name, spec in self.specs.items() if getattr(spec, question))
        for name in [name for name in asked if needed is None or name in needed][:MAX_ASKED]:
            with contextlib.suppress(ValueError):
                yield name, self.tells(name, question)

    def link(self, name: str, socket: str) -> Link | None:
        """Where the wire at a socket comes from."""
        entry = self._nodes[name].inputs.get(socket)
        return entry if isinstance(entry, Link) else None

    def written(self, name: str, socket: str) -> Any:
        """What stands at a socket, or comes there, before any file is asked what that means. Raises `ValueError`."""
        found = self.specs[name].input(socket)
        if found is None or found.type not in PLAIN_TYPES:
            return None
        entry = self._written[name].inputs.get(socket, found.default)
        return self.value(name, found)[0] if isinstance(entry, Link | ParamRef) else plain_value(entry, {})

    def has(self, name: str, socket: str) -> bool:
        return self._nodes[name].inputs.get(socket) is not None

    def setter(self, name: str, sockets: Collection[str], *, kind: str) -> str:
        """The nearest node, from this one back along links of a type, all of whose sockets of these names are values;
        "" where there is none."""
        way = [name]
        for each in way:
            spec = self.specs.get(each)
            if spec is None or len(way) > LONGEST_WALK:
                continue
            inputs = self._nodes[each].inputs
            if all(spec.input(socket) and not isinstance(inputs.get(socket), Link) for socket in sockets):
                return each
            links = (inputs.get(socket.name) for socket in spec.inputs if socket.type == kind)
            way += [link.node for link in links if isinstance(link, Link) and link.node not in way]
        return ""

    def gives(self, name: str) -> Mapping[str, Any]:
        """What a node would make, by its outputs; empty where that is not known."""
        return self._sketched(name).values

    def value(self, name: str, socket: InputSpec) -> tuple[Any, Sequence[str]]:
        """What a socket would be given, and what cannot be of what was asked for before it."""
        entry = self._nodes[name].inputs.get(socket.name, socket.default)
        problems: Sequence[str] = ()
        if isinstance(entry, Link):
            value, problems = self._linked(name, socket, entry)
        elif socket.type not in PLAIN_TYPES:
            raise Unknown(worded("{} of {} is not linked; wire a {} to it", socket.name, name, socket.type))
        else:
            try:
                value = plain_value(entry, self._params)
            except KeyError as missing:
                raise Unknown(
                    worded("{} of {} is set by the param {}, which the workflow lacks", socket.name, name, missing)
                ) from None
        if socket.type in PLAIN_TYPES and (found := fault(socket, value)):
            raise Unknown(worded("{}: {}", name, found[1]))
        return as_type(socket.type, value), problems

    def _linked(self, name: str, socket: InputSpec, link: Link) -> tuple[Any, Sequence[str]]:
        """The value at a link; one of another type than the socket's counts as not known."""
        source = self._sketched(link.node)
        if source.fault:
            raise Unknown(source.fault)
        value, wanted = source.values.get(link.socket), STAND_INS.get(socket.type) or VALUE_TYPES.get(socket.type)
        if value is None or (wanted is not None and not isinstance(value, wanted)):
            raise Unknown(
                worded("{} of {} comes from {}, so it is not known before the run", socket.name, name, link.node)
            )
        return value, source.problems

    def _sketched(self, name: str) -> _Sketched:
        if name in self._known:
            return self._known[name]
        # Each node asks the one before it within its own answer, so that a circle, or a long chain of a stranger's,
        # would end in Python's stack.
        if name in self._way or len(self._way) == LONGEST_WALK:
            return _Sketched(
                {}, fault=worded("{} needs its own result, or more than {} nodes in a row", name, LONGEST_WALK)
            )
        self._way.append(name)
        try:
            return self._known.setdefault(name, self._ask(name))
        finally:
            self._way.pop()

    def _ask(self, name: str) -> _Sketched:
        spec = self.specs.get(name)
        if spec is None or spec.sketch is None:
            if spec is not None and spec.origin:
                self.silent[name] = spec.origin
            return _Sketched({})
        given = _Given(self, name, spec)
        try:
            made = self._answer(spec.sketch, given, name)
        except ValueError as error:
            return _Sketched({}, fault=str(error))
        values = made if len(spec.outputs) > 1 and isinstance(made, tuple) else (made,)
        # A stranger's sketch may give fewer values than its node has outputs; those are then not known.
        return _Sketched(dict(zip((output.name for output in spec.outputs), values, strict=False)), given.problems)

    def _answer(self, ask: Callable[[Given], Any], given: Given, name: str) -> Any:
        """What a node tells of itself. Raises `ValueError`, whatever a stranger's raises."""
        self._go_on()
        try:
            return ask(given)
        except ValueError:
            raise
        except Exception as error:  # of a node from outside, which may run well all the same
            logger.warning("%s failed to say what it would do", name, exc_info=True)
            if origin := self.specs[name].origin:
                self.silent[name] = origin
            reason = f"{type(error).__name__}: {error}"
            raise Unknown(worded("{} does not say what it would do ({})", name, reason)) from None


def refused(walk: Walk, needed: Collection[str] | None = None) -> Iterator[Problem]:
    """What nodes of a workflow without other problems cannot take: their models do not, or files are not there.

    With `needed` only those are asked: nobody minds what a node would read or write that nothing needs.
    """
    asked = [name for name, spec in walk.specs.items() if spec.refuses or spec.denoises]
    for name in [name for name in asked if needed is None or name in needed][:MAX_ASKED]:
        try:
            asks = walk.specs[name].refuses is not None
            refusals = walk.tells(name, "refuses") if asks else walk.denoise(name)[0].refusals
        except Refused as error:
            refusals = {error.socket: error.refusal}
        except ValueError:
            continue
        yield from (_problem(name, socket, why) for socket, why in refusals.items() if why)


def _problem(name: str, socket: str, why: str | Refusal) -> Problem:
    if isinstance(why, str):
        return Problem(name, socket, "not_taken", why)
    mends = tuple({f"{name}.{each}": value for each, value in mend.items()} for mend in why.mends)
    return Problem(name, socket, why.code, why.why, kind=why.kind, mends=mends)


class _Given:
    """One node's inputs, for its sketch."""

    def __init__(self, walk: Walk, name: str, spec: NodeSpec) -> None:
        self._walk, self._name, self._spec = walk, name, spec
        self.workspace = walk.workspace
        self.is_machine_known = walk.is_machine_known
        self.problems: tuple[str, ...] = ()

    @property
    def accelerators(self) -> Sequence[str]:
        return self._walk.accelerators()

    def value(self, socket: str) -> Any:
        found = self._spec.input(socket)
        assert found is not None, f"{self._spec.id} has a socket {socket}"
        value, problems = self._walk.value(self._name, found)
        self.problems += tuple(each for each in problems if each not in self.problems)
        return value

    def has(self, socket: str) -> bool:
        """Not what a file gives to a socket that the node has not, such as one of another class."""
        return self._spec.input(socket) is not None and self._walk.has(self._name, socket)

    def number(self, socket: str) -> float:
        return if_known(lambda: float(self.value(socket) or 0), 0.0)

    def tell(self, problem: str) -> None:
        self.problems += (problem,)
