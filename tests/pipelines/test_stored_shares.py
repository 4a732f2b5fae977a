"""Weights that ranks share, in a workflow: the component store holds each rank's share from denoise to denoise."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.describe import add_lora, describe_model
from latentloom.pipelines.values import Lora, to_plain
from support.lora_files import write_lora
from support.packed_files import write_gguf
from support.ranks import Ranks

TOLERANCE = 1e-5  # of the largest latent, fp32
PADDING = 0.02  # of the whole: rows do not always divide


@pytest.fixture(scope="module")
def pair() -> Iterator[Ranks]:
    """Two ranks of their own, because they leave their process group."""
    with Ranks(2) as pair:
        yield pair


@pytest.mark.parametrize(
    ("family", "plan", "guidance"),
    [
        pytest.param("flux", "ulysses=2,ring=2,weights=4", 1.0, marks=pytest.mark.by_hand),
        pytest.param("qwen_image", "cfg=2,ulysses=2,weights=4", 4.0, marks=pytest.mark.by_hand),
        ("wan22", "cfg=2,allgather=2,weights=2", 4.0),
    ],
)
def test_a_workflow_denoises_with_weights_that_ranks_share(
    ranks: Any, model: Callable[..., Any], family: str, plan: str, guidance: float
) -> None:
    check(ranks.run("bodies.stored_shares:denoise_in_shares", model(family), plan, guidance), plan, family)


def test_two_ranks_share_the_weights_of_their_sequence(pair: Any, model: Callable[..., Any]) -> None:
    plan = "ulysses=2,weights=2"
    check(pair.run("bodies.stored_shares:denoise_in_shares", model("flux"), plan, 1.0), plan, "flux")


def check(found: list[dict[str, Any]], plan: str, family: str) -> None:
    assert max(each["difference"] for each in found) <= TOLERANCE * max(1.0, found[0]["largest"])
    assert all(each["share"] <= 1 / ParallelPlan.parse(plan).weights + PADDING for each in found)
    assert {each["num_transformers"] for each in found} == {2 if family == "wan22" else 1}
    assert all(each["is_kept"] and each["is_encoder_whole"] for each in found)


@pytest.mark.parametrize("plan", ["ulysses=2,weights=2", "layers=2"])
def test_shares_of_a_process_group_that_is_gone_are_loaded_anew(
    pair: Any, model: Callable[..., Any], tmp_path: Path, plan: str
) -> None:
    for each in pair.run("bodies.stored_shares:denoise_in_a_new_group", model("flux"), plan, str(tmp_path / "store")):
        assert each["same"], "bit for bit"
        assert each["is_old_gone"] and each["num_bytes"][0] == each["num_bytes"][1]


@pytest.mark.parametrize("plan", ["ulysses=2,weights=2", "cfg=2,weights=2"])
def test_a_cache_that_skips_shared_weights_is_refused_and_does_no_harm(
    pair: Any, model: Callable[..., Any], plan: str
) -> None:
    for told, is_as_before in pair.run("bodies.stored_shares:denoise_with_a_cache", model("qwen_image"), plan):
        assert "step_cache is first_block, but the weights of this QwenImageTransformer2DModel are shared" in told
        assert "use weights=1" in told
        assert is_as_before


def test_a_cache_that_skips_blocks_of_other_ranks_is_refused_and_does_no_harm(
    pair: Any, model: Callable[..., Any]
) -> None:
    for told, is_as_before in pair.run("bodies.stored_shares:denoise_with_a_cache", model("flux"), "layers=2"):
        assert "step_cache is first_block, and plan layers=2 runs blocks on ranks that would each skip them" in told
        assert is_as_before


@pytest.mark.parametrize(
    ("plan", "change", "words"),
    [
        ("ulysses=2,weights=2", {"quantization": "int8"}, "quantization int8"),
        (
            "ulysses=2,weights=2",
            {"loras": (Lora(path="a.safetensors", sha256="", adapter="a"),), "quantization": "fp8"},
            "fp8 and LoRAs",
        ),
        ("ulysses=2,weights=2", {"source": "one.safetensors@base"}, "a single-file checkpoint"),
        ("ulysses=2,weights=2", {"graphs": "on"}, "which no CUDA graph can hold"),
        ("layers=2", {"graphs": "on"}, "which no CUDA graph can hold"),
    ],
)
def test_what_cannot_be_read_in_shares_is_refused_by_name(
    tiny: Callable[[str], Path], plan: str, change: Any, words: str
) -> None:
    model = dataclasses.replace(describe_model(str(tiny("flux")), device="cpu"), **change)
    axis = "layers" if "layers" in plan else "weights"
    with pytest.raises(ValueError, match=f"plan {plan}: .*{words}.*use {axis}=1, or"):
        ComponentStore().load(model, ("transformer",), plan=ParallelPlan.parse(plan))


def with_loras(tiny: Callable[[str], Path], folder: Path, family: str) -> list[dict[str, Any]]:
    """A model with two LoRAs, one of which changes layers outside of blocks too, with one of them, without, and with
    another scale."""
    model = describe_model(str(tiny(family)), device="cpu")
    transformer = ComponentStore().load(model, ("transformer",))["transformer"]
    files = [
        write_lora(folder / f"{i}.safetensors", transformer, prefix="transformer", layers=layers, seed=i)
        for i, layers in enumerate((("to_q", "proj_out", "x_embedder"), ("to_q", "to_v", "ff")))
    ]
    one = add_lora(model, str(files[0]), 0.7)
    models = (add_lora(one, str(files[1]), -0.4), one, model, add_lora(model, str(files[0]), 1.5))
    return [to_plain(each) for each in models]


def check_each(found: list[list[dict[str, Any]]], *, has_all_bits: bool, most: float) -> None:
    for rank in found:
        for each in rank:
            assert each["difference"] <= (0 if has_all_bits else TOLERANCE * max(1.0, each["largest"]))
            assert each["share"] <= most
    assert len({each["mark"] for each in found[0]}) == len(found[0]), "each model denoises to something else"


@pytest.mark.parametrize("family", ["flux", "wan22"])
def test_loras_on_sections_give_the_bits_of_one_process_and_are_exchanged(
    pair: Any, tiny: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    found = pair.run("bodies.stored_shares:denoise_each", with_loras(tiny, tmp_path, family), "layers=2")
    check_each(found, has_all_bits=True, most=0.75)
    assert all(len({each["held"] for each in rank}) == 1 for rank in found), "one transformer carries them in turn"


@pytest.mark.parametrize("plan", ["cfg=2,layers=2", "layers=2,ulysses=2"])
def test_loras_on_sections_of_several_ranks_are_those_of_one_process(
    ranks: Any, tiny: Callable[[str], Path], tmp_path: Path, plan: str
) -> None:
    found = ranks.run("bodies.stored_shares:denoise_each", with_loras(tiny, tmp_path, "flux"), plan)
    check_each(found, has_all_bits="ulysses" not in plan, most=0.75)


def test_packed_weights_and_single_files_are_dealt_out_as_they_are_read(
    pair: Any, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed: pip install '.[dev]'")
    weights = load_file(tiny("flux") / "transformer" / "diffusion_pytorch_model.safetensors")
    file = write_gguf(tmp_path / "one.gguf", weights)
    style = with_loras(tiny, tmp_path, "flux")[1]
    models = [describe_model(f"{file}@{tiny('flux')}", device="cpu", quantization=each) for each in ("none", "int8")]
    packed = [to_plain(each) for each in models] + [{**style, "quantization": "int8"}]
    check_each(pair.run("bodies.stored_shares:denoise_each", packed, "layers=2"), has_all_bits=True, most=0.75)


def test_kept_keys_are_refused_by_name_before_blocks_are_dealt_out(tiny: Callable[[str], Path]) -> None:
    model = describe_model(str(tiny("qwen_image_21")), device="cpu")
    with pytest.raises(ValueError, match=r"plan layers=2: .* keeps keys from step to step.*another plan than layers"):
        ComponentStore().load(model, ("transformer",), plan=ParallelPlan(layers=2))
