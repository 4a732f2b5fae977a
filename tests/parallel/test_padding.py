"""Keys of padding are left out: what is decided, that nothing else changes, and that kernels are given no mask."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor
from torch._C import _len_torch_function_stack
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode

from bodies.operator_cases import session_of
from bodies.padding import Call
from latentloom.parallel.attention.strategy import Kernel
from latentloom.parallel.layout import Layout, Stream
from latentloom.parallel.sharding import operator, unsharded
from latentloom.parallel.sharding import session as sessions
from latentloom.parallel.sharding.operator import Asked
from latentloom.parallel.sharding.padding import BUCKET, MOST_READ, KeptKeys, Texts, leaving_out
from latentloom.parallel.sharding.session import Session
from latentloom.parallel.sharding.shard import shard
from latentloom.parallel.sharding.split_plan import Padding
from latentloom.parallel.sharding.unsharded import Unsharded
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.split_plans import SPLIT_PLANS
from latentloom.pipelines.split_plans.paddings import PADDINGS
from latentloom.pipelines.spreading.transformer import leave_padding_out, split_plan_of
from support.cells import TOLERANCE, built, outputs, padded, variants, verdict
from support.launches import Launches, lone_rank
from support.ranks import Ranks
from zoo.cases import Case

TEXT = (Padding(("mask",), "last"),)
PLANS = ("ulysses=2", "ulysses=3", "ring=3", "allgather=3", "ulysses=2,ring=2", "ulysses=2,allgather=2")


@pytest.fixture
def wanted() -> Iterator[None]:
    with leaving_out(True):
        yield


def shows(*counts: int, of: int = 40) -> Tensor:
    return torch.arange(of) < torch.tensor(counts)[:, None]


# ---- what is decided


@pytest.mark.parametrize(
    ("mask", "kept"),
    [
        (shows(37), KeptKeys("last", 40, 37, hides=False)),
        (shows(7, 7).long(), KeptKeys("last", 40, 7, hides=False)),
        (shows(40, 40), KeptKeys("last", 40, 40, hides=False)),
        (shows(7, 20), KeptKeys("last", 40, 2 * BUCKET, hides=True)),
        (shows(7, 39), None),  # with what is rounded up, all of them
        (shows(7, 0), None),  # a row that hides everything is left alone
        (shows(30) & (torch.arange(40) != 3), KeptKeys("last", 40, 2 * BUCKET, hides=True)),
        (shows(7)[:, None], None),
    ],
)
def test_what_all_rows_hide_is_left_out(wanted: None, mask: Tensor, kept: KeptKeys | None) -> None:
    assert Texts(TEXT).kept_in({"mask": mask}) == ((kept,) if kept else ())


def test_texts_of_several_masks_have_what_is_shown_before_the_rest(wanted: None) -> None:
    both = (Padding(("second", "first"), "last"),)
    given = {"first": shows(6, 2, of=7), "second": shows(2, 3, of=18)}
    assert Texts(both).kept_in(given) == (KeptKeys("last", 25, BUCKET, hides=True),)
    assert Texts(both).kept_in({**given, "second": None}) == ()
    same = {"first": shows(6, 2, of=7), "second": shows(1, 5, of=18)}
    assert Texts(both).kept_in(same) == (KeptKeys("last", 25, 7, hides=False),)


def test_nothing_is_left_out_on_a_cpu_unless_wanted_or_where_another_mask_is_given() -> None:
    assert Texts(TEXT).kept_in({"mask": shows(7)}) == ()
    with leaving_out(True):
        assert Texts(TEXT).kept_in({"mask": shows(7), "attention_mask": shows(7)}) == ()
        two = (*TEXT, Padding(("other",), "last"))
        assert Texts(two).kept_in({"mask": shows(7), "other": shows(9)}) == ()
    with FakeTensorMode(), leaving_out(True):
        assert Texts(TEXT).kept_in({"mask": torch.ones(1, 9, device="cuda")}) == ()


def test_a_mask_is_read_once_and_again_when_it_was_written_to(wanted: None) -> None:
    mask, texts = shows(7), Texts(TEXT)
    with Launches() as first:
        texts.kept_in({"mask": mask})
    with Launches() as later:
        texts.kept_in({"mask": mask})
    assert first.count and not later.count
    mask[:, 7] = True
    assert texts.kept_in({"mask": mask})[0].count == 8


def test_masks_that_are_made_for_each_step_are_not_read_for_ever(wanted: None) -> None:
    texts, mask = Texts(TEXT), shows(5)
    texts.kept_in({"mask": mask})
    found = [texts.kept_in({"mask": shows(7)}) for _ in range(MOST_READ + 2)]
    assert all(found[: MOST_READ - 1]) and not any(found[MOST_READ:])
    assert texts.kept_in({"mask": mask}) and texts.kept_in({"mask": shows(9)})


def test_a_rank_that_began_anew_leaves_out_what_the_others_do(wanted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read no mask yet, where they have met so many that they read no more."""
    monkeypatch.setattr(sessions, "check_same", lambda *_, **__: None)
    with lone_rank("ulysses=2") as mesh:
        split = dataclasses.replace(session_of((("image", 8, True),), mesh).split, paddings=TEXT)
        old, new = (Session(split, mesh, title="Toy", shards_text=False, kernel="auto") for _ in range(2))
        old.compare({})
        for _ in range(MOST_READ + 2):
            old.texts.kept_in({"mask": shows(7)})
        old.comparing.ask(lambda: True)  # the new one's vote
        old.compare({})
        new.compare({})
    mask = shows(9)
    found = [each.texts.kept_in({"mask": mask}) for each in (old, new)]
    assert found == [(KeptKeys("last", 40, 9, hides=False),)] * 2


def test_what_is_left_out_lies_where_the_text_does() -> None:
    assert [KeptKeys(place, 7, 2, hides=False).left_out(12) for place in ("first", "last")] == [(2, 7), (7, 12)]


def test_ranks_hold_the_keys_that_are_left_of_their_tokens() -> None:
    text, image = Stream("text", 7, (3, 2, 2)), Stream("image", 5, (2, 2, 1))
    layout = Layout((text, image), 3, (2, 7))
    assert [stream.shares for stream in layout.keys.streams] == [(2, 0, 0), (2, 2, 1)]
    held = [[part for part in layout.asked_of(rank) if part[0] < part[1]] for rank in range(3)]
    assert held == [[(0, 2), (3, 5)], [(2, 4)], [(2, 3)]]
    assert layout.asked() == [(0, 2), (7, 12)] and layout.merged(3).keys.length == 7
    last = Layout((Stream("image", 5, (3, 2)), Stream("text", 7, None)), 2, (6, 12))
    assert [stream.length for stream in last.keys.streams] == [5, 1] and last.keys.num_held(1) == 3


# ---- sharded


def calls() -> list[Call]:
    """Two prompts of different length, one, equal ones, and a row that hides all, with texts before and behind."""
    texts = [(21, (19, 5)), (35, (18, 3)), (9, (2,)), (9, (1, 1)), (9, (9, 9)), (9, (9, 0))]
    each = itertools.product(PLANS, texts, ("first", "last"), (True, False), ((5, 5), (6, 2)))
    found = [
        Call(plan, *text, place, is_sharded, heads=heads, kv_heads=kv_heads, is_additive=number % 2 == 1)
        for number, (plan, text, place, is_sharded, (heads, kv_heads)) in enumerate(each)
        if number % 5 == 0
    ]
    return found + [Call(plan, 9, (2,), "last", True, image=2) for plan in PLANS]  # a rank without a key


def num_text_keys(call: Call) -> int:
    if not min(call.shown):
        return call.text
    longest = max(call.shown)
    return longest if len(set(call.shown)) == 1 else min(call.text, math.ceil(longest / BUCKET) * BUCKET)


def test_attention_without_padding_equals_that_with_a_mask_under_every_plan(ranks: Ranks) -> None:
    pieces, packed = (zip(*ranks.run("bodies.padding:answers", calls(), way), strict=True) for way in (False, True))
    for call, *ways in zip(calls(), pieces, packed, strict=True):
        for found in ways:
            got = [one for one in found if one is not None]
            assert max(one["difference"] for one in got) <= TOLERANCE, call
            assert len({one["bits"] for one in got}) == 1, call
            assert all(one["sent"] == one["reckoned"] for one in got), call
            assert {one["keys"] for one in got} == {call.image + num_text_keys(call)}, call
            assert call.image > 2 or min(one["of this rank"] for one in got) == 0 or len(got) == 2
        first, second = ([one and one["all_bits"] for one in found] for found in ways)
        assert first == second, call


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("qwen_image", "ulysses=2,text=sharded"),
        ("krea2", "allgather=3"),
        ("hunyuan_video", "ulysses=2,ring=2,text=replicated"),
        ("hunyuan_image_byt5", "ring=3,text=sharded"),
        ("prx", "ulysses=2,allgather=2,text=replicated"),
        ("ltx", "ulysses=3"),
    ],
)
@pytest.mark.parametrize("case", ["padded", "padded_alone"])
def test_a_sharded_model_without_padding_equals_one_process_with_masks(
    ranks: Ranks, name: str, plan: str, case: str
) -> None:
    assert verdict(ranks.run("support.cells:padded", name, case, plan)) == "ok"


@pytest.mark.parametrize("name", ["ulysses", "allgather"])
@pytest.mark.parametrize("texts_first", [True, False])
def test_to_leave_keys_out_costs_at_most_three_launches(name: str, texts_first: bool) -> None:
    with lone_rank(f"{name}=4") as mesh, torch.no_grad():
        streams = (("image", 43, True), ("text", 40, True))
        session = session_of(streams[::-1] if texts_first else streams, mesh)
        session.is_agreed = True
        session.kept = (KeptKeys("first" if texts_first else "last", 40, 7, hides=False),)
        num_held = session.layout(session.split.order).num_held(0)
        q, k, v = (torch.randn(2, num_held, 6, 8).transpose(1, 2) for _ in range(3))
        mask = torch.ones(2, 1, 1, 83, dtype=torch.bool)
        for launches in (Launches(), Launches()):
            with launches:
                session.attend(Asked(q, k, v, mask), 0)
    assert launches.count <= 10 + 3, launches.names


# ---- on one device


@pytest.mark.parametrize("name", ["qwen_image", "krea2", "hunyuan_video", "nucleus_image", "ltx2", "sana"])
@pytest.mark.parametrize("case", ["padded", "padded_alone"])
def test_a_model_on_one_device_without_padding_equals_itself_with_masks(name: str, case: str) -> None:
    assert verdict([padded(0, name, case, "one")]) == "ok"


def test_without_being_wanted_a_cpu_keeps_the_bits_of_the_model_itself() -> None:
    model, inputs, whole = built("krea2", "padded")
    undo = leave_padding_out(model)
    assert all(map(torch.equal, outputs(model, inputs), whole))
    undo()


def test_on_a_gpu_one_prompt_is_attended_to_without_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
        given.append((k.shape[2], None if mask is None else tuple(mask.shape)))
        return torch.empty_like(q)

    kernel = Kernel("seen", plain, plain)
    monkeypatch.setattr(sessions, "choose", lambda *_: kernel)
    one, two = KeptKeys("last", 9, 2, hides=False), KeptKeys("last", 40, 16, hides=True)
    with lone_rank("allgather=2") as mesh, FakeTensorMode():
        for kept in (one, two):
            session = session_of((("image", 12, True), ("text", kept.length, False)), mesh)
            session.is_agreed, session.kept = True, (kept,)
            q = torch.empty(1, 4, 6 + kept.length, 64, device="cuda", dtype=torch.bfloat16)
            mask = torch.empty(1, 1, 1, 12 + kept.length, device="cuda", dtype=torch.bool)
            session.attend(Asked(q, q, q, mask), 0)
    assert given == [(14, None), (28, (1, 1, 1, 28))]


def test_on_one_gpu_too_and_other_masks_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def sdpa(q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, **_: Any) -> Tensor:
        given.append((k.shape[2], attn_mask is not None))
        return q

    monkeypatch.setattr(unsharded.F, "scaled_dot_product_attention", sdpa)
    mode = Unsharded((KeptKeys("last", 9, 2, hides=False),))
    with FakeTensorMode():
        q = torch.empty(2, 4, 21, 64, device="cuda")
        padding, each = (torch.empty(2, 1, rows, 21, device="cuda", dtype=torch.bool) for rows in (1, 21))
        for mask in (padding, padding.expand(2, 1, 21, 21), each, None):
            mode.attend(Asked(q, q, q, mask), 0)
        text = q.narrow(2, 0, 9)
        mode.attend(Asked(q, text, text, padding.narrow(3, 0, 9)), 0)
    assert given == [(14, False), (14, False), (21, True), (21, False), (2, False)]


@pytest.mark.parametrize("is_removed", [False, True])
def test_an_interrupted_forward_leaves_its_padding_to_no_other(wanted: None, is_removed: bool) -> None:
    """Torch calls no hook after Ctrl-C; the next attention of the thread may be a text encoder's, of as many tokens."""

    class Endless(torch.nn.Module):
        def forward(self, mask: Tensor) -> None:
            raise KeyboardInterrupt

    module, before = Endless(), _len_torch_function_stack()
    remove = unsharded.leave_out(module, TEXT)
    model: Any = SimpleNamespace(loras=(), is_compiled=False, engine="eager", graphs="auto", device="cpu")
    loan = contextlib.nullcontext() if is_removed else ComponentStore().lent(model, ())
    with pytest.raises(KeyboardInterrupt), loan:
        module(mask=shows(7))
    if is_removed:
        remove()
    assert operator.at_work() is None and _len_torch_function_stack() == before


@pytest.mark.by_hand
@pytest.mark.parametrize("plan", ["one", "ulysses=2"])
def test_graphs_are_the_same_for_texts_of_all_lengths(wanted: None, plan: str) -> None:
    kind, config, inputs = variants()["hunyuan_video"].build(Case("any", rows=3, columns=5, text=40, batch=2))
    model = kind(**config).eval()
    torch._dynamo.reset()
    counters.clear()
    graphs: list[int] = []
    with lone_rank("ulysses=2" if plan == "one" else plan) as mesh:
        if plan == "one":
            undo = leave_padding_out(model)
            model.compile_repeated_blocks(fullgraph=True, backend="eager")
        else:
            handle = shard(model, split_plan_of(model), mesh)
            handle.compile(backend="eager")
            undo = handle.remove
        outputs(model, inputs)  # attention calls are learned
        for shown in ((7, 7), (30, 8), (40, 40), (3, 3), (9, 0)):
            outputs(model, {**inputs, "encoder_attention_mask": shows(*shown).float()})
            graphs.append(counters["stats"]["unique_graphs"])
        undo()
    assert graphs[0] > 0 and set(graphs) == {graphs[0]}


def test_paddings_are_of_classes_and_arguments_that_there_are() -> None:
    import inspect

    import diffusers

    for name, paddings in PADDINGS.items():
        assert SPLIT_PLANS[name].paddings == paddings
        arguments = inspect.signature(getattr(diffusers, name).forward).parameters
        assert {mask for padding in paddings for mask in padding.masks} <= arguments.keys()
        assert all(call.mask == "global" for calls in SPLIT_PLANS[name].attention.values() for call in calls)
