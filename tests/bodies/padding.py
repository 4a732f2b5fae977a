"""What a rank does to test that the padding of texts is left out: attention calls with and without it."""

# B batch, H heads, S tokens of the joint sequence, D head width

import zlib
from dataclasses import dataclass
from typing import Any

import torch

from bodies.meshes import group_mesh, packing
from bodies.operator_cases import reference, replicated_bits, session_of
from bodies.rank import sent
from latentloom.parallel.attention.rows import cut_along
from latentloom.parallel.layout import Layout
from latentloom.parallel.sharding.operator import Asked
from latentloom.parallel.sharding.padding import Texts, leaving_out
from latentloom.parallel.sharding.split_plan import Padding, Place
from latentloom.parallel.traffic import Shape, traffic_of


@dataclass(frozen=True)
class Call:
    """One attention call to a picture and a text of which each row of the batch shows so many tokens."""

    plan: str
    text: int
    shown: tuple[int, ...]
    place: Place
    is_sharded: bool
    image: int = 13
    heads: int = 5
    kv_heads: int = 5
    is_additive: bool = False


def answers(rank: int, calls: list[Call], packs: bool) -> list[dict[str, Any] | None]:
    """For each call: how far from fp64, the bits, the keys attended to, what was sent and what was reckoned."""
    with leaving_out(True):
        return [_answer(call, packs) for call in calls]


def _answer(call: Call, packs: bool) -> dict[str, Any] | None:
    mesh = group_mesh(call.plan)
    if mesh is None:
        return None
    mesh = packing(mesh) if packs else mesh
    streams = (("image", call.image, True), ("text", call.text, call.is_sharded))
    session = session_of(streams if call.place == "last" else streams[::-1], mesh)
    session.is_agreed = True
    layout = session.layout(session.split.order)
    shown = torch.arange(call.text) < torch.tensor(call.shown)[:, None]
    session.kept = Texts((Padding(("mask",), call.place),)).kept_in({"mask": shown})
    all_shown = torch.ones(len(call.shown), call.image, dtype=torch.bool)
    joint = torch.cat([all_shown, shown] if call.place == "last" else [shown, all_shown], 1)
    mask = joint[:, None, None]
    if call.is_additive:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -10000.0)
    generator = torch.Generator().manual_seed(call.text + call.image)
    counts = (call.heads, call.kv_heads, call.kv_heads)
    q, k, v = (torch.randn(len(call.shown), layout.length, n, 8, generator=generator).transpose(1, 2) for n in counts)
    wanted = cut_along(reference(q, k, v, mask, None), 2, layout=layout, rank=session.rank)
    here = [cut_along(x, 2, layout=layout, rank=session.rank) for x in (q, k, v)]
    before = sent(mesh)
    got = session.attend(Asked(*here, mask), 0)
    after = sent(mesh)
    kept = session.kept[0] if session.kept else None
    asked = Layout(layout.streams, layout.num_ranks, kept.left_out(layout.length)) if kept else layout
    shape = Shape(batch=len(call.shown), heads=call.heads, kv_heads=call.kv_heads, head_dim=8, itemsize=4)
    reckoned = traffic_of(asked, mesh, shape=shape)
    return {
        "difference": float((got - wanted).abs().max()) if got.numel() else 0.0,
        "bits": replicated_bits(got, layout, session.rank),
        "keys": asked.keys.length,
        "of this rank": asked.keys.num_held(session.rank),
        "sent": (after[0] - before[0], after[1] - before[1]),
        "reckoned": (reckoned.sent_bytes, reckoned.calls),
        "all_bits": zlib.crc32(got.contiguous().numpy().tobytes()),
    }
