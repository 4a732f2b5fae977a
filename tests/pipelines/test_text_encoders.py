"""Where text encoders work: on the CPU where that is asked for, or on ranks that hold them between them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bodies.texts import compare, encoded
from latentloom.parallel.progress import RankWork
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import ComponentStore, store
from latentloom.pipelines.kept import key_of
from latentloom.pipelines.models.describe import add_lora, describe_model
from latentloom.pipelines.values import to_plain
from support.lora_files import write_lora
from support.ranks import Ranks
from support.told import Told


def on_gpu(model: dict[str, Any]) -> dict[str, Any]:
    """The same of a GPU that is not here, whose texts a CPU encodes."""
    return {**model, "device": "cuda:0", "text_encoder": "cpu"}


@pytest.fixture
def with_lora(tiny: Callable[[str], Path], tmp_path: Path) -> dict[str, Any]:
    model = describe_model(str(tiny("flux")), device="cpu")
    encoder = ComponentStore().load(model, ("text_encoder",))["text_encoder"]
    file = write_lora(tmp_path / "te.safetensors", encoder, prefix="text_encoder", layers=("q_proj",))
    return to_plain(add_lora(model, str(file), 0.6))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("flux", {}),
        ("flux", {"quantization": "int8"}),
        ("wan22", {"dtype": "bf16"}),
        ("minimax_h3", {}),
        ("ltx_2", {}),
    ],
)
def test_a_cpu_that_is_asked_for_gives_what_a_cpu_gives(
    model: Callable[..., Any], family: str, options: dict[str, Any]
) -> None:
    asked = model(family, **options)
    assert compare(0, asked, on_gpu(asked)) == [True] * 5


def test_so_it_does_with_a_lora(model: Callable[..., Any], with_lora: dict[str, Any]) -> None:
    assert compare(0, with_lora, on_gpu(with_lora)) == [True] * 5
    pairs = zip(encoded(on_gpu(with_lora)), encoded(model("flux")), strict=True)
    assert any(one.ne(other).any() for one, other in pairs)
    store().clear()


def test_so_it_does_in_ranks(pair: Ranks, model: Callable[..., Any]) -> None:
    assert pair.run("bodies.texts:compare", model("flux"), on_gpu(model("flux"))) == [[True] * 5] * 2


def test_a_cpu_is_told_of_and_part_of_the_key(model: Callable[..., Any]) -> None:
    heard, works = Told(), list[RankWork]()
    heard.spread = lambda plan, ranks: works.extend(ranks)  # type: ignore[method-assign]
    stages.encode_text({"model": on_gpu(model("flux")), "prompt": "a"}, heard)
    assert "encoding text on the CPU, as asked" in heard.phases and [each.device for each in works] == ["cpu"]
    at = describe_model("builtin:bobbin", device="cuda:0", is_here=False)
    away = describe_model("builtin:bobbin", device="cuda:0", text_encoder="cpu", is_here=False)
    assert away == dataclasses.replace(at, text_encoder="cpu")
    assert key_of(at, {}, keeper="") != key_of(away, {}, keeper="")
    assert describe_model("builtin:bobbin", device="cpu", text_encoder="cpu").text_encoder == "device", "where it is"
    told = "text_encoder is cpu, and quantization int4 needs CUDA; choose text_encoder device, or quantization int8"
    with pytest.raises(ValueError, match=told):
        describe_model("builtin:bobbin", device="cuda:0", text_encoder="cpu", quantization="int4", is_here=False)
    with pytest.raises(ValueError, match="choose one of device, cpu"):
        describe_model("builtin:bobbin", text_encoder="gpu")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "options"),
    [("flux", {}), ("flux", {"quantization": "int8"}), ("wan22", {"dtype": "bf16"}), ("ltx_2", {})],
)
def test_ranks_that_hold_them_between_them_give_the_bits_of_one(
    pair: Ranks, model: Callable[..., Any], family: str, options: dict[str, Any]
) -> None:
    assert pair.run("bodies.texts:split", model(family, **options)) == [[True] * 4] * 2


def test_so_they_do_with_a_lora_and_where_one_has_no_room(
    pair: Ranks, model: Callable[..., Any], with_lora: dict[str, Any]
) -> None:
    assert pair.run("bodies.texts:split", with_lora) == [[True] * 4] * 2
    assert pair.run("bodies.texts:short_of_room", model("flux")) == [[True] * 4] * 2
