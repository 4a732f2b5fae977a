"""Step caches: what they skip, that ranks skip it together, that nothing of them stays, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers.models.cache_utils import CacheMixin
from safetensors.torch import save_file
from torch import nn

from bodies.cache import linear_calls
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components.store import store
from latentloom.pipelines.denoising import step_cache
from latentloom.pipelines.denoising.step_cache import cached
from latentloom.pipelines.models.describe import add_lora, describe_model
from latentloom.pipelines.requests import Denoise
from latentloom.pipelines.values import Conditioning, Latents, Model, from_plain, to_plain
from support.by_hand import cells
from support.told import Told

TOLERANCE = 1e-5  # of the largest latent, fp32
PLANS = ["ring=2", "allgather=2", "cfg=2,ulysses=2"]
CELLS = [
    ("bobbin", "first_block", 0.3),
    ("bobbin", "mag", 0.3),
    pytest.param("bobbin", "taylorseer", 0.0, marks=pytest.mark.by_hand),
    pytest.param("qwen_image", "first_block", 1.2, marks=pytest.mark.by_hand),
    pytest.param("qwen_image", "taylorseer", 0.0, marks=pytest.mark.by_hand),
    pytest.param("wan", "first_block", 1.0, marks=pytest.mark.by_hand),
    pytest.param("wan", "taylorseer", 0.0, marks=pytest.mark.by_hand),
    ("wan", "sea", 0.5),
    pytest.param("wan22", "sea", 0.5, marks=pytest.mark.by_hand),
]


@pytest.fixture(scope="module")
def described(tiny: Callable[[str], Path]) -> Callable[[str], dict[str, Any]]:
    """`described(family)`: a tiny model or bobbin as plain data."""
    return lambda family: to_plain(
        describe_model("builtin:bobbin" if family == "bobbin" else str(tiny(family)), device="cpu")
    )


def check_equal(found: list[Any], plans: list[str]) -> None:
    for number, plan in enumerate(plans):
        got = [each[number] for each in found if each[number] is not None]
        assert max(each["difference"] for each in got) <= TOLERANCE * max(1.0, got[0]["largest"]), plan
        assert len({each["bits"] for each in got}) == 1, plan


@pytest.mark.parametrize(("family", "kind", "threshold"), CELLS)
def test_sharded_with_a_cache_equals_one_process_with_it(
    ranks: Any, described: Any, family: str, kind: str, threshold: float
) -> None:
    cache = {"step_cache": kind, "cache_threshold": threshold}
    plans = PLANS if kind == "first_block" else PLANS[-1:]  # each strategy once; else both things that are split
    found = ranks.run("bodies.cache:denoise_cached", described(family), cache, plans, {})
    check_equal(found, plans)
    for number, plan in enumerate(plans):
        got = [each[number] for each in found if each[number] is not None]
        shared_by = ParallelPlan.parse(plan).sequence
        assert sum(each["calls"] for each in got) == shared_by * got[0]["calls_alone"], "the same steps were skipped"


@pytest.mark.parametrize(
    "interval",
    [pytest.param({"guidance_stop": 0.5}, marks=pytest.mark.by_hand), {"guidance_start": 0.25, "guidance_stop": 0.75}],
)
@pytest.mark.parametrize("cache", [{"step_cache": "taylorseer"}, {"step_cache": "first_block", "cache_threshold": 1.0}])
def test_split_branches_remember_their_own_steps_where_guidance_ends(
    ranks: Any, described: Any, cache: dict[str, Any], interval: dict[str, float]
) -> None:
    plans = ["cfg=2,ulysses=2"]
    found = ranks.run("bodies.cache:denoise_cached", described("bobbin"), cache, plans, {"sampling": interval})
    check_equal(found, plans)


@pytest.mark.parametrize(
    ("plan", "kind"),
    cells(("ulysses=4", "ring=2"), ("first_block", "sea"), here=[("ulysses=4", "first_block"), ("ring=2", "sea")]),
)
def test_thresholds_one_float_apart_never_split_the_ranks(ranks: Any, kind: str, plan: str) -> None:
    found = [each for each in ranks.run("bodies.cache:split_votes", kind, plan) if each is not None]
    assert all(each == found[0] for each in found)
    assert {computed for computed, _ in found[0]} == {True, False}, "both outcomes were met"


def test_a_cache_turned_on_after_sharding_decides_together_and_alone_again_afterwards(ranks: Any) -> None:
    found = ranks.run("bodies.cache:cache_after_shard", "ulysses=2")[:2]
    assert found[0][:2] == found[1][:2]
    assert found[0][0] is False
    assert found[0][1] == pytest.approx(found[0][2], rel=1e-3)


def test_after_a_cancelled_run_with_a_cache_the_next_one_is_undisturbed(ranks: Any, described: Any) -> None:
    found = ranks.run("bodies.cache:cancel_and_go_on", described("bobbin"), "cfg=2")[:2]
    assert len({mark for each in found for mark in each}) == 1


# ---- one process


@pytest.mark.parametrize(("family", "kind", "threshold"), CELLS)
def test_a_cache_skips_blocks_and_nothing_of_it_stays(
    described: Any, canvas: Any, paint: Any, monkeypatch: Any, family: str, kind: str, threshold: float
) -> None:
    monkeypatch.setitem(step_cache.CALIBRATED, "FluxTransformer2DModel", {"num_layers": 2})
    model = described(family)
    empty = canvas(model["family"], **({"frames": 5} if family.startswith("wan") else {}))
    request = {"steps": 8, "guidance": 3.0}
    before, num_before = linear_calls(lambda: paint(model, empty, **request))
    cached, num_cached = linear_calls(
        lambda: paint(model, empty, **request, step_cache=kind, cache_threshold=threshold)
    )
    after, num_after = linear_calls(lambda: paint(model, empty, **request))
    assert num_cached < num_before == num_after
    assert not torch.equal(cached, before)
    assert torch.equal(after, before)


def attributes_of(model: dict[str, Any]) -> dict[str, list[str]]:
    transformer = store().load(from_plain(Model, model), ("transformer",))["transformer"]
    return {name: sorted(vars(module)) for name, module in transformer.named_modules()}


def test_a_transformer_is_as_it_was_after_a_cancelled_run(described: Any, canvas: Any, paint: Any) -> None:
    model = described("bobbin")
    before = attributes_of(model)
    with pytest.raises(Cancelled):
        paint(model, canvas("flux"), step_cache="first_block", progress=Told(cancel_after=1))
    assert attributes_of(model) == before


def test_a_cache_goes_with_a_lora_and_neither_stays(described: Any, canvas: Any, paint: Any, tmp_path: Path) -> None:
    model = described("flux")
    layer = "transformer_blocks.0.attn.to_q"
    down, up = (f"transformer.{layer}.lora_{name}.weight" for name in "AB")
    save_file({down: torch.ones(2, 64), up: 0.1 * torch.ones(64, 2)}, tmp_path / "a.safetensors")
    with_lora = to_plain(add_lora(from_plain(Model, model), str(tmp_path / "a.safetensors")))
    before, _ = linear_calls(lambda: paint(model, canvas("flux"), steps=6))
    _, num_whole = linear_calls(lambda: paint(with_lora, canvas("flux"), steps=6))
    _, num_cached = linear_calls(lambda: paint(with_lora, canvas("flux"), steps=6, step_cache="taylorseer"))
    assert num_cached < num_whole
    assert torch.equal(linear_calls(lambda: paint(model, canvas("flux"), steps=6))[0], before)


@pytest.mark.parametrize(
    ("family", "request_", "words"),
    [
        ("bobbin", {"step_cache": "first_blok"}, "did you mean first_block"),
        ("bobbin", {"cache_threshold": 0.1}, "step_cache none has none; set cache_threshold to 0"),
        ("bobbin", {"step_cache": "taylorseer", "cache_threshold": 0.1}, "step_cache taylorseer has none"),
        ("bobbin", {"step_cache": "mag"}, "ratios measured on the model.*choose first_block or taylorseer"),
        ("bobbin", {"step_cache": "mag", "sampling": {"guidance_start": 0.5}}, "guidance_start at 0"),
        ("bobbin", {"step_cache": "sea"}, "video made from text.*choose first_block"),
        ("bobbin", {"step_cache": "first_block", "sampling": {"scheduler": "heun"}}, "choose the scheduler euler"),
        ("sd3", {"step_cache": "first_block"}, "no step cache for SD3Transformer2DModel; set step_cache to none"),
    ],
)
def test_what_a_cache_cannot_do_is_refused_by_name(
    described: Any, canvas: Any, paint: Any, family: str, request_: dict[str, Any], words: str
) -> None:
    model = described(family)
    with pytest.raises(ValueError, match=words):
        paint(model, canvas(model["family"]), **request_)


@pytest.mark.parametrize(
    ("graphs", "instead"), [({"engine": "inductor"}, "engine eager"), ({"graphs": "on"}, "graphs auto")]
)
def test_a_model_with_graphs_is_refused(
    described: Any, canvas: Any, paint: Any, graphs: dict[str, str], instead: str
) -> None:
    model = {**described("bobbin"), **graphs}
    with pytest.raises(ValueError, match=f"load it with {instead}, or set step_cache to none"):
        paint(model, canvas("flux"), step_cache="first_block")


class Strange(nn.Module, CacheMixin):
    """A transformer whose blocks diffusers has never heard of."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(3))


def test_unknown_blocks_are_refused_by_name_and_left_as_they_are() -> None:
    transformer = Strange()
    before = [sorted(vars(module)) for module in transformer.modules()]
    parts = {"transformer": transformer, "scheduler": SimpleNamespace(order=1)}
    words = "which Strange cannot have: diffusers does not know its Identity; choose taylorseer"
    request = Denoise(
        model=describe_model("builtin:bobbin", device="cpu"),
        conditioning=Conditioning(family="flux", prompt="", negative_prompt="", positive={}),
        latents=Latents(family="flux", width=64, height=64),
        step_cache="first_block",
    )
    with pytest.raises(ValueError, match=words), cached(parts, request):
        pass
    assert [sorted(vars(module)) for module in transformer.modules()] == before
