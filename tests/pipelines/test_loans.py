"""Several threads of one process use the same model: each gets what it would get alone."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import Progress
from latentloom.pipelines import stages
from latentloom.pipelines.components.loans import Loans, unshared
from latentloom.pipelines.components.store import ComponentStore, store
from latentloom.pipelines.models.describe import add_lora, describe_model
from latentloom.pipelines.values import Model, from_plain, to_plain

SOON_S, LATER_S = 0.3, 20.0  # what may be held up by a lock is waited for so long; what must come, longer


def nothing() -> None:
    """Nobody cancels."""


class At(Progress):
    """Calls `then` after the first step."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.then = then

    def step(self, done: int, total: int, preview: Any = None) -> None:
        if done == 1:
            self.then()


def asked(
    loans: Loans, threads: ThreadPoolExecutor, wanted: dict[Any, Any], check: Callable[[], None] = nothing
) -> Future[None]:
    """A thread that takes a loan and gives it back at once."""

    def take() -> None:
        with loans.of(wanted, check):
            pass

    return threads.submit(take)


def held_up(loans: Loans, threads: ThreadPoolExecutor, wanted: dict[Any, Any]) -> Future[None]:
    """The same of a thread that has to wait, once it does."""
    waits = threading.Event()
    future = asked(loans, threads, wanted, waits.set)
    assert waits.wait(LATER_S) and not future.done()
    return future


@pytest.fixture
def threads() -> Any:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_one_condition_is_shared_and_another_waits(threads: ThreadPoolExecutor) -> None:
    loans = Loans()
    with loans.of({"vae": None, "transformer": "a"}, nothing):
        asked(loans, threads, {"transformer": "a"}).result(LATER_S)
        other = held_up(loans, threads, {"transformer": "b"})
        assert loans.is_lent("transformer")
    other.result(LATER_S)
    assert not loans.is_lent("transformer")


def test_who_wants_it_alone_is_not_kept_waiting_by_those_who_come_later(threads: ThreadPoolExecutor) -> None:
    loans = Loans()
    with loans.of({"transformer": "a"}, nothing):
        alone = held_up(loans, threads, {"transformer": unshared()})
        later = held_up(loans, threads, {"transformer": "a"})  # not with the one that has it, before the one that waits
        asked(loans, threads, {"vae": None}).result(LATER_S)  # as another thread decodes meanwhile
    for future in (alone, later):
        future.result(LATER_S)


def test_two_that_want_the_same_two_in_other_orders_do_not_wait_for_ever(threads: ThreadPoolExecutor) -> None:
    loans = Loans()
    wanted = [{"a": unshared(), "b": unshared()}, {"b": unshared(), "a": unshared()}] * 20
    for future in [asked(loans, threads, each) for each in wanted]:
        future.result(LATER_S)


def test_a_thread_that_holds_a_loan_asks_for_no_other(threads: ThreadPoolExecutor) -> None:
    """Between it and one that waits for both, each would wait for the other."""
    loans = Loans()
    with loans.of({"transformer": "a"}, nothing):
        with pytest.raises(AssertionError, match="end the first, or ask in another thread"), loans.of({}, nothing):
            pass
        asked(loans, threads, {"transformer": "a"}).result(LATER_S)
    with loans.of({"transformer": "b"}, nothing):
        pass


def test_a_cancel_ends_the_wait_for_a_loan_and_leaves_nothing_behind(threads: ThreadPoolExecutor) -> None:
    loans = Loans()

    def cancelled() -> None:
        raise Cancelled

    with loans.of({"transformer": "a"}, nothing):
        with pytest.raises(Cancelled):
            asked(loans, threads, {"transformer": "b"}, cancelled).result(LATER_S)
        asked(loans, threads, {"transformer": "a"}, cancelled).result(LATER_S)  # nobody is in its way


@pytest.fixture
def request_of(model: Any, canvas: Any) -> Callable[..., dict[str, Any]]:
    """`request_of(described, ...)`: four steps of a tiny model."""

    def made(described: Any = None, *, family: str = "flux", **options: Any) -> dict[str, Any]:
        described = described or model(family)
        text = {"model": described, "prompt": "a red circle", "negative_prompt": "blue", "text_length": 32}
        options = {"seed": 5, "steps": 4, "guidance": 1.0, **options}
        conditioning = stages.encode_text(text)
        return {**options, "model": described, "conditioning": conditioning, "latents": canvas(family)}

    return made


def during(threads: ThreadPoolExecutor, one: dict[str, Any], other: dict[str, Any]) -> list[torch.Tensor]:
    """What both give when the other begins after the first step of the one and goes on while that does."""
    is_in_step, is_done = threading.Event(), threading.Event()
    futures: list[Future[Any]] = []

    def begin_other() -> None:
        futures.append(threads.submit(stages.denoise, other, At(in_the_middle)))
        is_in_step.wait(SOON_S)

    def in_the_middle() -> None:
        is_in_step.set()
        is_done.wait(2 * SOON_S)

    first = stages.denoise(one, At(begin_other)).tensor
    is_done.set()
    return [first, futures[0].result(LATER_S).tensor]


def test_loras_are_not_exchanged_under_a_denoise(
    threads: ThreadPoolExecutor, request_of: Any, model: Any, tmp_path: Path
) -> None:
    described = from_plain(Model, model("flux"))
    layer, generator = "transformer.transformer_blocks.0.attn.to_q", torch.Generator().manual_seed(0)
    width = store().load(described, ("transformer",))["transformer"].inner_dim
    down, up = torch.randn(2, width, generator=generator), torch.randn(width, 2, generator=generator)
    save_file({f"{layer}.lora_A.weight": down, f"{layer}.lora_B.weight": up}, tmp_path / "style.safetensors")
    styled = to_plain(add_lora(described, str(tmp_path / "style.safetensors")))
    requests = [request_of(), request_of(styled)]
    alone = [stages.denoise(each).tensor for each in requests]
    assert not torch.equal(*alone)
    assert all(map(torch.equal, during(threads, *requests), alone))


def test_a_step_cache_is_not_put_on_a_transformer_in_the_middle_of_a_denoise(
    threads: ThreadPoolExecutor, request_of: Any
) -> None:
    requests = [request_of(), request_of(step_cache="first_block", cache_threshold=5.0)]
    alone = [stages.denoise(each).tensor for each in requests]
    assert not torch.equal(*alone)
    assert all(map(torch.equal, during(threads, *requests), alone))


def test_denoises_of_one_model_work_at_the_same_time_and_a_decode_beside_them(
    threads: ThreadPoolExecutor, request_of: Any
) -> None:
    requests = [request_of(), request_of(seed=6)]
    alone = [stages.denoise(each) for each in requests]
    both = threading.Barrier(2, timeout=LATER_S)
    decode = {"model": requests[0]["model"], "latents": alone[0]}
    shown = stages.decode(decode).pixels

    def in_the_middle() -> None:
        both.wait()  # broken if one waits for the other
        assert torch.equal(threads.submit(stages.decode, decode).result(LATER_S).pixels, shown)

    futures = [threads.submit(stages.denoise, each, At(in_the_middle)) for each in requests]
    for future, expected in zip(futures, alone, strict=True):
        assert torch.equal(future.result(LATER_S).tensor, expected.tensor)


def test_a_component_in_use_stays_on_the_accelerator_and_in_the_store(tiny: Any) -> None:
    """The meta device stands in for an accelerator."""
    flux = replace(describe_model(str(tiny("flux")), device="cpu"), device="meta")
    components = ComponentStore(budget_bytes=1)
    with components.lent(flux, ("text_encoder",)) as parts:
        components.load(flux, ("transformer",))  # which does not fit beside it
        assert components.load(flux, ("text_encoder",))["text_encoder"] is parts["text_encoder"]
    components.load(flux, ("vae",))
    assert "text_encoder" not in {each.component for each in components.held()}


@pytest.mark.parametrize("family", ["flux", pytest.param("sd3", marks=pytest.mark.by_hand), "wan"])
def test_texts_and_frames_of_four_threads_are_those_of_one(
    family: str, threads: ThreadPoolExecutor, model: Any, canvas: Any
) -> None:
    described = model(family)
    prompts = ["a red circle", "blue", "a red circle " * 9]
    frames = {"frames": 5} if family == "wan" else {}

    def run(number: int) -> list[torch.Tensor]:
        text = {"model": described, "prompt": prompts[number % 3], "negative_prompt": "blue", "text_length": 32}
        made = stages.encode_text(text)
        latents = canvas(family, **frames)
        request = {"model": described, "conditioning": made, "latents": latents, "seed": number, "steps": 1}
        finished = stages.denoise({**request, "guidance": 2.0})
        pixels = stages.decode(model=described, latents=finished).pixels
        return [*made.positive.values(), *made.negative.values(), pixels]

    alone = [run(number) for number in range(3)]
    for number, found in enumerate(threads.map(run, [0, 1, 2] * 2)):
        assert all(map(torch.equal, found, alone[number % 3]))
