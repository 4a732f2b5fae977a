"""How a node's failure is told: one sentence for the user, the cause kept for whoever debugs."""

from __future__ import annotations

from collections.abc import Mapping

from ...parallel.errors import LoomError, code_of, is_out_of_memory
from ...parallel.wording import worded
from ..files.workspace import Host
from ..graph.problems import short
from ..graph.spec import NodeSpec

# For what nobody foresaw.
MORE: Mapping[Host, str] = {
    "python": "the error behind this one says where",
    "command line": "run again with --debug to see where",
    "page": "the server's log says where",
    "comfyui": "the log says where",
}


class NodeFailed(LoomError):
    """A node could not do its work. `__cause__` is the original error with its traceback.

    The code is the cause's, or "node-failed" where nobody foresaw that.
    """

    code = "node-failed"

    def __init__(self, node: str, spec: NodeSpec, title: str, cause: BaseException, host: Host) -> None:
        self.node = node
        self.type = spec.id
        self.title = title or spec.title
        self.sentence = sentence(cause, host)
        if (code := code_of(cause)) != LoomError.code:
            self.code = code
        super().__init__(worded("node {!r} ({}, {}): {}", node, self.title, self.type, self.sentence))
        self.__cause__ = cause


def sentence(error: BaseException, host: Host) -> str:
    """What speaks to the user already stays as it is; anything else gets a sentence around its first line."""
    text = str(error).strip()
    if isinstance(error, ValueError | LoomError) and text:
        return text
    kind = type(error).__name__
    if is_out_of_memory(error):
        return worded("it ran out of memory ({}); use a smaller size, batch or model", _first_line(text) or kind)
    if isinstance(error, OSError) and error.strerror:
        where = f" at {short(str(error.filename))}" if error.filename else ""
        return worded(
            "a file could not be read or written{}: {}; check the path and the free space", where, error.strerror
        )
    return worded("it stopped with {}: {}; {}", kind, _first_line(text) or "no message", MORE[host])


def _first_line(text: str) -> str:
    return text.splitlines()[0][:300] if text else ""
