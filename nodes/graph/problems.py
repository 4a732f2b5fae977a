"""What is wrong with a workflow: one `Problem` per fault, the error that carries all of them, and JSON that is none.

Each has the node and socket that it is about, a code for programs and a sentence for people; unknown names offer the
nearest. What a stranger's file says is read here, within bounds.
"""

import difflib
import reprlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...parallel.errors import BadInput, where_of
from ...parallel.wording import worded
from ...pipelines.models.regular_file import JsonFault, open_regular, parse_strict

SHOWN_PROBLEMS = 20
NEAREST_POOL = 300  # difflib is slow; a hostile file with 10,000 names must not make the checker hang

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = 2


# A fact that keeps the workflow from running; a reckoned need that may be off, which `--force` passes; or what nobody
# knows before the run.
Kind = Literal["error", "estimate", "unknown"]


@dataclass(frozen=True)
class Problem:
    """One fault. `node` and `socket` are empty where the fault belongs to the whole file."""

    node: str
    socket: str
    code: str
    message: str
    kind: Kind = "error"
    mends: tuple[Mapping[str, Any], ...] = ()
    """Values that mend it, each a set of them by node.socket, the nearest first."""
    inside: str = ""
    """Where it lies inside of a sub-workflow or a for-each, of which `node` is the file's: paint/3/denoise.steps."""

    def __str__(self) -> str:
        where = ".".join(part for part in (self.node, self.socket) if part)
        return worded("{}: {}", where, self.message) if where else self.message


class GraphError(BadInput):
    """A workflow that cannot be read or run. The only error that reading and checking raise."""

    code = "bad-workflow"
    # What another machine, or this one at another time, would not say, by the codes of problems.
    OF_MACHINES: ClassVar = {"disk": "not-written", "memory": "out-of-memory"}

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        found = {self.OF_MACHINES.get(problem.code, problem.code) for problem in self.problems}
        codes = {code if where_of(code) == "machine" else GraphError.code for code in found}
        if GraphError.code not in codes and codes:
            self.code = min(codes)
        lines = [str(p) for p in self.problems[:SHOWN_PROBLEMS]]
        if len(self.problems) > SHOWN_PROBLEMS:
            lines.append(f"... and {len(self.problems) - SHOWN_PROBLEMS} more problems")
        super().__init__("\n".join(lines))


def refuse(code: str, message: str, *, node: str = "", socket: str = "") -> GraphError:
    """The error for a single problem."""
    return GraphError([Problem(node, socket, code, message)])


def short(value: object) -> str:
    """`repr`, cut to a length that fits in a sentence."""
    return _SHORT.repr(value)


class Names:
    """Says which names there are and which is nearest. Suggests only a few times: see `NEAREST_POOL`."""

    def __init__(self, budget: int = 30) -> None:
        self.budget = budget

    def offer(self, name: str, known: Collection[str]) -> str:
        """A clause such as "did you mean 'steps'? there is guidance, steps", or "there is none"."""
        if not known:
            return "there is none"
        listed = ", ".join(islice(known, 12)) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
        self.budget -= 1
        pool = islice(known, NEAREST_POOL)
        near = difflib.get_close_matches(name[:128], [*pool], n=1) if self.budget >= 0 else []
        return worded("did you mean {!r}? there is {}", near[0], listed) if near else worded("there is {}", listed)


# ---- Reading JSON from strangers: bounded size and nesting, no duplicate keys, no NaN, and one sentence when refused.

MAX_BYTES = 4 * 2**20

REMEDIES = {
    "not_text": "is it a workflow?",
    "too_deep": "a workflow needs 6 levels, is it one?",
    "not_json": "correct it there",
    "duplicate_key": "keep one of them",
    "not_a_number": "write a finite number of at most 64 bits",
}


def read_bytes(path: Path) -> bytes:
    """The content of a workflow file; `GraphError` when it is missing, no plain file, or too large."""
    try:
        with open_regular(path) as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refuse(
            "file", worded("{} cannot be read: {}; give a workflow's .json file", short(str(path)), reason)
        ) from None


def parse_json(source: str | bytes, *, takes_nan: bool = False) -> Any:
    """Plain data from JSON text. Raises `GraphError`, and nothing else, whatever the text is."""
    if len(source) > MAX_BYTES:
        raise refuse("too_large", worded("the file is larger than {} bytes, the limit; is it a workflow?", MAX_BYTES))
    try:
        return parse_strict(source, takes_nan=takes_nan)
    except JsonFault as error:
        remedy = REMEDIES[error.fault]
        raise refuse(error.fault, worded("the file is not JSON that we read: {}; {}", error.reason, remedy)) from None
