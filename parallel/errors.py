"""What can go wrong, as one tree: each class has a code, and by it everybody tells what happened.

The code is in the JSON of the command line, in manifests, in the state of runs that the page shows, in answers by HTTP,
and in what a rank tells of its failure. Codes and class names stay; texts are for people and may change. What Python
and libraries raise counts as the class that `kind_of` finds for it, so a plain ValueError is "bad-input".

    class                   code          where   HTTP  file
    LoomError               internal      us      500  parallel/errors.py: what nobody foresaw
    +- BadInput             bad-input     input   400  parallel/errors.py: any ValueError
    |  +- GraphError        bad-workflow  input   400  nodes/graph/problems.py
    |  +- Unknown           not-known     input   400  nodes/graph/sketch.py: within the checker only
    |  +- Refused           refused       input   400  nodes/graph/sketch.py: within the checker only
    |  +- Folded            folded        input   400  nodes/graph/unfolding/subs.py: within the checker only
    |  +- JsonFault         bad-json      input   400  pipelines/models/regular_file.py
    |  +- OutsideRoots      outside-roots input   400  pipelines/models/source.py
    |  +- NotPulled         not-pulled    machine 400  pipelines/models/source.py
    |  +- NotFinite         not-finite    input   400  pipelines/failures.py
    |  +- NotTheSame        not-the-same  input   400  pipelines/selfcheck/first_use.py
    |  +- NotWritten        not-written   machine 400  nodes/files/atomic.py
    |  +- InUse             in-use        machine 400  nodes/headless/lifetime.py
    |  +- NotFetched        not-fetched   machine 400  pipelines/hub/look.py
    |  |  +- Gated          gated         input   400  pipelines/hub/look.py
    |  +- NoRoom            no-room       machine 507  ui/errors.py
    |  +- PortTaken         port-taken    machine 400  ui/listening.py
    |  +- TooMany           too-many      machine 429  ui/errors.py
    +- OutOfMemory          out-of-memory machine 500  parallel/errors.py: any lack of memory
    +- RankFailed           rank-failed   machine 500  parallel/errors.py
    +- PeerLost             peer-lost     machine 500  parallel/errors.py: inside ranks only
    +- BadWires             bad-wires     machine 500  parallel/errors.py: inside ranks only
    +- Done                 section-done  us      500  parallel/sharding/sections/walks.py: inside ranks only
    +- Unheard              unheard       machine 500  parallel/sharding/sections/mail.py: inside ranks only
    +- BadMessage           bad-message   us      500  parallel/errors.py: between processes only
    +- Closed               closed        machine 500  parallel/errors.py: between processes only
    +- Unproven             unproven      us      500  pipelines/selfcheck/passes.py: within a self-check only
    +- MachineLost          machine-lost  machine 500  pipelines/cluster/machine.py: within a cluster only
    +- WorkerLost           worker-lost   machine 500  ui/worker/work.py: within the page's server only
    +- NodeFailed           node-failed   us      500  nodes/execution/failure.py
    +- NotHere              not-here      input   404  ui/errors.py
    +- Conflict             conflict      input   409  ui/errors.py
    +- Superseded           superseded    input   409  ui/errors.py
    +- KeyTaken             key-taken     input   422  ui/errors.py
    +- NotLoggedIn          not-logged-in input   401  ui/errors.py
    +- OutOfScope           out-of-scope  input   403  ui/errors.py
    +- Draining             draining      machine 503  ui/errors.py
    +- DownloadsOff         downloads-off input   403  ui/errors.py
    +- CutOff               cut-off       input   408  ui/access/gate.py
    +- Wrong                wrong-field   input   400  ui/api/openai/route.py
    Cancelled               cancelled     user    500  parallel/errors.py: a BaseException; Ctrl-C counts as one

*Where* says whose matter a failure is, and so what to do: `input` is mended by whoever asked, and by no second try;
what is at fault with the `machine` may go well later, or elsewhere; `us` is this program, or a node's own code.
"""

import difflib
import errno
import sys
from collections.abc import Iterable
from typing import Any, ClassVar

from .wording import worded


class LoomError(Exception):
    """The root. One error may have a `code` of its own, where another process or a cause has told it."""

    code: str = "internal"
    http_status: ClassVar[int] = 500

    def __init__(self, *told: object, code: str = "") -> None:
        super().__init__(*told)
        self.code = code or self.code


class Cancelled(BaseException):  # no `Exception`: diffusers' loops turn every one of those into a log
    """The user asked for the run to end."""

    code: str = "cancelled"
    http_status: ClassVar[int] = 500


class BadInput(LoomError, ValueError):
    """What the user controls is not as it must be; the text says what would be right, and what to do. With values it is
    a template for `worded`."""

    code = "bad-input"
    http_status = 400

    def __init__(self, text: str = "", *values: object, code: str = "") -> None:
        super().__init__(worded(text, *values) if values else text, code=code)


class OutOfMemory(LoomError, RuntimeError):
    """A process or a device had no room; the text is the sentence for the user. Its code is `EASED` where less is kept
    there from now on, so that the same may be tried again."""

    code = "out-of-memory"


EASED = "out-of-memory-eased"  # seen by whoever tries again, and by nobody behind them


class RankFailed(LoomError, RuntimeError):
    """A rank raised, died or was silent; the message begins with its number."""

    code = "rank-failed"


class PeerLost(LoomError, RuntimeError):
    """A rank cannot go on because another one has failed, which is the cause to tell."""

    code = "peer-lost"


class BadWires(LoomError, RuntimeError):
    """What ranks send to each other does not arrive, or not as it was sent."""

    code = "bad-wires"


class BadMessage(LoomError):
    """A process was told what it does not understand, or what is not for it."""

    code = "bad-message"


class Closed(LoomError):
    """The other side of a connection is gone."""

    code = "closed"


# Whose matter a failure is, by its code, where it is not `us`.
INPUT = (
    *("bad-input", "bad-workflow", "not-known", "refused", "folded", "bad-json", "outside-roots", "not-finite"),
    *("not-the-same", "gated", "not-here", "conflict", "superseded", "key-taken", "not-logged-in", "out-of-scope"),
    *("downloads-off", "cut-off", "wrong-field"),
)
MACHINE = (
    *("out-of-memory", "out-of-memory-eased", "rank-failed", "peer-lost", "bad-wires", "unheard", "closed"),
    *("machine-lost", "worker-lost", "not-pulled", "not-written", "in-use", "not-fetched", "no-room"),
    *("port-taken", "too-many", "draining"),
)
WHERE = {"cancelled": "user"} | dict.fromkeys(INPUT, "input") | dict.fromkeys(MACHINE, "machine")
# The exit code of a command that a failure ends. 75 is EX_TEMPFAIL of sysexits.h: again, here later or elsewhere.
EXIT_CODES = {"us": 1, "input": 2, "machine": 75, "user": 130}


def where_of(code: str) -> str:
    """Whose matter a failure with this code is: `input`, `machine`, `us` or `user`."""
    return WHERE.get(code, "us")


def as_told(code: str) -> dict[str, Any]:
    """What programs are told of a failure beside its text."""
    return {"code": code, "where": where_of(code), "retryable": where_of(code) == "machine"}


def kind_of(error: BaseException) -> type[LoomError] | type[Cancelled]:
    """The class of the tree that an error is of, or counts as."""
    if isinstance(error, LoomError | Cancelled):
        return type(error)
    if isinstance(error, KeyboardInterrupt):
        return Cancelled
    if is_out_of_memory(error):
        return OutOfMemory
    return BadInput if isinstance(error, ValueError) else LoomError


def code_of(error: BaseException) -> str:
    """The code of an error: its own, or of the class that it counts as."""
    return error.code if isinstance(error, LoomError | Cancelled) else kind_of(error).code


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, an accelerator's, or torch's on the CPU. This imports no torch."""
    if isinstance(error, MemoryError | OutOfMemory):
        return True
    if "torch" in sys.modules:
        import torch  # waits where another thread is not yet through with importing it

        # Of an accelerator alone: for the CPU's allocator torch has no class, only words.
        if isinstance(error, torch.OutOfMemoryError):
            return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("defaultcpuallocator" in text or "out of memory" in text)


def one_line(error: BaseException, *, most: int = 300) -> str:
    """What an error says, for a sentence of ours; of one that says nothing its name."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else text[:most] + "..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with a space behind it, for a sentence that refuses a name; empty where none is like it."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""
