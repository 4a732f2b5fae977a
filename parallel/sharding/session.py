"""A session: one sharded transformer at work. It answers the attention calls of the forward under way.

A session is a `TorchFunctionMode`, entered for each block of its transformer: it sees calls of
`F.scaled_dot_product_attention` in this thread only, and nothing of torch is patched. A patch would catch the model of
another thread, and would outlive an exception.

What an attention call does is its *kind*: a number, because it goes into a compiled graph, that stands for the `Attend`
of the split plan. Hooks say the kinds of the coming calls before a module runs:

    root pre-hook     begin, enter               streams are forgotten
    block pre-hook    depth + 1                  attention is seen; calls outside a block are left to torch
    attention module  calls = its kinds          ... and (0,), joint self attention, after it
    F.sdpa            __torch_function__ -> _intercepted -> attend -> the plan's strategies
    root hook         leave                      always called, after an exception too
"""

# B batch, H heads, S tokens here, T keys here, D head width

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import compose
from ..attention.choice import choose
from ..attention.mask import collapsed, global_mask, outer_mask
from ..attention.rows import answers_of, cut_along, filled, take
from ..attention.standing import standing
from ..attention.strategy import Kernel, Terms
from ..group import Axis
from ..layout import Layout
from ..mesh import Mesh
from ..traffic import Shape
from . import operator
from .fingerprint import Due, check_same
from .graphs.traced import AttentionCall, Wire, way_of, wire_of
from .padding import KeptKeys, Texts, kept_among, without
from .split_plan import LOCAL, Attend, SplitPlan
from .streams import Streams


class Session(Streams, operator.Intercepting):
    """What hooks and processors of one sharded transformer share; `begin` starts each forward anew."""

    def __init__(self, split: SplitPlan, mesh: Mesh, *, title: str, shards_text: bool, kernel: str | Kernel) -> None:
        operator.Intercepting.__init__(self)
        Streams.__init__(self, split, mesh, title=title, shards_text=shards_text)
        self.kernel = kernel
        self.texts = Texts(split.paddings)
        self.kinds = split.kinds()
        self._attend = compose(mesh.plan)
        self.comparing = Due()
        # Whether all ranks have seen that the split plan describes this transformer's calls: see `_agree`.
        self.is_agreed = self.mesh[Axis.SEQUENCE].size == 1
        self.is_cached = False  # a step cache may leave out every block
        # The transformer's own forward runs: another model may share its modules, as Z-Image's ControlNet does.
        self.is_entered = False
        self._is_watching = False  # the mode is on: never twice, for leaving it once would leave one behind
        self.compiled = set[nn.Module]()  # blocks that run in graphs
        self._learned: list[AttentionCall] | None = None  # where calls are noted, while a block is met first
        self.begin()

    def compare(self, given: Mapping[str, Any]) -> None:
        """Collective in a first forward: ranks compare what they are given, and agree on what each attention is."""
        if self.comparing.is_now():
            self.is_agreed = self.mesh[Axis.SEQUENCE].size == 1
            check_same(given, self.mesh[Axis.SEQUENCE], title=self.title, around=self.mesh[Axis.WEIGHTS])
            self.texts = Texts(self.split.paddings)  # a rank that began anew knows of no mask before this one
            self.comparing.is_done()

    def begin(self) -> None:
        """Forget the forward before."""
        self.forget()
        self.depth = 0  # of blocks entered and not left
        self.calls: tuple[int, ...] = (0,)  # the kinds of the coming attention calls, the last for all further ones
        self.kept: tuple[KeptKeys, ...] = ()  # of texts that have padding
        self.entered = set[str]()  # the paths of lists of blocks of which the first has run
        # By argument what a block was given last, how it is cut, and this rank's part of it.
        self.parts: dict[str, tuple[Any, Any, list[int], Any]] = {}
        # What answers the self attention of all streams without a mask, by kinds and shapes.
        self._decided: dict[Hashable, Callable[..., Tensor]] = {}
        self.num_calls = 0
        self.gathered = set[str]()  # the paths of the outputs that are whole again

    def enter(self) -> None:
        """The forward runs, in this thread."""
        self.leave()  # Ctrl-C ends a forward without its always-called hooks
        operator.enter(self)
        self.is_entered = True

    def leave(self) -> None:
        """It has ended; nothing happens if it failed before it was entered."""
        if self.is_entered:
            self.is_entered = False
            # Both hold tensors as large as what a block is given: nothing is to be held while a picture is decoded.
            self.parts.clear()
            self._decided.clear()
            operator.leave(self)
            self._look_away()

    def enter_block(self, block: nn.Module) -> None:
        """See the attention calls of this thread from now on."""
        self.depth += 1
        self.calls = (0,)
        # A mode sees each function of torch in its thread, in Python. So it is off outside of blocks, and around the
        # graph of a compiled one, which has its calls answered inside.
        if not self._is_watching and block not in self.compiled:
            self.__enter__()
            self._is_watching = True

    @contextlib.contextmanager
    def seeing(self) -> Iterator[None]:
        """See the attention calls within, of a block that is compiled."""
        self.__enter__()
        self._is_watching = True
        try:
            yield
        finally:
            self._look_away()

    @contextlib.contextmanager
    def learning(self) -> Iterator[list[AttentionCall]]:
        """The same, and note them."""
        self._learned = []
        try:
            with self.seeing():
                yield self._learned
        finally:
            self._learned = None

    def leave_block(self) -> None:
        self.depth -= 1  # a block may have others inside it
        if not self.depth:
            self._look_away()

    def _look_away(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self.take_off()

    # ---- attention

    def _intercepted(self, asked: operator.Asked) -> Tensor:
        if asked.dropout_p:
            told = f"attention with dropout {asked.dropout_p} cannot be sharded; call its eval() first"
            raise ValueError(f"{self.title}: {told}")
        if asked.is_causal and asked.attn_mask is not None:
            raise ValueError(f"{self.title}: an attention call is causal and masked as well; torch takes one of both")
        kind, self.calls = self.calls[0], self.calls[1:] or self.calls
        if self._learned is not None:
            self._learned.append(self._learn(asked, kind))
        if torch.compiler.is_compiling():
            return asked.by_operator(kind)
        self.num_calls += 1
        return self.attend(asked, kind)

    def _learn(self, asked: operator.Asked, kind: int) -> AttentionCall:
        """How such a call goes in a graph: on all ranks alike, but where one has nothing to attend to or with."""
        q, k, v = asked[:3]
        call = self._met(self.kinds[kind], k.shape[2])
        layout = self.layout(call.keys)
        # A stream that the call itself measures is measured anew in each, and no graph may hold how long it was.
        is_measured = any(self.split.measured(call))
        if asked.attn_mask is not None or asked.is_causal or call.queries != call.keys or is_measured:
            return AttentionCall(kind, "opaque")
        if not layout.is_split:
            return AttentionCall(kind, "plain" if q.numel() and k.numel() else "opaque")
        here, kernel = layout.num_held(self.rank), self._choose(q)
        is_usual = q.shape[2] == k.shape[2] == here and k.shape == v.shape and not q.shape[1] % max(1, k.shape[1])
        way = way_of(self.mesh, layout, kernel) if is_usual and kernel.fits(q, k, v) else "opaque"
        if way == "opaque":
            return AttentionCall(kind, way)
        batch, heads, _, width = q.shape
        shape = Shape(batch=batch, heads=heads, kv_heads=k.shape[1], head_dim=width, itemsize=q.element_size())
        return AttentionCall(kind, way, call.keys, shape, kernel)

    def wires(self, calls: Sequence[AttentionCall], device: torch.device) -> list[Wire | None]:
        """Of calls that were learned, for the lengths of this forward; None of those that need none."""
        return [wire_of(call, self.layout(call.streams), self.mesh, device) if call.streams else None for call in calls]

    @operator.in_no_graph
    def attend(self, asked: operator.Asked, kind: int) -> Tensor:
        """Collective: one attention call, by what the split plan says of it; B H S D to B H S D."""
        q, k, v, mask, _, causal, scale, _ = asked
        # Some fifty calls of a forward are alike: what the first was found to be holds for the others. Not before all
        # ranks have agreed, since `_agree` is a collective that none may skip.
        usual = None
        if mask is None and not causal and self.is_agreed:
            usual = (kind, q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype)
            if (decided := self._decided.get(usual)) is not None:
                return decided(q, k, v, scale=scale)
        # Every decision down to the strategies follows from global lengths and the split plan alone, never from what
        # this rank happens to hold: a rank that took another way would leave the others in a collective for ever.
        call = self._met(self.kinds[kind], k.shape[2])
        if call.queries == call.keys and call.keys and not self.layout(call.keys).is_split:
            call = LOCAL  # a replicated stream asks itself: every rank has all of it, and exchanges nothing
        asking = call.queries
        # An image that asks itself and a text, in which the text does not ask. Strategies know only self attention of
        # all streams: rows of zeros ask for the text, and their answers are dropped at the end. That costs the text's
        # share of the queries, and saves the gather of all keys that different streams would need.
        if self._asks_in_part(call, mask) and not causal:
            asked = asked._replace(query=filled(q, call.queries, layout=self.layout(call.keys), rank=self.rank))
            call = replace(call, queries=call.keys)
        if not call.keys or call.queries != call.keys:
            return self._attend_whole(asked, call)
        out = self._attend_jointly(asked, call, usual if asking == call.queries else None)
        return out if asking == call.queries else answers_of(asking, out, layout=self.layout(call.keys), rank=self.rank)

    def _attend_jointly(self, asked: operator.Asked, call: Attend, usual: Hashable) -> Tensor:
        """Collective: self attention of streams, some of which are sharded, by the plan's strategies. `usual` is what
        all calls have that are to be answered likewise; None for this one alone."""
        q, k, v, mask, _, causal, scale, _ = asked
        layout, kernel = self.layout(call.keys), self._choose(q)
        here = layout.num_held(self.rank)
        # Before the first exchange: a rank that raised behind it would be waited for.
        self._agree(self._undescribed(q, k, call.keys) if q.shape[2] != here or k.shape[2] != here else None, q)
        if k.shape != v.shape or q.shape[1] % max(1, k.shape[1]):
            raise ValueError(
                f"{self.title}: attention of {tuple(q.shape)} to keys of {tuple(k.shape)} and values of "
                f"{tuple(v.shape)} cannot be sharded: keys and values need one shape, and heads that divide the "
                "queries'; run it on one device"
            )
        kept = None if mask is None or causal else kept_among(self.kept, layout.length, is_joint=True)
        mask = self._joint_mask(None if kept is not None and not kept.hides else mask, q, layout, call, causal=causal)
        if kept is not None and kept.count < kept.length:
            layout = self.without_padding(call.keys, kept)
            k, v = (without(x, layout.asked_of(self.rank)) for x in (k, v))
            mask = mask if mask is None or mask.shape[3] == 1 else take(mask, 3, layout.asked())
        terms = Terms(layout, self.mesh, kernel, mask)
        answer: Callable[..., Tensor] = partial(self._attend, terms=terms)
        if usual is not None:
            answer = standing(q, k, v, terms=terms, inner=compose(self.mesh.plan, 1)) or answer
            self._decided[usual] = answer
        return answer(q, k, v, scale=scale)

    def _choose(self, q: Tensor) -> Kernel:
        """Noted where a stage's costs are measured."""
        kernel = choose(q.device, q.dtype, self.kernel)
        self.mesh.kernels.add(kernel.name)
        return kernel

    def _joint_mask(
        self, mask: Tensor | None, q: Tensor, layout: Layout, call: Attend, *, causal: bool
    ) -> Tensor | None:
        """Collective if the mask is local: that of the joint sequence, whose order strategies restore."""
        if causal:  # over the joint sequence; no kernel knows where in it this rank's tokens are
            mask = torch.ones(1, 1, layout.length, layout.length, dtype=torch.bool, device=q.device).tril()
        if mask is None:
            return None
        if mask.ndim == 2 and mask.shape[0] == q.shape[0]:  # B T, as diffusers passes on what has global keys
            mask = mask[:, None, None]
        whole = outer_mask if call.mask == "outer" else global_mask
        return whole(mask, layout=layout, rank=self.rank, group=self.mesh[Axis.SEQUENCE])

    def _asks_in_part(self, call: Attend, mask: Tensor | None) -> bool:
        """Whether all streams that ask are asked too, and beside them only such that may be sharded, as a text may."""
        rest = set(call.keys) - set(call.queries)
        if not call.queries or not rest or not set(call.queries) < set(call.keys) or not rest <= set(self.split.either):
            return False
        # A mask that tells queries apart has no rows for those that `filled` adds.
        return mask is None or mask.ndim < 3 or collapsed(mask).shape[2] == 1

    def _met(self, call: Attend, num_keys: int) -> Attend:
        """The call, once a stream that no input shows (kept keys, say) has been measured by it, or left out of it."""
        extra = self.split.measured(call)
        if not extra or not call.queries:
            return call
        others = tuple(name for name in call.keys if name not in extra)
        # Such a stream is whole on every rank, so it is as long as there are more keys than the others explain.
        num_left = num_keys - self.layout(others).num_held(self.rank)
        if num_left <= 0:
            queries = tuple(name for name in call.queries if name not in extra)
            return replace(call, queries=queries, keys=others)
        if extra[0] not in self.streams or self.streams[extra[0]].length != num_left:  # each call may have its own
            self.streams.pop(extra[0], None)
            self.layouts.clear()
        self.define(extra[0], num_left)
        return call

    def _attend_whole(self, asked: operator.Asked, call: Attend) -> Tensor:
        """Attention to keys that are whole on every rank, or are gathered first."""
        q, k, v, mask, _, causal, scale, _ = asked
        if causal and call.keys:
            raise ValueError(f"{self.title}: causal attention of {call.queries} to {call.keys} cannot be sharded")
        for names, x in ((call.queries, q), (call.keys, k)):
            if names:
                fits = x.shape[2] == self.layout(names).num_held(self.rank)
                self._agree(None if fits else self._undescribed(q, k, names), q)
        if call.keys:
            joined = self.gather(torch.cat([k, v], 1), 2, *call.keys)  # one exchange instead of two
            k, v = joined.split([k.shape[1], v.shape[1]], 1)
        if mask is not None and call.queries:
            layout = self.layout(call.queries)
            if mask.ndim >= 2 and mask.shape[-2] == layout.length:  # else it has one row for all, or is of those here
                mask = cut_along(mask, mask.ndim - 2, layout=layout, rank=self.rank)
        kept = None if call.keys or mask is None else kept_among(self.kept, k.shape[2], is_joint=False)
        if kept is not None and mask is not None and not causal:
            k, v, mask = k[:, :, : kept.count], v[:, :, : kept.count], mask[..., : kept.count] if kept.hides else None
        if not q.numel() or not k.numel():  # on a CPU torch's kernels end the process at what is empty
            return q.new_zeros(*q.shape[:3], v.shape[3])
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=k.shape[1] != q.shape[1]
        )

    def _agree(self, error: ValueError | None, q: Tensor) -> None:
        """Collective in the first forward, where a split plan that does not fit shows: raise on all ranks or none."""
        # Where another rank happens to hold as many tokens as a call has that the plan does not know, it would go on
        # and wait for this one. Later forwards make the same calls, and ask nobody.
        if not self.is_agreed:
            num_wrong = self.sum(torch.tensor([float(error is not None)], device=q.device))
            if num_wrong and error is None:
                error = ValueError(
                    f"{self.title}: another rank met an attention call that its split plan does not describe; run it "
                    "on one device, or add the call to the split plan"
                )
        if error is not None:
            raise error

    def _undescribed(self, q: Tensor, k: Tensor, names: tuple[str, ...]) -> ValueError:
        here = self.layout(names).num_held(self.rank)
        return ValueError(
            f"{self.title}: an attention call with {q.shape[2]} queries and {k.shape[2]} keys is none that its split "
            f"plan describes: this rank holds {here} tokens of {' and '.join(names)}; run it on one device, or add the "
            "call to the split plan"
        )
