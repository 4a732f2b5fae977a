"""Where a stage runs; a toy stands for the ranks, so that what they are asked for can be read."""

import contextlib
import dataclasses
import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from latentloom import pipelines
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import SILENT, Progress, RankWork
from latentloom.parallel.ranks.seat import Seat
from latentloom.pipelines import kept, placement, stages, values
from latentloom.pipelines.doors import order
from latentloom.pipelines.forecast.plans import Wanted
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.pools import preloads
from latentloom.pipelines.requests import Decode, Denoise, EncodeImage, EncodeText
from latentloom.pipelines.settling import settled
from latentloom.pipelines.values import Conditioning, Image, Latents, Model, Place, Video, from_plain, to_plain

BOBBIN = describe_model("builtin:bobbin", device="cpu")
SIDE = 1456  # of a square of just over two million pixels


TEXT = Conditioning(family="flux", prompt="a", negative_prompt="", positive={}, negative={})
EMPTY = Latents(family="flux", width=64, height=64)
PICTURE = Image(pixels=torch.zeros(1, 64, 64, 3))
ANSWERS = {"encode_text": TEXT, "encode_image": EMPTY, "denoise": EMPTY, "decode": PICTURE}


class ToyRanks:
    """Remembers what it is called with, and answers or raises."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []

    @contextlib.contextmanager
    def using(self, *_: object) -> Iterator["ToyRanks"]:
        yield self

    def call(self, function: str, request: Mapping[str, Any], progress: Any, **options: Any) -> dict[str, Any]:
        self.orders.append((request["stage"], request["request"], options))
        return to_plain(ANSWERS[request["stage"]])


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> ToyRanks:
    ranks = ToyRanks()
    monkeypatch.setattr(placement, "POOLS", ranks)
    return ranks


def at(plan: str = "", *, num: int = 4, replicas: int = 1, cluster: str = "") -> Model:
    place = Place(devices=("cpu",) * num, plan=plan, replicas=replicas, cluster=cluster)
    return dataclasses.replace(BOBBIN, place=place)


def canvas(side: int = 64, **options: Any) -> Latents:
    return Latents(family="flux", width=side, height=side, **options)


def to_denoise(**options: Any) -> Denoise:
    return Denoise(**{"model": at("ring=4"), "conditioning": TEXT, "latents": canvas(), "steps": 3, **options})


def test_the_first_stage_in_a_process_says_that_libraries_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "stages", stages)  # as it was, afterwards
    monkeypatch.delitem(sys.modules, stages.__name__)
    told: list[str] = []
    progress = MagicMock(phase=lambda text, **_: told.append(text))
    for _ in range(2):
        assert placement._stage("encode_text", progress).__module__ == stages.__name__
    assert told == ["loading diffusers"]


def plan_of(model: Model, *, is_guided: bool) -> ParallelPlan:
    plan, why = placement.plan_for(model, Wanted(is_guided=is_guided))
    placement.logged(plan, why, model)
    return plan


@pytest.mark.parametrize(
    ("model", "guidance", "plan"),
    [
        (at("ring=4"), 3.0, "ring=4"),
        (at("ring=2", replicas=2), 3.0, "ring=2"),
        (at("cfg=2,ulysses=2", num=2, cluster="auto"), 3.0, "cfg=2,ulysses=2"),
        (at(), 3.0, "cfg=2,ulysses=2"),
        (at("auto"), 1.0, "ulysses=4"),
        (at(replicas=2), 1.0, "ulysses=2"),
    ],
)
def test_a_plan_is_the_places_or_chosen_for_one_replica(model: Model, guidance: float, plan: str) -> None:
    assert str(plan_of(model, is_guided=placement.is_guided(model, guidance=guidance))) == plan


def test_the_second_experts_guidance_counts_and_zero_is_the_models_own() -> None:
    assert placement.is_guided(BOBBIN, guidance=1.0, guidance_2=2.0)
    assert placement.is_guided(BOBBIN, guidance=0.0)  # bobbin's own is 3
    assert not placement.is_guided(BOBBIN, guidance=1.0)


def test_a_plan_for_other_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="uses 2 ranks, but 4 devices were given"):
        plan_of(at("ring=2"), is_guided=False)
    with pytest.raises(ValueError, match="a sequence stays in one machine"):
        plan_of(at("ring=8", cluster="auto"), is_guided=False)


def test_devices_that_are_left_out_are_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})
    with caplog.at_level(logging.WARNING, "latentloom"):
        assert plan_of(at(), is_guided=False).num_ranks == 1
    assert "1 of 4 devices" in caplog.text


def test_text_goes_to_the_first_rank_and_pictures_to_the_last_beside_main_jobs(ranks: ToyRanks) -> None:
    placement.encode_text(EncodeText(model=at(), prompt="a red star"))
    placement.encode_image(EncodeImage(model=at(), image=PICTURE))
    placement.decode(Decode(model=at(), latents=canvas(tensor=torch.zeros(1, 16, 8, 8))))
    side = {"num_ranks": 1, "lane": "side"}
    assert [options for _, _, options in ranks.orders] == [{**side, "rank": rank} for rank in (0, -1, -1)]


def test_text_goes_to_the_last_rank_where_a_plan_leaves_that_free(
    ranks: ToyRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})  # by which it has two branches at most
    for prompt, model in (("one", at(num=3)), ("two", at(num=2)), ("three", at(num=6, replicas=3))):
        placement.encode_text(EncodeText(model=model, prompt=prompt))
    assert [options["rank"] for _, _, options in ranks.orders] == [-1, 0, 0]


def test_text_is_encoded_by_all_that_hold_the_encoders_between_them(
    ranks: ToyRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "encoders_for", lambda *_: 4)
    asked = EncodeText(model=at("ring=4"), prompt="a text of four")
    for _ in range(2):  # the second is known, whoever encoded it
        placement.encode_text(asked)
        monkeypatch.setattr(placement, "encoders_for", lambda *_: 1)
    [(_, request, options)] = ranks.orders
    assert request["split"] == 4 and options == {"num_ranks": 4, "lane": "main", "rank": 0}


def test_a_denoise_takes_all_ranks_by_its_plan(ranks: ToyRanks) -> None:
    placement.denoise(to_denoise())
    stage, asked, options = ranks.orders[0]
    assert (stage, asked["plan"]["ring"], options) == ("denoise", 4, {"num_ranks": 4, "lane": "main", "rank": 0})


def test_the_plan_is_told_before_any_rank_works(ranks: ToyRanks) -> None:
    told: list[tuple[str, int, int]] = []

    class Told(Progress):
        def spread(self, plan: str, ranks_work: Sequence[RankWork]) -> None:
            told.append((plan, len(ranks_work), len(ranks.orders)))

    placement.denoise(to_denoise(), Told())
    assert told == [("ring=4", 0, 0)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": -1}, "steps is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"latents": canvas(60)}, "60 x 60 is no size"),
        ({"latents": canvas(frames=5)}, "5"),
        ({"strength": 2.0}, "strength is 2; give a number above 0"),
        ({"guidance_2": 2.0}, "no second expert"),
        ({"conditioning": dataclasses.replace(TEXT, negative=None)}, "without a negative prompt"),
    ],
)
def test_what_cannot_be_painted_is_refused_before_any_rank_starts(
    ranks: ToyRanks, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        placement.denoise(to_denoise(**wrong))
    assert not ranks.orders


def test_a_request_is_settled_once_in_this_process(ranks: ToyRanks, monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[str] = []
    for module in (placement, stages):
        known = lambda request, name=module.__name__: where.append(name) or settled(request)  # noqa: E731
        monkeypatch.setattr(module, "settled", known)
    with pytest.raises(ValueError, match="which shows nothing"):
        placement.decode(Decode(model=BOBBIN, latents=canvas()))
    placement.denoise(to_denoise())
    assert where == [stages.__name__, placement.__name__]


def test_an_empty_canvas_is_not_decoded_and_starts_no_rank(ranks: ToyRanks) -> None:
    with pytest.raises(ValueError, match="which shows nothing; put a Denoise before Decode"):
        placement.decode(Decode(model=at(), latents=canvas()))
    assert not ranks.orders


@pytest.mark.parametrize(
    ("latents", "decoders", "num_ranks"),
    [
        ({"side": SIDE, "tensor": torch.zeros(1, 16, 8, 8)}, 4, 4),
        ({"side": SIDE, "tensor": torch.zeros(1, 16, 7, 8)}, 4, 1),  # less than two rows for each rank
    ],
)
def test_what_one_rank_has_no_room_for_is_decoded_by_all(
    ranks: ToyRanks, monkeypatch: pytest.MonkeyPatch, latents: dict[str, Any], decoders: int, num_ranks: int
) -> None:
    monkeypatch.setattr(placement, "decoders_for", lambda *_: decoders)
    placement.decode(Decode(model=at(), latents=canvas(**latents)))
    _, asked, options = ranks.orders[0]
    assert options["num_ranks"] == asked["split"] == num_ranks


def test_rows_that_would_only_save_time_are_not_decoded_apart(ranks: ToyRanks) -> None:
    placement.decode(Decode(model=at(), latents=canvas(1024, batch=2, tensor=torch.zeros(2, 16, 8, 8))))
    assert ranks.orders[0][2]["num_ranks"] == 1


def test_a_decoder_that_is_not_known_to_be_exact_works_alone(ranks: ToyRanks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "decoders_for", lambda *_: 4)
    monkeypatch.setattr("latentloom.pipelines.spreading.vae.DECODERS", ())
    placement.decode(Decode(model=at(), latents=canvas(SIDE, tensor=torch.zeros(1, 16, 8, 8))))
    assert ranks.orders[0][2]["num_ranks"] == 1


@pytest.mark.parametrize(("side", "num_ranks"), [(112, 1), (160, 2)])
def test_tiles_are_shared_out_from_two_million_pixels_on_and_are_no_rows(
    ranks: ToyRanks, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, side: int, num_ranks: int
) -> None:
    monkeypatch.setitem(ANSWERS, "decode", Video(pixels=torch.zeros(1, 64, 64, 3), fps=24.0))
    found = describe_model(str(tiny("minimax_h3")), device="cpu")
    model = dataclasses.replace(found, place=Place(devices=("cpu",) * 2, plan="ulysses=2"))
    latents = Latents(
        family="minimax_h3", width=side, height=side, frames=124, tensor=torch.zeros(1, 4, 37, side // 8, side // 8)
    )
    placement.decode(Decode(model=model, latents=latents))
    _, asked, options = ranks.orders[0]
    assert options["num_ranks"] == max(1, asked["split"]) == num_ranks
    assert placement.decoders_of(model, latents) == num_ranks and placement.row_decoders_of(model, latents) == 1


def test_without_devices_the_stage_is_called_here(ranks: ToyRanks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stages.STAGES, "encode_text", lambda request, progress: request)
    request = EncodeText(model=BOBBIN, prompt="a")
    assert placement.encode_text(request) is request
    assert not ranks.orders


def test_in_one_process_values_become_plain_for_what_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """For keys, that is, and for the text under such a key; what stages are given and give stays as it is."""
    askers: set[str] = set()

    def asked(value: Any) -> Any:
        askers.add(sys._getframe(1).f_code.co_name)
        return to_plain(value)

    for module in (placement, kept, values):
        monkeypatch.setattr(module, "to_plain", asked)
    for stage, answer in ANSWERS.items():
        monkeypatch.setitem(stages.STAGES, stage, lambda request, progress, answer=answer: answer)
    kept.KEPT.clear()
    assert placement.encode_text(EncodeText(model=BOBBIN, prompt="kept alone")) is TEXT
    assert placement.denoise(to_denoise(model=BOBBIN)) is EMPTY
    placement.decode(Decode(model=BOBBIN, latents=canvas(tensor=torch.zeros(1, 16, 8, 8))))
    assert askers - {"asked", "to_plain", "<dictcomp>"} == {"_once", "key_of"}


def test_a_rank_gets_its_own_device_no_place_and_its_own_built_in_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stages.STAGES, "encode_text", lambda request, progress: request)
    monkeypatch.setattr("latentloom.pipelines.components.store.store", MagicMock)
    monkeypatch.setattr(placement, "reset_peak", lambda device: None)
    model = {**to_plain(at()), "folder": "/elsewhere"}
    request = {"model": model, "prompt": "a"}
    wrapped = {"stage": "encode_text", "request": request, "ranks_here": 2, "rank": 1, "doors": order()}
    found = placement.on_rank(wrapped, SILENT, Seat(rank=1, num_ranks=2, device="cuda:1"))
    read = from_plain(Model, found["model"])
    assert (read.device, read.place, read.folder) == ("cuda:1", Place(), BOBBIN.folder)
    assert model["place"]["devices"], "the request was changed"


@pytest.mark.parametrize("family", ["bobbin", "qwen_image", "wan"])
def test_what_ranks_preload_can_be_imported(family: str, tiny: Callable[[str], Path]) -> None:
    found = preloads(describe_model("builtin:bobbin" if family == "bobbin" else str(tiny(family)), device="cpu"))
    for name in found:
        module, _, attribute = name.partition(":")
        imported = importlib.import_module(module, "latentloom")
        assert not attribute or hasattr(imported, attribute), name
    assert ".pipelines.stages" in found and any(name.startswith("transformers:") for name in found)
