"""Layers that share an input share a product: the same numbers, fewer products, and a module as it was afterwards."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from diffusers import FirstBlockCacheConfig
from peft import LoraConfig
from safetensors.torch import load_file
from torch import Tensor, nn
from torch._dynamo.backends.debugging import aot_eager, eager

from latentloom.parallel.sharding import compiled as sharding_compiled
from latentloom.parallel.sharding.captured import Captured
from latentloom.parallel.sharding.graphs.watched import Watched
from latentloom.pipelines.components.loans import Condition
from latentloom.pipelines.components.prepared import Prepared
from latentloom.pipelines.fusing import products
from latentloom.pipelines.fusing.products import SHARED, fuse_products
from support.cells import model_of, outputs
from support.launches import Launches
from support.tapes import Tapes
from zoo.cases import Case

TOLERANCE = 1e-6  # of the largest number, fp32
# By variant: the products, of a launch each, that one forward of it needs no more.
SAVED = {
    "flux3": 18,
    **dict.fromkeys(("flux", "chroma", "ovis_image", "longcat_image", "bria", "bria_fibo"), 14),
    **dict.fromkeys(("wan_vace", "sd35"), 10),
    **dict.fromkeys(("flux2", "qwen_image", "z_image", "hunyuan_video_15"), 8),
    "krea2": 6,
    **dict.fromkeys(("qwen_image21", "wan", "skyreels_v2", "ernie_image", "ltx", "minimax_h3"), 4),
}
LORA = {"r": 2, "target_modules": ["to_q", "to_v", "proj_mlp"], "init_lora_weights": False}


def built(name: str, *, rows: int = 4) -> tuple[Any, dict[str, Any]]:
    return model_of(name, Case("any", rows=rows, columns=4, text=7))


def counted(model: nn.Module, inputs: dict[str, Any]) -> tuple[list[Tensor], int]:
    """What it gives, and how many kernels a GPU would be asked for."""
    with Launches() as seen:
        return outputs(model, inputs), seen.count


def off(found: list[Tensor], wanted: list[Tensor]) -> float:
    return max(float((x - y).abs().max() / y.abs().max()) for x, y in zip(found, wanted, strict=True))


def held_bytes(model: nn.Module) -> int:
    """What the weights' memory takes, each piece of it once."""
    storages = [each.untyped_storage() for each in model.parameters()]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


@pytest.mark.filterwarnings("ignore:.FluxPosEmbed. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", SAVED)
def test_a_class_gives_the_same_by_fewer_products(name: str) -> None:
    model, inputs = built(name)
    outputs(model, inputs)  # makes what a model keeps
    wanted, num_apart = counted(model, inputs)
    undo = fuse_products(model)
    found, num_fused = counted(model, inputs)
    undo()
    assert off(found, wanted) <= TOLERANCE
    assert num_apart - num_fused == SAVED[name]


@pytest.mark.filterwarnings("ignore:.FluxPosEmbed. is deprecated:FutureWarning")
def test_no_row_of_the_table_is_of_a_class_that_is_not_tried() -> None:
    assert set(SHARED) <= {type(each).__name__ for name in SAVED for each in built(name)[0].modules()}


def test_weights_are_held_once_under_their_own_names_and_stay_so(tmp_path: Path) -> None:
    model, inputs = built("flux")
    wanted, num_bytes = outputs(model, inputs), held_bytes(model)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    parameters = dict(model.named_parameters())
    undo = fuse_products(model)
    assert held_bytes(model) == num_bytes
    assert dict(model.named_parameters()) == parameters  # the very same ones
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "diffusion_pytorch_model.safetensors")
    assert saved.keys() == before.keys() and all(torch.equal(saved[name], x) for name, x in before.items())
    undo()
    addresses = {name: x.data_ptr() for name, x in model.named_parameters()}
    assert [name for name, each in model.named_modules() if "forward" in vars(each)] == []
    assert not model._forward_pre_hooks and off(outputs(model, inputs), wanted) == 0
    fuse_products(model)()
    assert {name: x.data_ptr() for name, x in model.named_parameters()} == addresses, "they lay side by side already"


@pytest.mark.parametrize("is_before", [True, False])
def test_a_lora_stays_on_top_of_its_layers(is_before: bool) -> None:
    plain, inputs = built("flux")
    model, _ = built("flux")
    undo, before = None if is_before else fuse_products(model), outputs(plain, inputs)
    for each in (plain, model):
        torch.manual_seed(3)
        each.add_adapter(LoraConfig(**LORA), "one")
    assert off(outputs(plain, inputs), before) > 0.01, "it changes what a forward gives"
    undo = undo or fuse_products(model)
    without = counted(plain, inputs)[1]
    for scale in (1.0, 0.25):
        for each in (plain, model):
            each.set_adapters(["one"], [scale])
        found, num_fused = counted(model, inputs)
        assert off(found, outputs(plain, inputs)) <= TOLERANCE
        assert without - num_fused == SAVED["flux"]
    for each in (plain, model):
        each.fuse_lora()
    assert off(outputs(model, inputs), outputs(plain, inputs)) <= TOLERANCE
    for each in (plain, model):
        each.unfuse_lora()
        each.unload_lora()
    assert off(outputs(model, inputs), outputs(plain, inputs)) <= TOLERANCE
    undo()


def _merge_in_a_copy(model: Any) -> None:
    """A weight's memory is another one."""
    model.add_adapter(LoraConfig(**LORA), "one")
    model.fuse_lora(safe_fusing=True)


def _another_weight(model: Any) -> None:
    layer = model.transformer_blocks[0].attn.to_k
    layer.weight = nn.Parameter(layer.weight.detach() * 1.5)


def _another_bias(model: Any) -> None:
    layer = model.single_transformer_blocks[1].attn.to_v
    layer.bias.data = layer.bias.data + 1


@pytest.mark.parametrize("change", [_merge_in_a_copy, _another_weight, _another_bias])
def test_layers_whose_weight_is_replaced_are_called_one_by_one(change: Any, caplog: pytest.LogCaptureFixture) -> None:
    plain, inputs = built("flux")
    model, _ = built("flux")
    undo = fuse_products(model)
    before = outputs(model, inputs)
    for each in (plain, model):
        torch.manual_seed(3)
        change(each)
    wanted = outputs(plain, inputs)
    assert off(wanted, before) > 1e-3
    assert off(outputs(model, inputs), wanted) <= TOLERANCE
    assert "a weight was replaced, so these layers are called one by one" in caplog.text
    undo()


class Packed(Tensor):
    """As a library of quantized weights has them."""


def test_layers_that_cannot_share_are_left_as_they_are_and_named(caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = built("flux")
    wanted, num_apart = counted(model, inputs)
    packed, odd = model.transformer_blocks[0].attn.to_q, model.single_transformer_blocks[0]
    packed.weight = nn.Parameter(packed.weight.detach().as_subclass(Packed), requires_grad=False)
    odd.attn.to_k.bias = None
    wanted = outputs(model, inputs)
    with caplog.at_level(logging.INFO, "latentloom"):
        undo = fuse_products(model)
    found, num_fused = counted(model, inputs)
    undo()
    assert off(found, wanted) <= TOLERANCE
    assert num_apart - num_fused == SAVED["flux"] - 2 - 3
    assert (
        "transformer_blocks.0: attn.to_q, attn.to_k, attn.to_v are called one by one: a weight is packed" in caplog.text
    )
    assert "single_transformer_blocks.0: proj_mlp" in caplog.text and "unlike" in caplog.text


def test_a_layer_that_is_given_something_else_makes_its_own_product() -> None:
    """As when two threads take turns in one transformer, or one calls a layer alone."""
    model, _ = built("wan")
    attention = model.blocks[0].attn1
    layers = (attention.to_q, attention.to_k, attention.to_v)
    x, other = torch.randn(2, 1, 5, attention.to_q.in_features)
    with torch.no_grad():
        wanted = [[layer(each) for layer in layers] for each in (x, other)]
        undo = fuse_products(model)
        mixed = [layers[0](x), layers[0](other), layers[1](x), layers[1](other), layers[2](x), layers[2](other)]
        alone = layers[2](x)
    undo()
    for found, right in zip(mixed, (w for pair in zip(*wanted, strict=True) for w in pair), strict=True):
        torch.testing.assert_close(found, right, rtol=TOLERANCE, atol=TOLERANCE)
    torch.testing.assert_close(alone, wanted[0][2], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.fixture
def compiled() -> Iterator[dict[str, Any]]:
    counters = torch._dynamo.utils.counters
    torch._dynamo.reset()
    counters.clear()
    yield counters
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("name", "num_graphs", "backend"),
    [
        ("wan", 1, eager),
        *(
            pytest.param(name, num_graphs, aot_eager, marks=pytest.mark.by_hand)
            for name, num_graphs in {"flux": 2, "qwen_image": 1, "wan": 1}.items()
        ),
    ],
)
def test_all_blocks_of_a_kind_share_a_compiled_graph(
    name: str, num_graphs: int, backend: Callable[..., Any], compiled: dict[str, Any]
) -> None:
    model, inputs = built(name)
    wanted = outputs(model, inputs)
    with patch.object(sharding_compiled, "in_turn", backend), patch.object(products, "DEVICES", ("cpu",)):
        ready = Prepared(model, Condition(engine="inductor"), None, share=None)
    blocks = [each for each in model.modules() if type(each).__name__ in model._repeated_blocks]
    assert len({Watched(each).state() for each in blocks}) == num_graphs, "by their key too"
    for _ in range(2):
        assert off(outputs(model, inputs), wanted) <= TOLERANCE
    assert compiled["stats"]["unique_graphs"] == num_graphs and not compiled["graph_break"]
    other = built(name, rows=5)[1]
    assert off(outputs(model, other), outputs(built(name)[0], other)) <= TOLERANCE, "and for other lengths"
    ready.end()


def test_a_step_cache_skips_the_same_blocks() -> None:
    plain, inputs = built("flux")
    model, _ = built("flux")
    undo = fuse_products(model)
    counts = []
    for each in (plain, model):
        each.enable_cache(FirstBlockCacheConfig(threshold=10.0))
        with each.cache_context("cond"):
            counts.append([counted(each, inputs) for _ in range(3)])
    wanted, found = counts
    assert wanted[1][1] < wanted[0][1], "blocks are skipped"
    for (x, num_fused), (y, num_apart) in zip(found, wanted, strict=True):
        assert off(x, y) <= TOLERANCE and num_fused < num_apart
    undo()


def test_a_captured_forward_has_the_same_numbers() -> None:
    model, inputs = built("flux")
    undo, tapes = fuse_products(model), Tapes()
    wanted = outputs(model, inputs)
    replayed = Captured(model, recorder=tapes)
    for _ in range(4):
        assert off(outputs(model, inputs), wanted) == 0
    replayed.restore()
    undo()
    assert tapes.made and not replayed.reasons
