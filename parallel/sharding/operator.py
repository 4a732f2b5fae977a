"""Sharded attention as one opaque operator, so that `torch.compile` takes a block in one graph.

Collectives have no place in a traced graph: lengths, groups and counts live in the session, which the operator finds
by number.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .session import Session

_sessions: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()


def register(session: Session) -> int:
    """A number by which the operator finds the session until `release`.

    The lowest free one: a graph holds it, so that a transformer sharded anew finds its graph again.
    """
    number = next(number for number in itertools.count() if number not in _sessions)
    _sessions[number] = session
    return number


def release(session: Session) -> None:
    """Free the session's number."""
    if _sessions.get(session.key) is session:
        del _sessions[session.key]


@torch.library.custom_op("latentloom::attend", mutates_args=())
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, causal: bool, session: int, kind: int
) -> Tensor:
    """Collective: `Session.attend`; B H S D in, B H S D out, laid out as B S H D."""
    found = _sessions[session]
    found.num_calls += 1
    out = found.attend(q, k, v, mask=mask, scale=scale, causal=causal, kind=kind).transpose(1, 2)  # B S H D
    # A graph was promised this layout, and an operator may not give back one of its inputs.
    is_own = all(out.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() for x in (q, k, v))
    out = out if is_own and out.is_contiguous() else out.clone(memory_format=torch.contiguous_format)
    return out.transpose(1, 2)


@attend.register_fake
def _promised(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, causal: bool, session: int, kind: int
) -> Tensor:
    batch, heads, tokens, _ = q.shape
    return q.new_empty(batch, tokens, heads, v.shape[3]).transpose(1, 2)
