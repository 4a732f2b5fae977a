"""AllGather-KV: every rank gathers all keys and values and attends with its own queries, once.

One attention call with any kernel and any mask, at the price of one layer's keys and values on every rank (the context
parallelism of Llama 3, Dubey et al., 2024, arXiv:2407.21783, section 3.3.2).
"""

# B batch, H heads of q, K heads of k and v, S tokens here, T tokens of the joint sequence, D head width

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..collectives import start_exchange, traced_gather
from ..group import Axis, Group
from ..layout import Layout
from ..mesh import Mesh
from ..traffic import Shape
from . import rows
from .exchange import authored, check, share_answers
from .packed import gathering
from .strategy import Attend, Kernel, Terms, Wired

AXIS = Axis.EXCHANGE


def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, terms: Terms, inner: Attend) -> Tensor:
    """Collective: one gather of keys and values, and one of the answers to replicated queries."""
    layout, mesh, mask = terms.layout, terms.mesh, terms.mask
    check(layout, mesh)
    if not q.shape[1]:  # Ulysses gave this rank no heads, nor any of its exchange group
        return q
    group = mesh[Axis.EXCHANGE]
    start = _start_packed if group.packs else _start_pieces
    arrived = start(k, v, layout=layout.keys, group=group)
    local, joint = authored(layout, group.index)  # what needs no keys is done while they travel
    queries = rows.take(q, 2, local)
    if mask is not None and mask.shape[2] > 1:
        mask = rows.take(mask, 2, joint)
    keys, values = rows.unpack(arrived(), (k.shape[1], k.shape[1]))
    whole = layout.merged(layout.num_ranks)
    out = inner(queries, keys, values, scale=scale, terms=Terms(whole, mesh, terms.kernel, mask))
    return share_answers(out, layout=layout, mesh=mesh)


def wire(shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Sequence[int], Any]:
    group = mesh[Axis.EXCHANGE]
    way = gathering(layout, group.index, device)
    return (group.size,), (way.sent, way.order)


def traced(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, kernel: Kernel, wire: Wired) -> Tensor:
    name, (size,), (pick, order) = wire
    num_keys = k.shape[1]
    sent = torch.cat([x.permute(2, 0, 1, 3) for x in (k, v)], 2).index_select(0, pick)  # S B 2K D
    whole = traced_gather(sent, size, name)
    whole = whole if order is None else whole.index_select(0, order)
    keys, values = whole.permute(1, 2, 0, 3).split((num_keys, num_keys), 1)
    return kernel.plain(q, keys, values, None, scale)


def _start_packed(k: Tensor, v: Tensor, *, layout: Layout, group: Group) -> Callable[[], Tensor]:
    """Collective: what is given back gives T B 2K D rows of the joint sequence."""
    # Begun when they are asked for: the host waits for nothing here, and the device's stream keeps the order anyway.
    way = gathering(layout, group.index, k.device)
    return partial(way.gather, [k.transpose(1, 2), v.transpose(1, 2)], group=group)


def _start_pieces(k: Tensor, v: Tensor, *, layout: Layout, group: Group) -> Callable[[], Tensor]:
    """Collective: the same, each piece where it belongs among the joint rows; what is given back waits."""
    batch, kv_heads, _, width = k.shape
    joint = k.new_empty(layout.length, batch, 2 * kv_heads, width)
    for local, place in zip(layout.local_ranges(group.index), layout.positions(group.index), strict=True):
        rows.pack((k, v), [local], out=joint[slice(*place)])
    held = [
        [joint[slice(*place)] for place in layout.positions(member, replicated=False)] for member in range(group.size)
    ]
    wait = start_exchange([held[group.index]] * group.size, held, group=group)

    def arrived() -> Tensor:
        wait()
        return joint

    return arrived
