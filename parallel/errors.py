"""What can go wrong, as one tree: each class has a code, and by it everybody tells what happened.

The code is in the JSON of the command line, in manifests, in the state of runs that the page shows, in answers by HTTP,
and in what a rank tells of its failure. Codes and class names stay; texts are for people and may change. What Python
and libraries raise counts as the class that `kind_of` finds for it, so a plain ValueError is "bad-input".

    class                   code               exit  HTTP  where
    LoomError               internal              1   500  parallel/errors.py: what nobody foresaw
    +- BadInput             bad-input             2   400  parallel/errors.py: any ValueError
    |  +- GraphError        bad-workflow          2   400  nodes/graph/problems.py
    |  +- Unknown           not-known             2   400  nodes/graph/sketch.py: within the checker only
    |  +- Refused           refused               2   400  nodes/graph/sketch.py: within the checker only
    |  +- Folded            folded                2   400  nodes/graph/unfolding/subs.py: within the checker only
    |  +- JsonFault         bad-json              2   400  pipelines/models/regular_file.py
    |  +- OutsideRoots      outside-roots         2   400  pipelines/models/source.py
    |  +- NotPulled         not-pulled            2   400  pipelines/models/source.py
    |  +- NotFinite         not-finite            2   400  pipelines/failures.py
    |  +- NotTheSame        not-the-same          2   400  pipelines/selfcheck/first_use.py
    |  +- NotWritten        not-written           2   400  nodes/files/atomic.py
    |  +- InUse             in-use                2   400  nodes/headless/lifetime.py
    |  +- NotFetched        not-fetched           2   400  pipelines/hub/look.py
    |  |  +- Gated          gated                 2   400  pipelines/hub/look.py
    |  +- NoRoom            no-room               2   507  ui/errors.py
    +- OutOfMemory          out-of-memory         1   500  parallel/errors.py: any lack of memory
    +- RankFailed           rank-failed           1   500  parallel/errors.py
    +- PeerLost             peer-lost             1   500  parallel/errors.py: inside ranks only
    +- BadWires             bad-wires             1   500  parallel/errors.py: inside ranks only
    +- Done                 section-done          1   500  parallel/sharding/sections/walks.py: inside ranks only
    +- Unheard              unheard               1   500  parallel/sharding/sections/mail.py: inside ranks only
    +- BadMessage           bad-message           1   500  parallel/errors.py: between processes only
    +- Closed               closed                1   500  parallel/errors.py: between processes only
    +- Unproven             unproven              1   500  pipelines/selfcheck/passes.py: within a self-check only
    +- MachineLost          machine-lost          1   500  pipelines/cluster/machine.py: within a cluster only
    +- WorkerLost           worker-lost           1   500  ui/worker/work.py: within the page's server only
    +- NodeFailed           node-failed           1   500  nodes/execution/failure.py
    +- NotHere              not-here              2   404  ui/errors.py
    +- Conflict             conflict              2   409  ui/errors.py
    +- Superseded           superseded            2   409  ui/errors.py
    +- NotLoggedIn          not-logged-in         2   401  ui/errors.py
    +- DownloadsOff         downloads-off         2   403  ui/errors.py
    +- CutOff               cut-off               2   408  ui/access/gate.py
    Cancelled               cancelled           130   500  parallel/errors.py: a BaseException; Ctrl-C counts as one
"""

import difflib
import errno
import sys
from collections.abc import Iterable
from typing import ClassVar


class LoomError(Exception):
    """The root. `code` may be set on one error, where another process or a cause has told it."""

    code: str = "internal"
    # The exit code of a command that this error ends: 1 it failed, 2 it was asked for what cannot be.
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


class Cancelled(BaseException):  # no `Exception`: diffusers' loops turn every one of those into a log
    """The user asked for the run to end."""

    code: str = "cancelled"
    exit_code: ClassVar[int] = 130
    http_status: ClassVar[int] = 500


class BadInput(LoomError, ValueError):
    """What the user controls is not as it must be; the text says what would be right, and what to do."""

    code = "bad-input"
    exit_code = 2
    http_status = 400


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
