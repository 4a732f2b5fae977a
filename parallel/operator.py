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
_numbers = itertools.count()


def register(session: Session) -> int:
    """A number by which the operator finds the session for as long as it lives."""
    number = next(_numbers)
    _sessions[number] = session
    return number


@torch.library.custom_op("latentloom::attend", mutates_args=())
def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, causal: bool, session: int, kind: int
) -> Tensor:
    """Collective: `Session.attend`; B H S D in, B H S D out, laid out as B S H D."""
    out = _sessions[session].attend(q, k, v, mask=mask, scale=scale, causal=causal, kind=kind)
    # what the graph was promised; an operator may not give back one of its inputs either
    return out.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)


@attend.register_fake
def _promised(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, causal: bool, session: int, kind: int
) -> Tensor:
    batch, heads, tokens, _ = q.shape
    return q.new_empty(batch, tokens, heads, v.shape[3]).transpose(1, 2)
