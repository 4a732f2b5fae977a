"""Of two plans that are predicted to be about as fast one is taken by trial, once; the picture is the same."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import read_graph
from latentloom.nodes.registry import SPECS
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.progress import Progress, RankWork
from latentloom.pipelines import placement
from latentloom.pipelines.costs.machine import Machine
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.planning import auto, duel
from latentloom.pipelines.planning.auto import choices_folder, choose
from latentloom.pipelines.planning.choice import rival_of
from latentloom.pipelines.planning.known import machine_at
from latentloom.pipelines.planning.terms import Chosen, Leeway, Wanted
from latentloom.pipelines.pools import preloads
from latentloom.pipelines.requests import Denoise, EncodeText
from latentloom.pipelines.values import Conditioning, Latents, Model, Place
from support.prepared import run

FIRST = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json"
BOBBIN = describe_model("builtin:bobbin", device="cpu")
TEXT = Conditioning(family="flux", prompt="a", negative_prompt="", positive={})
EMPTY = Latents(family="flux", width=64, height=64)
UNGUIDED = Wanted(width=64, height=64, steps=8)


def at(plan: str = "", **options: Any) -> Model:
    return dataclasses.replace(BOBBIN, place=Place(devices=("cpu", "cpu"), plan=plan), **options)


def asked(**options: Any) -> Denoise:
    return Denoise(**{"model": at(), "conditioning": TEXT, "latents": EMPTY, "guidance": 1.0, "steps": 8, **options})


class Told(Progress):
    def __init__(self, *, most_steps: int = 1000) -> None:
        self.events: list[str] = []
        self.left = most_steps

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.events.append(text)

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self.events.append(f"step {done}")

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Cancelled

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self.events.append(f"by {plan}")


class ToyRanks:
    """Steps take as long as is said of the plan; a first one takes a second."""

    def __init__(self, step_s: dict[str, float]) -> None:
        self.step_s = step_s
        self.now = 0.0
        self.ran: list[str] = []
        self.fault: Exception | None = None

    def run(self, request: Denoise, answer: type[Latents], progress: Progress, *, num_ranks: int) -> Latents:
        assert num_ranks == request.plan.num_ranks and not progress.wants_previews
        self.ran.append(str(request.plan))
        if self.fault:
            raise self.fault
        progress.phase("denoising")
        for done in range(1, request.steps + 1):
            self.now += self.step_s[str(request.plan)] if done > 2 else 1.0
            progress.step(done, request.steps)
        progress.spread(str(request.plan), ())
        return EMPTY


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """This machine is measured, and slow enough that two plans take about as long; choices are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(auto, "machine_at", lambda spot: slow(machine_at(spot)))
    auto._chosen.cache_clear()
    yield
    auto._chosen.cache_clear()


def slow(machine: Machine) -> Machine:
    chip = dataclasses.replace(machine.speeds(1).chip, single_flops=1e9)
    at = {count: dataclasses.replace(machine.speeds(count), chip=chip) for count in (1, 2)}
    return dataclasses.replace(machine, at=at, is_measured=True, is_assumed=False)


def foretold() -> Chosen:
    return choose(at(), UNGUIDED, keeps=True)


def pair() -> tuple[str, str]:
    """The plan that is predicted to be the fastest, and its rival."""
    choice = foretold()
    assert choice.contest is not None and choice.contest.rival != choice.plan
    return str(choice.plan), str(choice.contest.rival)


def toys(monkeypatch: pytest.MonkeyPatch, step_s: tuple[float, float]) -> ToyRanks:
    ranks = ToyRanks(dict(zip(pair(), step_s, strict=True)))
    monkeypatch.setattr(placement, "_run", ranks.run)
    monkeypatch.setattr(duel, "time", SimpleNamespace(perf_counter=lambda: ranks.now))
    return ranks


def kept() -> list[Path]:
    folder = choices_folder()
    return list(folder.iterdir()) if folder and folder.exists() else []


@pytest.mark.parametrize("step_s", [(0.031, 0.034), (0.034, 0.031)])
def test_the_faster_of_two_is_kept_and_told_and_both_are_tried_once(
    step_s: tuple[float, float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ranks, (first, rival) = toys(monkeypatch, step_s), pair()
    best, other = (first, rival) if step_s[0] < step_s[1] else (rival, first)
    before, told = foretold(), Told()
    with caplog.at_level(logging.INFO, "latentloom"):
        placement.denoise(asked(), told, leeway=Leeway(choice=before))
    assert ranks.ran == [rival, first, best]
    steps = [f"step {done}" for done in range(1, 9)]
    assert told.events == [f"trying {rival}", f"trying {first}", f"by {best}", "denoising", *steps, f"by {best}"]
    why = f"plan auto is {best}: of two that were predicted within 10%, it took 31 ms a step and {other} 34 ms"
    assert [each for each in caplog.messages if "plan auto" in each] == [why]
    assert len(kept()) == 1 and str(foretold().plan) == best and foretold().contest is None
    placement.denoise(asked(), leeway=Leeway(choice=before))  # foretold with the other one, before the first was tried
    placement.denoise(asked())
    assert ranks.ran[3:] == [best, best]


def test_records_and_results_name_the_winner_and_not_what_was_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, (_, rival) = toys(monkeypatch, (1.0, 0.1)), pair()
    monkeypatch.setattr(placement, "encode_text", lambda *_: TEXT)
    given = {"encode_text.prompt": "x", "denoise.guidance": 1.0, "denoise.steps": 8}
    given |= {"empty_latents.width": 64, "empty_latents.height": 64}
    workspace = Workspace(roots=None, place=at().place)
    found = run(read_graph(FIRST), SPECS, overrides=given, workspace=workspace, targets=["denoise"])
    assert found.state == "ok" and len(ranks.ran) == 3, found.failure
    record = found.nodes["denoise"]
    assert record.foreseen is not None and "of two that were predicted" in record.foreseen.why
    assert (record.plan, record.foreseen.plan, found.plans) == (rival, rival, {"denoise": rival})


@pytest.mark.parametrize("options", [{"steps": 7}, {"step_cache": "first_block"}])
def test_a_denoise_that_is_too_short_or_skips_steps_tries_nothing(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = toys(monkeypatch, (1.0, 0.1))
    placement.denoise(asked(**options))
    placement.denoise(asked())
    assert len(ranks.ran) == 2 and len(set(ranks.ran)) == len(kept()) == 1


def test_a_cancel_or_a_fault_in_a_trial_is_the_run_s_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, (_, rival) = toys(monkeypatch, (1.0, 0.1)), pair()
    told = Told(most_steps=2)
    with pytest.raises(Cancelled):
        placement.denoise(asked(), told)
    ranks.fault = ValueError("too bright")
    with pytest.raises(ValueError, match="too bright"):
        placement.denoise(asked())
    assert ranks.ran == [rival, rival] and told.events == [f"trying {rival}"] and not kept()


def test_a_duel_that_is_under_way_leaves_others_to_the_predicted_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, (first, _) = toys(monkeypatch, (1.0, 0.1)), pair()
    with duel._one:
        placement.denoise(asked())
    assert ranks.ran == [first] and not kept()


def test_only_measured_machines_and_plans_that_need_no_compiling_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(at(engine="inductor"), UNGUIDED, keeps=True).contest is None
    assert choose(at(), UNGUIDED, keeps=True, may_round=False).contest is None
    assert choose(at(), UNGUIDED).contest is None
    monkeypatch.setattr(auto, "machine_at", machine_at)
    auto._chosen.cache_clear()
    assert choose(at(), UNGUIDED, keeps=True).contest is None


def test_a_rival_uses_as_many_devices_the_same_weights_and_rounds_alike() -> None:
    def one(plan: str, seconds: float, **more: Any) -> Any:
        plain = {"replicas": 1, "lacking_bytes": 0, "rounds_differently": "ring" in plan}
        return SimpleNamespace(plan=ParallelPlan.parse(plan), seconds=seconds, **{**plain, **more})

    chosen, near = one("ulysses=2", 1.0), one("allgather=2", 1.09)
    others = [
        one("ring=2", 1.0),
        one("ulysses=2,weights=2", 1.0),
        one("ulysses=4", 1.0),
        one("cfg=2", 1.0, lacking_bytes=1),
        one("ulysses=2,text=replicated", 1.11),
    ]
    assert rival_of(chosen, [chosen, *others]) is None and rival_of(chosen, [chosen, *others, near]) is near
    assert rival_of(one("ring=2", 0.9), [chosen, near, *others]) is None


@pytest.mark.by_hand
@pytest.mark.usefixtures("warm_pools")
def test_two_ranks_paint_the_same_to_the_bit_with_a_duel_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    on_ranks, ran = placement._run, []

    def counted(request: Any, *given: Any, **options: Any) -> Any:
        ran.append(str(getattr(request, "plan", "")))
        return on_ranks(request, *given, **options)

    first, rival = pair()
    with Pool(["cpu", "cpu"], preload=preloads(BOBBIN)) as pool:
        monkeypatch.setattr(placement.POOLS, "using", lambda model: contextlib.nullcontext(pool))
        text = placement.encode_text(EncodeText(model=at(), prompt="a red star", text_length=32))
        plain = placement.denoise(asked(model=at(first), conditioning=text))
        monkeypatch.setattr(placement, "_run", counted)
        told = Told()
        tried = placement.denoise(asked(conditioning=text), told)
        again = placement.denoise(asked(conditioning=text))
    best = str(foretold().plan)
    assert ran == [rival, first, best, best] and len(kept()) == 1
    assert next(each for each in told.events if each.startswith("by ")) == f"by {best}"
    assert [each for each in told.events if each.startswith("step")] == [f"step {done}" for done in range(1, 9)]
    assert plain.tensor is not None and tried.tensor is not None and again.tensor is not None
    assert torch.equal(tried.tensor, plain.tensor) and torch.equal(again.tensor, plain.tensor)
