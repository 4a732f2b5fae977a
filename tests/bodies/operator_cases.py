"""Random attention calls, spread over ranks and answered by one fp64 softmax: what the property test is made of."""

# B batch, H heads, K heads of k and v, S tokens of the joint sequence, D head width

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bodies.meshes import group_mesh, packing
from latentloom.parallel.attention.rows import cut_along
from latentloom.parallel.attention.standing import Standing
from latentloom.parallel.layout import Layout
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.sharding.operator import Asked
from latentloom.parallel.sharding.session import Session
from latentloom.parallel.sharding.split_plan import Attend, SplitPlan

PLANS = (
    "ulysses=1",
    "ulysses=2",
    "ring=2",
    "allgather=2",
    "ulysses=3",
    "ring=3",
    "allgather=3",
    "ulysses=4",
    "ring=4",
    "allgather=4",
    "ulysses=2,ring=2",
    "ulysses=2,allgather=2",
)
LENGTHS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 31)
# bool, additive: of global size; dead: rows without a key; lost: rows of the lowest number; rows, columns: built from
# local lengths on that axis; outer: from the local vector of valid tokens.
FORMS = ("none", "bool", "additive", "dead", "lost", "rows", "columns", "outer", "causal")


@dataclass(frozen=True)
class Call:
    """One attention call: the plan it runs under, its streams, its heads and its mask."""

    seed: int
    plan: str
    streams: tuple[tuple[str, int, bool], ...]  # name, length, is sharded
    batch: int
    heads: int
    kv_heads: int
    width: int
    form: str
    mask_shape: tuple[bool, bool, bool]  # whether the mask has batch, heads and rows of its own
    scale: float | None
    mask_ndim: int  # leading dims of size 1 are left out down to this
    is_strided: bool  # neighbours in the last dim are not neighbours in memory

    @property
    def length(self) -> int:
        return sum(length for _, length, _ in self.streams)


def call(seed: int) -> Call:
    """The call of a number; plans and kinds of mask take turns, so that a hundred in a row meet every pair of them."""
    chance = random.Random(seed)
    count = chance.choice((1, 2, 2, 3))
    streams = [(f"stream{i}", chance.choice(LENGTHS), chance.random() < 0.5) for i in range(count)]
    place = chance.randrange(count)  # one stream at least is sharded and has tokens
    streams[place] = (f"stream{place}", chance.choice(LENGTHS[1:]), True)
    kv_heads = chance.choice((1, 2, 3, 4))
    return Call(
        seed=seed,
        plan=PLANS[seed % len(PLANS)],
        streams=tuple(streams),
        batch=chance.choice((1, 1, 2, 3)),
        heads=kv_heads * chance.choice((1, 1, 2, 3)),
        kv_heads=kv_heads,
        width=chance.choice((4, 8, 16)),
        form=FORMS[seed // len(PLANS) % len(FORMS)],
        mask_shape=(chance.random() < 0.5, chance.random() < 0.5, chance.random() < 0.7),
        scale=chance.choice((None, None, 0.3)),
        is_strided=chance.random() < 0.2,
        mask_ndim=chance.choice((4, 4, 3, 2)),
    )


def answers(rank: int, seeds: list[int], mutation: str = "") -> list[dict[str, Any] | None]:
    """What each call gave on this rank against fp64: None on a rank that takes no part.

    `mutation` is a fault, or "packed" for the way of GPUs, or "standing" for that of all calls but a first.
    """
    found = []
    for seed in seeds:
        try:
            found.append(_answer(call(seed), mutation))
        except Exception as error:
            raise AssertionError(f"{call(seed)}: {error}") from error
    return found


def session_of(streams: tuple[tuple[str, int, bool], ...], mesh: Mesh, mask: str = "global") -> Session:
    """A session in a forward that has met these streams."""
    names = tuple(name for name, _, _ in streams)
    split = SplitPlan(
        least=0,
        order=names,
        either=tuple(name for name, _, is_sharded in streams if not is_sharded),
        blocks=(),
        inputs={},
        outputs={},
        attention={"attn": (Attend(names, names, "outer" if mask == "outer" else "global"),)},
    )
    session = Session(split, mesh, title="Toy", shards_text=False, kernel="auto")
    for name, length, _ in streams:
        session.define(name, length)
    return session


def _answer(case: Call, mutation: str) -> dict[str, Any] | None:
    mesh = group_mesh(case.plan)
    if mesh is None:
        return None
    if mutation in ("packed", "standing"):
        mesh = packing(mesh)
    session = session_of(case.streams, mesh, case.form)
    layout = session.layout(session.split.order)
    generator = torch.Generator().manual_seed(case.seed)
    q, k, v = (
        torch.randn(case.batch, case.length, heads, case.width, generator=generator).transpose(1, 2)
        for heads in (case.heads, case.kv_heads, case.kv_heads)
    )
    if case.is_strided:
        q, k, v = (x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v))
    mask, given = _masks(case, generator, layout, session.rank)
    wanted = cut_along(reference(q, k, v, mask, case.scale), 2, layout=layout, rank=session.rank)
    if mutation == "layout":  # the first sharded stream's tokens are taken for those of the last stream
        layout = Layout(layout.streams[::-1], layout.num_ranks)
        session.layouts = {session.split.order: layout}
    if mutation == "local":
        session._attend = _local
    here = [cut_along(x, 2, layout=session_layout(case, mesh), rank=session.rank) for x in (q, k, v)]

    def attend(*blocks: Tensor) -> Tensor:
        asked = Asked(*blocks, given, is_causal=case.form == "causal", scale=case.scale)
        return session.attend(asked, session.kinds.index(_kind(session)))

    got = _behind_another(attend, here, session) if mutation == "standing" else attend(*here)
    assert got.shape == wanted.shape, f"{tuple(got.shape)}, not {tuple(wanted.shape)}"
    return {
        "difference": float((got - wanted).abs().max()) if got.numel() else 0.0,
        "largest": float(wanted.abs().max()) if got.numel() else 0.0,
        "bits": replicated_bits(got, layout, session.rank),
        "all_bits": zlib.crc32(got.contiguous().numpy().tobytes()),
        "stands": any(isinstance(each, Standing) for each in session._decided.values()),
    }


def replicated_bits(got: Tensor, layout: Layout, rank: int) -> int:
    """Of the rows that all ranks hold."""
    held = [
        got[:, :, start:end].contiguous().numpy().tobytes()
        for stream, (start, end) in zip(layout.streams, layout.local_ranges(rank), strict=True)
        if not stream.is_sharded
    ]
    return zlib.crc32(b"".join(held))


def _behind_another(attend: Callable[..., Tensor], here: Sequence[Tensor], session: Session) -> Tensor:
    """The answer to a second call, which leaves that to the first alone."""
    session.is_agreed = True
    with torch.no_grad():
        first = attend(*(x.flip(3) for x in here))
        before = first.clone()
        got = attend(*here)
    assert torch.equal(first, before), "an answer was written over"
    if any(isinstance(each, Standing) for each in session._decided.values()):
        assert got.transpose(1, 2).is_contiguous(), "else a graph has it copied"
    return got


def session_layout(case: Call, mesh: Mesh) -> Layout:
    session = session_of(case.streams, mesh)
    return session.layout(session.split.order)


def _kind(session: Session) -> Attend:
    return session.split.attention["attn"][0]


def _local(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, **_: Any) -> Tensor:
    if not q.numel():
        return q
    return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=k.shape[1] != q.shape[1])


def _masks(case: Call, generator: torch.Generator, layout: Layout, rank: int) -> tuple[Tensor | None, Tensor | None]:
    """The mask of the whole sequence, and what this rank's model would pass on."""
    size, form = case.length, case.form
    if form == "none":
        return None, None
    if form == "causal":
        return torch.ones(size, size, dtype=torch.bool).tril(), None
    has_batch, has_heads, has_rows = case.mask_shape
    shape = (
        case.batch if has_batch else 1,
        case.heads if has_heads else 1,
        size if has_rows or form == "rows" else 1,
        size,
    )
    valid = torch.rand(shape, generator=generator) < 0.7
    if form == "outer":
        vector = torch.rand(case.batch, 1, size, generator=generator) < 0.7
        vector = vector if has_heads else vector.float()  # numbers are added: 1 where two valid tokens meet
        here = cut_along(vector, 2, layout=layout, rank=rank)
        return vector[..., :, None] * vector[..., None, :], here[..., :, None] * here[..., None, :]
    if form == "dead":
        valid[:, :, ::2] = False
    mask = valid
    if form in ("additive", "rows", "columns", "lost"):
        bias = torch.randn(shape, generator=generator)
        mask = bias.masked_fill(~valid, -torch.inf)
    if form == "dead" and has_heads:
        mask = torch.zeros(shape).masked_fill(~valid, -torch.inf)
    if form == "lost":
        mask[:, :, ::3] = torch.finfo(torch.float32).min
    if case.is_strided:
        mask = mask.transpose(2, 3).contiguous().transpose(2, 3)
    if form in ("rows", "columns"):
        return mask, cut_along(mask, 2 if form == "rows" else 3, layout=layout, rank=rank)
    given = mask
    while (
        given.ndim > case.mask_ndim and given.shape[0] == 1 and not (given.ndim == 3 and given.shape[1] == case.batch)
    ):
        given = given[0]  # as long as it cannot be taken for a mask of batch and keys
    return mask, given


def reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """fp64 softmax attention; rows without a key are 0, as torch gives them."""
    k, v = (x.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = q.double() @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v


def verdict(results: list[dict[str, Any] | None], tolerance: float) -> str:
    """`ok`, or what is wrong with one call's answers on all ranks."""
    got = [result for result in results if result is not None]
    difference, largest = max(r["difference"] for r in got), max(r["largest"] for r in got)
    if not difference <= tolerance * max(1.0, largest):
        return f"off by {difference:.2g} of {largest:.2g}"
    return "ok" if len({r["bits"] for r in got}) == 1 else "the ranks' replicated rows differ"
