"""What was encoded is kept: found by all that it is made of and by nothing less, within a budget, for its keeper."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.parallel.progress import Progress
from latentloom.pipelines import placement, stages
from latentloom.pipelines.kept import ENTRY_BYTES, KEPT, Kept
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.requests import EncodeImage, EncodeText
from latentloom.pipelines.values import Conditioning, Image, Latents, Lora, Model, Place, References

BOBBIN = describe_model("builtin:bobbin", device="cpu")
LORA = Lora(path="/a", sha256="0", adapter="a")
GREY = torch.full((1, 64, 64, 3), 0.5)


class Counted:
    """Stands for the stages and counts how often each is asked."""

    def __init__(self) -> None:
        self.texts: list[Any] = []
        self.pictures: list[Any] = []

    def encode_text(self, request: EncodeText, progress: Progress) -> Conditioning:
        self.texts.append(request)
        made = {"prompt_embeds": torch.full((1, 4), float(len(self.texts)))}
        seen = {"picture": torch.ones(2)} if request.references else {}
        return Conditioning(family="flux", prompt="", negative_prompt="", positive=made, references=seen)

    def encode_image(self, request: EncodeImage, progress: Progress) -> Latents:
        self.pictures.append(request)
        return Latents(family="flux", width=64, height=64, tensor=torch.zeros(1, 16))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    known = {"encode_text": counted.encode_text, "encode_image": counted.encode_image}
    monkeypatch.setattr(stages, "STAGES", known)
    monkeypatch.setattr(placement, "settled", lambda request: request)
    return counted


def text(model: Model = BOBBIN, *, keeper: str = "", **fields: Any) -> Conditioning:
    progress = Progress()
    progress.keeper = keeper
    return placement.encode_text(EncodeText(**{"model": model, "prompt": "a red star", **fields}), progress)


def of(**fields: Any) -> Model:
    return dataclasses.replace(BOBBIN, **fields)


def test_the_same_text_is_encoded_once_and_any_difference_counts(counted: Counted) -> None:
    first = text()
    for same in (text(), text(of(engine="inductor", graphs="on")), text(prompt="a red star", negative_prompt="")):
        assert torch.equal(same.positive["prompt_embeds"], first.positive["prompt_embeds"])
    assert len(counted.texts) == 1
    others: tuple[Callable[[], Any], ...] = (
        lambda: text(prompt="a red star "),
        lambda: text(negative_prompt="blue"),
        lambda: text(text_length=9),
        lambda: text(references=References(pictures=(GREY[0],))),
        lambda: text(references=References(pictures=(GREY[0] / 2,))),
        lambda: text(of(fingerprint="changed")),
        lambda: text(of(dtype="bf16")),
        lambda: text(of(quantization="int8")),
        lambda: text(of(device="cuda")),
        lambda: text(of(loras=(LORA,))),
        lambda: text(of(loras=(dataclasses.replace(LORA, scale=0.5),))),
        lambda: text(keeper="ada"),
    )
    for other in others:
        other()
    assert len(counted.texts) == 1 + len(others)


def test_the_same_picture_is_encoded_once_by_its_bytes(counted: Counted) -> None:
    changed = GREY.clone()
    changed[0, 63, 63, 2] += 1e-6
    flat = GREY.reshape(1, 32, 128, 3)
    for pixels, fields in ((GREY, {}), (GREY.clone(), {}), (changed, {}), (GREY, {"seed": 1}), (GREY, {"seed": 1})):
        placement.encode_image(EncodeImage(model=BOBBIN, image=Image(pixels=pixels), **fields))
    placement.encode_image(EncodeImage(model=BOBBIN, image=Image(pixels=flat)))
    assert len(counted.pictures) == 4


def test_other_words_for_the_same_pictures_do_not_encode_these_again(counted: Counted) -> None:
    pictures = References(pictures=(GREY[0],))
    for words in ("make it blue", "make it green", "make it green"):
        text(prompt=words, references=pictures)
    first, second = counted.texts
    assert first.before is None and torch.equal(second.before.references["picture"], torch.ones(2))


def test_a_model_takes_the_latents_of_pictures_that_it_encoded_before(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = describe_model(str(tiny("flux_2")), device="cpu")
    pictures = References(pictures=(torch.rand(64, 96, 3, generator=torch.Generator().manual_seed(0)),))
    alone = stages.encode_text(model=model, prompt="make it green", references=pictures)
    placement.encode_text(EncodeText(model=model, prompt="make it blue", references=pictures))
    monkeypatch.setattr(stages, "_encoded", lambda *given: pytest.fail("the pictures were encoded again"))
    found = placement.encode_text(EncodeText(model=model, prompt="make it green", references=pictures))
    for name in ("positive", "references"):
        assert same(getattr(found, name), getattr(alone, name))


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one) and one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_whoever_changes_what_he_got_changes_nothing_that_is_kept(counted: Counted) -> None:
    for _ in range(3):
        found = text().positive["prompt_embeds"]
        assert torch.equal(found, torch.ones(1, 4))
        found.zero_()


def test_devices_and_plans_do_not_count_but_their_kind_does(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_run", lambda request, *given, **where: counted.encode_text(request, Progress()))
    for devices, plan in (
        (("cpu", "cpu"), "ulysses=2"),
        (("cpu",), ""),
        ((), ""),
        (("cuda:0",), ""),
        (("cuda:1",), ""),
    ):
        text(of(device=devices[0] if devices else "cpu", place=Place(devices=devices, plan=plan)))
    assert len(counted.texts) == 2


def test_the_least_recently_used_goes_when_the_bytes_exceed_the_budget() -> None:
    kept = Kept(2 * (ENTRY_BYTES + 400))
    for key in "ab":
        kept.keep(key, {"x": torch.zeros(100)})
    assert kept.get("a") is not None
    kept.keep("c", [{"x": torch.zeros(50)}, torch.zeros(50)])
    assert [kept.get(key) is None for key in "abc"] == [False, True, False]
    assert kept.used_bytes == kept.budget_bytes
    kept.keep("d", {"x": torch.zeros(10_000)})  # larger than all of it
    kept.keep("c", {"x": torch.zeros(0)})
    assert kept.get("d") is None and kept.get("a") is not None and kept.used_bytes == 2 * ENTRY_BYTES + 400


def test_a_part_of_a_large_tensor_takes_no_more_than_itself() -> None:
    KEPT.keep("a", torch.zeros(1000)[:10])
    found = KEPT.get("a")
    assert found is not None and found.untyped_storage().nbytes() == 40
