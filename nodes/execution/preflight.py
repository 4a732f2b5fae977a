"""Whether a workflow will run, found before it does: wiring and values, then files, models, plans, memory and disk.

Torch is not imported and nothing is loaded. What headers and numbers can tell is an error, what is reckoned an estimate
that may be off, and what is seen to be known to nobody before the run a note, which keeps nothing from running.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...parallel.machine.now import DeviceNow
from ...parallel.progress import SILENT
from ...parallel.wording import worded
from ...pipelines.models.facts import why_unknown
from ..files.workspace import Workspace
from ..graph.check import check
from ..graph.problems import GraphError, Problem
from ..graph.ready import Ready
from ..preview.meant import Meant, Sizes, meant, readings_of, sizes
from ..preview.preview import TOO_MANY, planned
from ..preview.room import why_no_room, written
from ..preview.walk import Walk, refused
from .schedule import needs_of_checked

KINDS = ("error", "estimate", "unknown")  # in the order in which they are told
UNKNOWN_WORDS = "unknown_words"
NOT_ASKED = "whether it fits is not known, because nobody has asked the cluster's machines for their memory"


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """What is known of a run before it."""

    problems: list[Problem]  # errors first
    values: Meant = field(default_factory=Meant)  # what 0, "" and "auto" will be, by node and socket
    # Which sizes the models of nodes with a canvas paint, by node.
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    num_bytes: int = 0  # of the files that it saves, at most, as far as that is known


def foretell(
    ready: Ready,
    *,
    workspace: Workspace,
    machine: Sequence[DeviceNow],
    targets: Collection[str] | None = None,
    go_on: Callable[[], None] = SILENT.check,
) -> Foretold:
    """What is known of a workflow, or of what its `targets` need. Of one that is not sound in itself no more problems
    are looked for, but values may be known. `go_on` raises `Cancelled` where nobody wants to know any more."""
    accelerators = [device.name for device in machine if device.name != "cpu"]
    walk = Walk(ready, workspace=workspace, accelerators=accelerators, go_on=go_on)
    if found := check(ready):
        return Foretold(problems=found, values=meant(walk), sizes=sizes(walk))
    try:
        needs = needs_of_checked(ready, targets)
    except GraphError as error:  # all of it is muted
        return Foretold(problems=list(error.problems), values=meant(walk), sizes=sizes(walk))
    needed = frozenset(needs.order or needs.nodes)  # all of one that makes nothing yet
    found = list(refused(walk, needed))
    told = {problem.message for problem in found}
    plans = planned(walk, machine)[0]
    for node in plans:
        if node.problem and node.problem_code and node.problem not in told:
            kind = "estimate" if node.problem_code == "memory" else "error"
            mends = tuple(node.mends)
            found.append(Problem(node.node, "", node.problem_code, node.problem, kind=kind, mends=mends))
        elif node.problem == TOO_MANY:
            found.append(_note(node.node, TOO_MANY))
        elif workspace.place.cluster and not node.problem:
            found.append(_note(node.node, NOT_ASKED))
    # words that a toy model would pass over, and make something else of the rest
    for name, reading in readings_of(walk).items():
        for socket, text in reading.texts.items():
            if why := why_unknown(reading.model, text):
                found.append(Problem(name, socket, UNKNOWN_WORDS, why, kind="unknown"))
    for name, origin in walk.silent.items():
        why = worded(
            "what it gives is known only when it runs, as it comes from {} without a sketch; what uses it may fail",
            origin,
        )
        found.append(_note(name, why))
    saved = written(walk, needed)
    num_bytes = sum(saved.values())
    if why := why_no_room(num_bytes, workspace):
        found.append(Problem(max(saved, key=lambda name: saved[name]), "", "disk", why, kind="estimate"))
    problems = sorted((each for each in found if each.node in needed), key=lambda problem: KINDS.index(problem.kind))
    problems = ready.unfolding.told(problems)
    return Foretold(problems=problems, values=meant(walk, needed, plans), sizes=sizes(walk), num_bytes=num_bytes)


def blocking(problems: Iterable[Problem], *, is_forced: bool) -> Iterator[Problem]:
    """Those that keep a workflow from running: what is reckoned does not where it `is_forced`, and notes never do."""
    return (each for each in problems if each.kind == "error" or (each.kind == "estimate" and not is_forced))


def _note(node: str, message: str) -> Problem:
    return Problem(node, "", "not_known", message, kind="unknown")
