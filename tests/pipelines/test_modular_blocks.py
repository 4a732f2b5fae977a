"""`latentloom.blocks`: ours in the place of stock blocks of Modular Diffusers, on ranks and on one device."""

import copy
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL, FirstBlockCacheConfig, FluxAutoBlocks, ModularPipelineBlocks
from diffusers.modular_pipelines.flux.encoders import FluxTextEncoderStep
from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxCoreDenoiseStep
from diffusers.modular_pipelines.modular_pipeline import PipelineState
from diffusers.modular_pipelines.modular_pipeline_utils import ComponentSpec, InputParam
from peft import LoraConfig
from torch import Tensor

import latentloom
from bodies.modular import call, farthest, made, ours, pipeline
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.machine.now import num_free_cores
from latentloom.parallel.pool.pool import Pool as Ranks
from latentloom.pipelines.spreading.transformer import planned
from latentloom.pipelines.whole import carried
from support.pool_processes import field
from support.ranks import Ranks as WarmRanks
from zoo.pipelines.tiny import picture

TOLERANCE = 1e-5  # of the largest value


@pytest.fixture(scope="module")
def pool(warm_pools: None) -> Iterator[Any]:
    with latentloom.Pool("cpu*2") as pool:
        yield pool


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that ranks were asked for."""
    asked, ask = list[str](), Ranks.call

    def counted(self: Any, function: str, request: Any, *args: Any, **more: Any) -> Any:
        asked.append(request["stage"])
        return ask(self, function, request, *args, **more)

    monkeypatch.setattr(Ranks, "call", counted)
    return asked


def on(pool: Any, plan: str) -> Callable[[Any], None]:
    return lambda blocks: ours(blocks, plan, pool)


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert [name for name, each in wanted.items() if not torch.equal(found[name], each)] == []


def assert_near(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert farthest(found, wanted) <= TOLERANCE * max(1.0, *(float(each.abs().max()) for each in wanted.values()))


@pytest.mark.parametrize("family", ["flux", "flux from a picture", "wan", "wan_i2v"])
def test_one_device_gives_the_bits_of_stock_blocks(family: str) -> None:
    family, _, is_from = family.partition(" ")
    more = {"image": picture(64, 64), "strength": 0.7} if is_from else {}
    wanted = made(pipeline(family), family, **more)
    found = made(pipeline(family, lambda blocks: ours(blocks, "")), family, **more)
    assert_same(found, wanted)


@pytest.mark.parametrize("family", ["flux", "wan"])
def test_a_pool_of_one_device_gives_the_bits_of_stock_blocks(family: str, warm_pools: None) -> None:
    torch.set_num_threads(max(1, num_free_cores()))  # as its rank has
    try:
        wanted = made(pipeline(family), family)
        with latentloom.Pool("cpu") as alone:
            assert_same(made(pipeline(family, on(alone, "")), family), wanted)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("family", "plan"),
    [
        *(("flux", f"{each}=2") for each in ("ulysses", "ring", "allgather")),
        *(("wan", f"{each}=2") for each in ("ulysses", "ring", "allgather", "cfg")),
        ("ltx_2", "cfg=2"),
    ],
)
def test_ranks_of_torchrun_make_what_stock_blocks_make(pair: WarmRanks, family: str, plan: str) -> None:
    for *differences, largest in pair.run("bodies.modular:compare", family, plan):
        assert max(differences) <= TOLERANCE * largest


@pytest.mark.parametrize(
    ("family", "plan"), [("flux", "ulysses=2"), ("flux", ""), ("wan", "cfg=2"), ("wan_i2v", "ring=2")]
)
def test_ranks_of_a_pool_make_what_stock_blocks_make(pool: Any, calls: list[str], family: str, plan: str) -> None:
    pipe, stock = pipeline(family, on(pool, plan)), pipeline(family)
    assert_near(made(pipe, family), made(stock, family))
    assert calls == ["Encode", "Denoise", "Decode"]
    one, other = (call(family, prompt="two blue stars") for _ in range(2))
    for _ in range(2):  # the second goes on with the generator of the first
        assert_near({"latents": pipe(**one).latents}, {"latents": stock(**other).latents})
    assert torch.equal(one["generator"].get_state(), other["generator"].get_state())
    assert calls[3:] == ["Encode", "Denoise", "Decode"] * 2


def test_without_a_generator_the_numbers_of_this_process_are_drawn(pool: Any) -> None:
    found: list[dict[str, Tensor]] = []
    for change in (lambda _: None, on(pool, "ulysses=2")):
        torch.manual_seed(5)
        pipe = pipeline("flux", change)
        found.append({"first": pipe(**call("flux", generator=None)).latents, "next": torch.rand(3)})
    assert_near(*found)


def adapted(pipe: Any, scale: float) -> Any:
    """With a LoRA on its transformer, the same each time."""
    torch.manual_seed(1)
    pipe.transformer.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k"], init_lora_weights=False), "mine")
    pipe.transformer.set_adapters(["mine"], [scale])
    return pipe


def test_a_lora_on_the_transformer_goes_along_and_its_scale_too(pool: Any) -> None:
    plain = made(pipeline("flux"), "flux")
    pipe, stock = (adapted(pipeline("flux", change), 0.7) for change in (on(pool, "ulysses=2"), lambda _: None))
    for scale in (0.7, 2.0):
        for each in (pipe, stock):
            each.transformer.set_adapters(["mine"], [scale])
        wanted = made(stock, "flux")
        assert_near(made(pipe, "flux"), wanted)
        assert farthest(wanted, plain) > 1e-3
    pipe.transformer.disable_adapters()
    assert_near(made(pipe, "flux"), plain)


def test_weights_that_change_are_given_anew(pool: Any) -> None:
    pipe, stock = pipeline("flux", on(pool, "ulysses=2")), pipeline("flux")
    made(pipe, "flux")
    for each in (pipe, stock):
        with torch.no_grad():
            each.transformer.proj_out.weight.mul_(0.5)
            each.text_encoder_2.shared.weight.mul_(0.5)
    assert_near(made(pipe, "flux"), made(stock, "flux"))


def mapped_files(pid: int) -> dict[str, tuple[int, int]]:
    """The files without a name that a process has mapped, by device and number, and where."""
    found: dict[str, tuple[int, int]] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        where, _, _, device, number, *_ = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in where.split("-"))
        if number != "0":
            found[f"{device} {number}"] = start, end
    return found


def test_host_and_ranks_have_one_copy_of_the_weights(pool: Any) -> None:
    pipe = pipeline("flux", on(pool, "ulysses=2"))
    made(pipe, "flux")
    place = pipe.transformer.proj_out.weight.data_ptr()
    mine = [name for name, (start, end) in mapped_files(os.getpid()).items() if start <= place < end]
    pids = [each.pid for each in pool.started([]).states()]
    assert len(mine) == 1 and [mine[0] in mapped_files(pid) for pid in pids] == [True, True]


def test_weights_go_with_the_model(pool: Any) -> None:
    pipe = pipeline("flux", on(pool, "ulysses=2"))
    made(pipe, "flux")
    keys = set(carried.keys_written())
    del pipe
    gc.collect()
    assert len(keys - set(carried.keys_written())) >= 4  # two text encoders, the transformer and the VAE


def test_steps_are_told_and_a_cancel_ends_the_run_but_not_the_block(pool: Any) -> None:
    steps: list[tuple[int, int]] = []

    def on_step(done: int, total: int) -> None:
        steps.append((done, total))
        if len(steps) == 2:
            block.cancel()

    block = latentloom.blocks.Denoise(FluxCoreDenoiseStep, "ulysses=2", pool, on_step=on_step)
    pipe = pipeline("flux", lambda blocks: blocks.sub_blocks.update(denoise=block))
    with pytest.raises(Cancelled):
        made(pipe, "flux")
    assert steps == [(1, 3), (2, 3)]
    assert_near(made(pipe, "flux"), made(pipeline("flux"), "flux"))


def test_a_run_on_one_device_is_cancelled_too() -> None:
    block = latentloom.blocks.Denoise(FluxCoreDenoiseStep, 1, on_step=lambda *_: block.cancel())
    pipe = pipeline("flux", lambda blocks: blocks.sub_blocks.update(denoise=block))
    with pytest.raises(Cancelled):
        made(pipe, "flux")


def test_a_rank_that_died_is_replaced_and_is_given_the_weights(pool: Any) -> None:
    pipe = pipeline("flux", on(pool, "ulysses=2"))
    wanted = made(pipe, "flux")
    os.kill(pool.started([]).states()[1].pid, signal.SIGKILL)
    assert_same(made(pipe, "flux"), wanted)


def test_a_pool_that_is_closed_ends_its_ranks(warm_pools: None) -> None:
    with latentloom.Pool("cpu") as alone:
        made(pipeline("flux", on(alone, "")), "flux")
        (rank,) = alone.started([]).states()
        pid = rank.pid
        assert field(pid, "State")
    assert field(pid, "State")[:1] in ("", "Z")  # not buried yet by who has forked it


class Halve(ModularPipelineBlocks):
    """A user's own block, between ours."""

    @property
    def inputs(self) -> list[InputParam]:
        return [InputParam("latents", required=True)]

    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        state.set("latents", state.get("latents") / 2)
        return components, state


def test_ours_stand_among_stock_blocks_and_a_user_s_own(pool: Any) -> None:
    def change(blocks: Any, plan: str | None) -> None:
        blocks.sub_blocks.insert("halve", Halve(), 3)
        inner = blocks.sub_blocks["denoise"] = FluxCoreDenoiseStep()
        if plan is not None:  # the loop alone, between stock blocks that begin and end it
            inner.sub_blocks["denoise"] = latentloom.blocks.Denoise(inner.sub_blocks["denoise"], plan, pool)

    found = made(pipeline("flux", lambda blocks: change(blocks, "ulysses=2")), "flux")
    assert_near(found, made(pipeline("flux", lambda blocks: change(blocks, None)), "flux"))


def test_a_block_says_what_the_stock_one_says() -> None:
    stock = FluxAutoBlocks()
    blocks = FluxAutoBlocks()
    ours(blocks, "ulysses=2")
    assert blocks.input_names == stock.input_names and blocks.output_names == stock.output_names
    assert blocks.component_names == stock.component_names
    told, wanted = (each.sub_blocks["denoise"].doc.partition("\n")[2] for each in (blocks, stock))
    assert told == wanted
    assert list(blocks.get_workflow("image2image").sub_blocks)[-1] == "decode"


def test_copies_share_a_pool_and_a_cancel() -> None:
    pool = latentloom.Pool("cpu*2")
    block = latentloom.blocks.Denoise(FluxCoreDenoiseStep(), "ulysses=2", pool)
    other = copy.deepcopy(block)
    assert other.pool is pool and other.block is not block.block
    with block._calls.begin() as wish:
        other.cancel()
        assert wish.is_set()


class Alone(FluxTextEncoderStep):
    pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda blocks, pool: blocks.Denoise(FluxTextEncoderStep),
            "FluxTextEncoderStep asks no transformer; give Denoise a stock block",
        ),
        (
            lambda blocks, pool: blocks.Denoise("FLUX"),
            "str asks no transformer; give Denoise a stock block of Modular Diffusers",
        ),
        (lambda blocks, pool: blocks.Encode(Halve), "Halve asks no encoder; give Encode"),
        (lambda blocks, pool: blocks.Decode(FluxTextEncoderStep), "FluxTextEncoderStep asks no VAE; give Decode"),
        (lambda blocks, pool: blocks.Denoise(FluxCoreDenoiseStep, "ulises=2"), "did you mean ulysses"),
        (lambda blocks, pool: blocks.Denoise(FluxCoreDenoiseStep, "ulysses=4", pool), "the pool has 2 devices; give"),
        (lambda blocks, pool: blocks.Denoise(FluxCoreDenoiseStep, 2, pool), "give a plan such as ulysses=2"),
        (lambda blocks, pool: made(pipeline("flux", on(None, "ulysses=2")), "flux"), "has joined no process group"),
        (lambda blocks, pool: made(pipeline("flux", on(pool, "cfg=2,weights=2")), "flux"), "leave weights"),
        (
            lambda blocks, pool: blocks.Encode(Alone, pool)(pipeline("flux"), PipelineState({"prompt": "a"})),
            "Alone of .* is no class of diff",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(make: Callable[..., Any], words: str, pool: Any) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        make(latentloom.blocks, pool)
    assert "\n" not in str(caught.value)


class Unknown(ModularPipelineBlocks):
    @property
    def expected_components(self) -> list[ComponentSpec]:
        return [ComponentSpec("transformer", AutoencoderKL)]


def test_an_unknown_model_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="there is no split plan for AutoencoderKL"):
        latentloom.blocks.Denoise(Unknown, "ulysses=2")


def test_what_ranks_cannot_be_given_is_refused(pool: Any) -> None:
    pipe = pipeline("flux", on(pool, "ulysses=2"))
    pipe.transformer.enable_cache(FirstBlockCacheConfig(threshold=0.1))
    with pytest.raises(
        ValueError, match=r"FluxTransformer2DModel has hooks .*take them off, or run the script under torchrun"
    ):
        made(pipe, "flux")
    pipe = pipeline("flux", on(pool, "ulysses=2"))
    pipe.transformer.fuse_qkv_projections()
    with pytest.raises(ValueError, match="FluxTransformer2DModel is not as its class makes it"):
        made(pipe, "flux")


# ---- An Accelerator in the place of a plan


def accelerator(num_processes: int, device: str) -> Any:
    return SimpleNamespace(num_processes=num_processes, device=torch.device(device))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (accelerator(1, "cpu"), "has num_processes=1 on a CPU, and there `accelerate launch` starts one process only"),
        (accelerator(2, "cpu"), "has num_processes=2, but this process has joined no process group; start the script"),
        (object(), "a object is no plan; give one such as ulysses=2, a number of ranks, or an Accelerator"),
    ],
)
def test_an_accelerator_that_cannot_be_is_told_by_name(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        latentloom.spread(pipeline("flux"), given)


def test_an_accelerator_of_one_gpu_is_one_rank() -> None:
    assert planned(accelerator(1, "cuda"), []).num_ranks == 1


def test_threads_may_cancel(pool: Any) -> None:
    block = latentloom.blocks.Denoise(
        FluxCoreDenoiseStep, "ulysses=2", pool, on_step=lambda *_: threading.Thread(target=block.cancel).start()
    )
    pipe = pipeline("flux", lambda blocks: blocks.sub_blocks.update(denoise=block))
    with pytest.raises(Cancelled):
        pipe(**call("flux", num_inference_steps=50))
