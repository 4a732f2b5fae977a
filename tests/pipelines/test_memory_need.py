"""What a run needs of each device's memory, against the closed forms written out by hand."""

import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from latentloom.parallel.machine.now import convolves
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.components.memory import PACKED_ON_GPU, PACKING_BYTES, SPARE_BYTES
from latentloom.pipelines.components.resting import Resting
from latentloom.pipelines.components.store import store
from latentloom.pipelines.forecast.memory import (
    CONTEXT_BYTES,
    EACH,
    LIVE,
    Work,
    asked_of,
    fits,
    room_of,
    spares_beside,
    whole_bytes,
    work_of,
)
from latentloom.pipelines.forecast.weights import MEMBER, MOST_UNFOLDED, NO_LIMIT, Need, decoded_numbers, weights_of
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.shape import empty_canvas
from latentloom.pipelines.stages import _working_bytes
from latentloom.pipelines.values import Conditioning, Latents, Lora, Model, Quantization
from support.flux_folder import BLOCKS, OUTSIDE, TRANSFORMER_BYTES, write_flux, write_holes

TOKENS, TEXT, WIDTH = 64 * 64, 512, 24 * 128
RING = ParallelPlan(ring=4)


@pytest.fixture(scope="session")
def flux(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = write_flux(tmp_path_factory.mktemp("large") / "flux", tiny("flux"))
    return describe_model(str(folder), device="cuda:0", is_here=False)


def work(model: Model, **size: int) -> Work:
    canvas = empty_canvas(model, **{"width": 0, "height": 0, "frames": 0, "fps": 0.0, "batch": 1, **size})
    return work_of(model, canvas=canvas, text_length=TEXT)


def denoise(plan: str, model: Model, **size: int) -> int:
    """Bytes of a rank that only denoises, or of the one rank, whose denoise is its largest stage."""
    needs = work(model, **size).needs(ParallelPlan.parse(plan))
    return needs[1 if len(needs) > 2 else 0].own_bytes - CONTEXT_BYTES


def test_a_device_that_the_plan_leaves_free_encodes_and_decodes(flux: Model) -> None:
    found, plan = work(flux), ParallelPlan(ulysses=2, weights=2)
    beside, alone = found.needs(plan, num_devices=2), found.needs(plan, num_devices=3)
    assert beside == found.needs(plan) and [len(beside), len(alone)] == [2, 3]
    assert alone[0] == alone[1] and alone[0].num_bytes < beside[0].num_bytes
    assert alone[2].num_bytes == max(found.encoder_bytes, found.vae.num_bytes + found.decoding(1)) + CONTEXT_BYTES
    large = found.needs(plan, num_devices=3, decoders=2)  # by whoever denoises
    assert large[2].num_bytes == found.encoder_bytes + CONTEXT_BYTES


def test_one_device_holds_the_transformer_and_one_blocks_tensors(flux: Model) -> None:
    assert denoise("", flux) == TRANSFORMER_BYTES + LIVE * (TOKENS + TEXT) * WIDTH * 2


def test_sequence_parallelism_divides_what_is_alive_and_not_the_weights(flux: Model) -> None:
    rows = (TOKENS + TEXT) // 4
    travelling, index = 6 * rows * WIDTH, 4 * (4 * rows * 4 + 2 * (TOKENS + TEXT))  # 6 of 24 heads to an index
    assert denoise("ulysses=4", flux) == TRANSFORMER_BYTES + (LIVE * rows * WIDTH + travelling) * 2 + index
    gathered, index = 4 * (TOKENS + TEXT), 4 * (TOKENS + TEXT)
    assert denoise("allgather=4", flux) == TRANSFORMER_BYTES + (LIVE * rows + gathered) * WIDTH * 2 + index
    assert denoise("ring=4", flux) == TRANSFORMER_BYTES + (LIVE * rows + 8 * rows) * WIDTH * 2
    held = [
        dataclasses.replace(work(flux), num_bits=bits, packs=False).activations(RING) * 8 // bits for bits in (16, 32)
    ]
    assert held[0] - held[1] == 8 * rows * WIDTH, "a CPU attends to blocks in half precision in fp32"


def test_replicated_text_is_alive_on_every_rank(flux: Model) -> None:
    more = denoise("ulysses=4,text=replicated", flux) - denoise("ulysses=4", flux)
    assert more == LIVE * (TEXT - TEXT // 4) * WIDTH * 2


def test_shared_weights_are_a_share_two_blocks_and_what_is_in_none(flux: Model) -> None:
    whole, shared = denoise("ulysses=4", flux), denoise("ulysses=4,weights=4", flux)
    gathered = 2 * (2 * max(BLOCKS.values()) + sum(OUTSIDE.values()))
    assert whole - shared == TRANSFORMER_BYTES - TRANSFORMER_BYTES // 4 - gathered


@pytest.mark.parametrize("plan", ["", "ulysses=4"])
def test_blocks_that_have_no_room_stream_through_two_slots_beside_as_many_as_stay(flux: Model, plan: str) -> None:
    found, named = dataclasses.replace(work(flux), text=()), ParallelPlan.parse(plan)
    blocks, largest, outside = 2 * sum(BLOCKS.values()), 2 * max(BLOCKS.values()), 2 * sum(OUTSIDE.values())
    beside = found.activations(named) + CONTEXT_BYTES
    whole = found.needs(named)[-1].num_bytes
    assert found.needs(named, room=whole) == found.needs(named) and found.streamed_bytes(named, whole) == 0
    assert found.streamed_bytes(named, 0) == 0, "without a limit"
    for num_resident in (0, 1, 20):
        least = outside + (2 + num_resident) * largest + beside
        for room in (least, least + largest - 1):  # a part of a block helps nobody
            assert found.needs(named, room=room)[-1] == Need(own_bytes=least)
            assert found.streamed_bytes(named, room) == blocks - num_resident * largest
    assert found.needs(named, room=whole - 1)[-1].num_bytes <= whole - 1
    assert found.streamed_bytes(named, whole - 1) > 2 * largest, "two slots are no better than two blocks"


def test_where_two_blocks_have_no_room_the_need_is_the_least_that_will_do(flux: Model) -> None:
    found, plan = work(flux), ParallelPlan()
    least = 2 * (sum(OUTSIDE.values()) + 2 * max(BLOCKS.values())) + found.activations(plan) + CONTEXT_BYTES
    assert {found.needs(plan, room=room)[0].num_bytes for room in (1, 10**9, least - 1, least)} == {least}
    assert found.streamed_bytes(plan, 1) == found.streamed_bytes(plan, least) == 2 * sum(BLOCKS.values())


def test_text_encoders_stream_too_the_large_ones_first_and_shared_weights_do_not(flux: Model) -> None:
    found, plan, shared = work(flux), ParallelPlan(), ParallelPlan.parse("ulysses=2,weights=2")
    small, large = sorted(found.text, key=lambda part: part.num_bytes)
    assert small.streams and large.largest_block_bytes == 2 * 198_000_000
    whole = small.num_bytes + large.num_bytes + CONTEXT_BYTES
    assert found.streamed_text_bytes(plan, whole) == 0
    assert found.streamed_text_bytes(plan, whole - 1) == large.num_bytes - large.outside_bytes - 21 * 2 * 198_000_000
    tight = dataclasses.replace(found, transformers=(Need(own_bytes=1),))
    least = large.outside_bytes + 2 * large.largest_block_bytes
    assert tight.needs(plan, room=whole - 1)[0].num_bytes == whole - large.largest_block_bytes
    assert tight.needs(plan, room=least + small.num_bytes + CONTEXT_BYTES)[0].num_bytes == (
        least + small.num_bytes + CONTEXT_BYTES
    )
    assert found.needs(shared, room=10**9)[1] == found.needs(shared)[1] and found.streamed_bytes(shared, 10**9) == 0
    beside = TRANSFORMER_BYTES // 2  # a share stays, and takes of the room for encoders
    assert tight.streamed_text_bytes(plan, 10**10) == found.streamed_text_bytes(shared, 10**10 + beside) > 0


def test_of_two_transformers_the_second_streams_before_both_and_one_comes_in_each_forward(flux: Model) -> None:
    one, plan = dataclasses.replace(work(flux), text=()), ParallelPlan()
    two, context = dataclasses.replace(one, transformers=one.transformers * 2), CONTEXT_BYTES
    assert two.streamed_bytes(plan, 1) == one.streamed_bytes(plan, 1)
    beside, least = one.activations(plan) + context, 2 * (sum(OUTSIDE.values()) + 2 * max(BLOCKS.values()))
    assert two.needs(plan, room=1)[0].num_bytes == 2 * least + beside
    second = TRANSFORMER_BYTES + least + beside
    assert two.needs(plan, room=second)[0].num_bytes == second
    assert two.streamed_bytes(plan, second) == one.streamed_bytes(plan, 1) // 2


def test_on_a_cpu_what_its_files_hold_streams_and_what_was_converted_rests_nowhere(flux: Model) -> None:
    mapped, plan = work(dataclasses.replace(flux, device="cpu", dtype="bf16")), ParallelPlan()
    [whole], [need] = mapped.needs(plan), mapped.needs(plan, room=10**10)
    assert whole.shared_bytes == need.shared_bytes == TRANSFORMER_BYTES and mapped.streamed_bytes(plan, 0) == 0
    assert need.own_bytes <= 10**10 < need.own_bytes + 4 * max(BLOCKS.values())
    resident = need.own_bytes - mapped.needs(plan, room=1)[0].own_bytes
    assert mapped.streamed_bytes(plan, 10**10) == 2 * sum(BLOCKS.values()) - resident
    in_fp32 = work(dataclasses.replace(flux, device="cpu", dtype="fp32"))
    assert in_fp32.needs(plan, room=10**10) == in_fp32.needs(plan) and in_fp32.streamed_bytes(plan, 10**10) == 0


def test_what_is_built_into_an_engine_or_knows_its_device_does_not_stream(flux: Model) -> None:
    built, packed = dataclasses.replace(flux, engine="tensorrt"), dataclasses.replace(flux, quantization="int8")
    assert not weights_of(built)["transformer"].streams and weights_of(built)["text_encoder_2"].streams
    assert weights_of(packed)["transformer"].streams and not weights_of(packed)["text_encoder_2"].streams
    assert work(built).needs(ParallelPlan(), room=10**10) == work(built).needs(ParallelPlan())
    assert not weights_of(dataclasses.replace(flux, graphs="on"))["transformer"].streams, "which the store refuses"


def test_a_decoder_streams_beside_what_it_decodes(flux: Model) -> None:
    vae = Need(own_bytes=10**10, largest_block_bytes=10**9, outside_bytes=10**8, streams=True)
    found, plan = dataclasses.replace(work(flux), vae=vae, text=(), transformers=(Need(own_bytes=1),)), ParallelPlan()
    assert found.needs(plan)[0].num_bytes == 10**10 + found.decoding(1) + CONTEXT_BYTES
    assert found.needs(plan, room=1)[0].num_bytes == 21 * 10**8 + found.decoding(1) + CONTEXT_BYTES


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_every_component_tells_its_blocks_in_the_bytes_that_it_will_take(
    flux: Model, quantization: Quantization
) -> None:
    found = weights_of(dataclasses.replace(flux, quantization=quantization))
    part = 1 if quantization == "int8" else 2
    # of 24 tensors with one dim each, which no one quantizes
    assert found["text_encoder_2"].largest_block_bytes == 2 * 198_000_000
    assert found["transformer"].largest_block_bytes == part * max(BLOCKS.values())
    assert found["transformer"].outside_bytes == part * sum(OUTSIDE.values())
    assert all(0 < each.largest_block_bytes <= each.num_bytes - each.outside_bytes for each in found.values())


def test_what_is_no_transformer_of_a_denoise_is_whole_beside_it() -> None:
    transformer = Need(own_bytes=900, outside_bytes=100, blocks=((400, 1), (400, 1)))
    conditioner, found = Need(own_bytes=70), Need.of_transformers
    assert found([transformer, conditioner]) == (replace(transformer, own_bytes=970, outside_bytes=170),)
    assert found([transformer, transformer]) == (transformer, transformer)
    assert found([conditioner]) == (conditioner,)


@pytest.mark.parametrize("family", ["flux", "sd3", "ltx_2"])
def test_headers_tell_the_blocks_that_the_store_lays_to_rest(family: str, tiny: Callable[[str], Path]) -> None:
    """But for lines of a cache, at which they begin, and buffers that no file holds."""
    model = describe_model(str(tiny(family)), device="cpu", dtype="fp32", is_here=False)
    for name, need in weights_of(model).items():
        rests = Resting(store().load(model, (name,))[name], name, "cpu")
        assert need.largest_block_bytes == pytest.approx(max(rests.sizes), abs=128), name
        assert need.outside_bytes == pytest.approx(rests.outside_bytes, abs=1024), name


def test_names_tell_the_outermost_lists_of_modules() -> None:
    found = [MEMBER.match(name) for name in ("encoder.block.3.layer.0.q.weight", "layers.10.w", "shared.weight", "a.3")]
    assert [each and each[1] for each in found] == ["encoder.block.3", "layers.10", None, None]


def test_a_rank_on_a_cpu_fits_where_its_own_bytes_are_within_the_limit_and_all_of_them_in_memory() -> None:
    needs = [Need(own_bytes=10, shared_bytes=60), Need(own_bytes=20, shared_bytes=60)]
    assert fits(needs, ["cpu"] * 2, {"cpu": 100, EACH: 20}) == [True, False]
    assert fits(needs, ["cpu"] * 2, {"cpu": 100, EACH: 30}) == [True, True]
    assert fits(needs, ["cpu"] * 2, {"cpu": 90, EACH: 30}) == [False, False]
    assert asked_of(needs, ["cpu"] * 2) == {"cpu": 90, EACH: 20}
    assert room_of(["cpu"] * 2, {"cpu": 100}) == room_of(["mps"], {"mps": 100}) == room_of(["cuda:0"], {}) == 0
    assert (
        room_of(["cpu"], {"cpu": 1000, EACH: 100})
        == room_of(["cuda:0", "cuda:1"], {"cuda:0": 200, "cuda:1": 100})
        == 94
    )


def test_guidance_on_two_groups_needs_what_one_device_needs(flux: Model) -> None:
    cfg, one = work(flux).needs(ParallelPlan(cfg=2)), work(flux).needs(ParallelPlan())
    assert {need.num_bytes for need in cfg} == {one[0].num_bytes}


def test_a_share_of_the_weights_stays_while_the_first_rank_encodes_the_next_text(flux: Model) -> None:
    huge = dataclasses.replace(work(flux), text=(Need(own_bytes=10**11),))
    shared, whole = (huge.needs(ParallelPlan.parse(plan))[0] for plan in ("ulysses=8,weights=8", "ulysses=8"))
    assert shared.own_bytes == 10**11 + TRANSFORMER_BYTES // 8 + CONTEXT_BYTES
    assert whole.own_bytes == 10**11 + CONTEXT_BYTES


def test_a_share_of_the_weights_stays_while_the_last_rank_decodes(flux: Model) -> None:
    plan, beside = ParallelPlan.parse("ulysses=8,weights=8"), TRANSFORMER_BYTES // 8 + CONTEXT_BYTES
    wide = dataclasses.replace(work(flux, width=1024, height=1024), vae=Need(own_bytes=10**10))
    assert wide.needs(plan)[7].own_bytes == 10**10 + wide.decoding(wide.decoders(plan)) + beside


def test_the_vae_decides_for_large_pictures_and_all_ranks_share_it(flux: Model) -> None:
    plan = ParallelPlan.parse("ulysses=4,weights=4")
    few, many = (work(flux, width=side, height=side).needs(plan) for side in (1024, 8192))
    assert few[3].num_bytes == few[1].num_bytes  # the tiny VAE of this folder is nothing beside the transformer
    assert (
        len({need.num_bytes for need in many[1:]}) == 1
    )  # all decode together; the first encodes text beside its share
    assert many[3].num_bytes > few[3].num_bytes


def test_a_batch_is_alive_at_once(flux: Model) -> None:
    more = denoise("", flux, batch=3) - denoise("", flux)
    assert more == 2 * LIVE * (TOKENS + TEXT) * WIDTH * 2


def test_a_quantized_model_takes_one_whole_weight_while_it_is_loaded(flux: Model) -> None:
    """Which here, where a block is one weight, is more than a picture takes. A denoise comes after the loading."""
    int8 = dataclasses.replace(flux, quantization="int8")
    assert denoise("", int8) == TRANSFORMER_BYTES // 2 + 2 * max(BLOCKS.values()) + PACKED_ON_GPU * PACKING_BYTES
    saved = whole_bytes(flux) - whole_bytes(int8)
    assert TRANSFORMER_BYTES // 2 < saved < TRANSFORMER_BYTES // 2 + 100_000  # with the tiny CLIP's


def test_a_lora_is_added_to_the_transformer(flux: Model, tmp_path: Path) -> None:
    write_holes(tmp_path / "lora.safetensors", {"a": 1000})
    lora = Lora(path=str(tmp_path / "lora.safetensors"), sha256="", adapter="")
    assert whole_bytes(dataclasses.replace(flux, loras=(lora,))) == whole_bytes(flux) + 2000


def test_ranks_on_one_memory_need_room_for_all_and_mapped_weights_count_once() -> None:
    needs = [Need(own_bytes=10, shared_bytes=60)] * 3
    assert fits(needs, ["cpu"] * 3, {"cpu": 100}) == [True] * 3
    assert fits(needs, ["cpu"] * 3, {"cpu": 90}) == [False] * 3
    assert fits(needs, ["cuda:0", "cuda:1", "cuda:2"], {"cuda:0": 80, "cuda:1": 70}) == [True, False, None]


def test_a_cpu_shares_weights_whose_files_hold_its_own_format(flux: Model) -> None:
    on_cpu = dataclasses.replace(flux, device="cpu", dtype="bf16")
    assert work(on_cpu).needs(ParallelPlan())[0].shared_bytes == TRANSFORMER_BYTES
    in_fp32 = work(dataclasses.replace(on_cpu, dtype="fp32")).needs(ParallelPlan())[0]
    assert in_fp32.shared_bytes == 0 and in_fp32.own_bytes > 2 * TRANSFORMER_BYTES


@pytest.mark.parametrize("family", ["sd3", "qwen_image", "wan", "wan22", "wan_i2v"])
def test_every_family_tells_its_tokens_and_its_decoder(family: str, tiny: Callable[[str], Path]) -> None:
    model = describe_model(str(tiny(family)), device="cpu", is_here=False)
    video = family.startswith("wan")
    found = work(model, width=128, height=64, frames=9 if video else 1)
    assert found.tokens == 8 * 4 * (3 if video else 1)
    assert found.joint_text == (0 if video else TEXT)
    assert found.heads == 4 and found.width in (12, 16)
    assert decoded_numbers(found.vae_config, found.canvas, frames=found.decoded_frames, most_unfolded=0) > 0
    assert len(found.transformers) == (2 if family == "wan22" else 1)


def test_layers_are_counted_with_the_whole_picture_and_the_one_that_is_taken_apart(tiny: Callable[[str], Path]) -> None:
    model = describe_model(str(tiny("qwen_image_layered")), device="cpu")
    canvas = Latents(family=model.family, width=64, height=48, frames=4)
    assert work_of(model, canvas=canvas, text_length=0).tokens == (4 + 2) * 4 * 3


@pytest.mark.parametrize(("planes", "frames", "rows"), [(16, 10, 128), (16, 10, 129), (64, 3, 106), (64, 3, 107)])
def test_torch_unfolds_what_is_said_to_be_unfolded(planes: int, frames: int, rows: int) -> None:
    """`planes` of the picture's batch and channels; frames and rows with their padding."""
    with torch.inference_mode(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.nn.functional.conv3d(torch.ones(1, planes, frames, rows, 8), torch.ones(2, planes, 3, 3, 3))
    unfolds = any("slow_conv3d" in event.key for event in profile.key_averages())
    assert unfolds == (planes * frames * rows <= MOST_UNFOLDED)


@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "bf16"), (torch.float16, "fp16")])
def test_torch_unfolds_in_16_bit_where_the_processor_does_not_convolve(dtype: torch.dtype, name: str) -> None:
    with torch.inference_mode(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.nn.functional.conv2d(torch.ones(1, 32, 64, 64, dtype=dtype), torch.ones(32, 32, 3, 3, dtype=dtype))
    assert any("slow_conv2d" in event.key for event in profile.key_averages()) != convolves(name)


def test_a_decoder_without_convolutions_in_16_bit_holds_what_is_unfolded_at_full_size() -> None:
    config, canvas = {"block_out_channels": [32, 64]}, Latents(family="flux", width=128, height=64)
    unfolding, other = (partial(decoded_numbers, config, frames=1, most_unfolded=most) for most in (NO_LIMIT, 0))
    assert unfolding(canvas) == other(canvas) + 64 * 9 * 128 * 64


def test_a_decoder_on_a_cpu_holds_more_for_a_lying_picture_than_for_a_standing_one() -> None:
    config = {"base_dim": 48, "dim_mult": [1, 1], "num_res_blocks": 1}
    lying, standing = (Latents(family="wan", width=w, height=h, frames=9) for w, h in ((192, 128), (128, 192)))
    on_cpu, elsewhere = (partial(decoded_numbers, config, frames=4, most_unfolded=most) for most in (MOST_UNFOLDED, 0))
    assert elsewhere(lying) == elsewhere(standing) == on_cpu(standing)
    unfolded = 24 * 27 * 4 * 192 * 128  # at full size, of what comes from below
    assert on_cpu(lying) == elsewhere(lying) + unfolded
    assert on_cpu(lying, 2) > elsewhere(lying, 2) == elsewhere(lying) / 2


def test_a_damaged_model_is_a_sentence(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    copy = shutil.copytree(tiny("flux"), tmp_path / "flux")
    model = describe_model(str(copy), device="cpu", is_here=False)
    (copy / "vae" / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="vae"):
        work(model)


def test_what_a_stage_takes_beside_its_weights_is_that_of_the_plan(flux: Model) -> None:
    conditioning = Conditioning(
        family="flux", prompt="a", negative_prompt="", positive={"embeds": torch.zeros(1, TEXT, 8)}
    )
    canvas = empty_canvas(flux, width=0, height=0, frames=0, fps=0.0, batch=1)
    found = _working_bytes(flux, canvas, ParallelPlan(), conditioning=conditioning)
    assert found == LIVE * (TOKENS + TEXT) * WIDTH * 2
    assert _working_bytes(flux, canvas, ParallelPlan()) == work(flux).decoding(1) > 0
    assert _working_bytes(dataclasses.replace(flux, device="cpu"), canvas, ParallelPlan()) == 0


@pytest.mark.parametrize(
    ("told", "spares"),
    [("", {"cuda:0": SPARE_BYTES}), ("1", {"cuda:0": SPARE_BYTES, "cuda:1": SPARE_BYTES}), ("0", {})],
)
def test_a_rank_in_reserve_is_counted_where_there_is_one_and_room_for_it(
    told: str, spares: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATENTLOOM_SPARE_RANKS", told)
    memories = {"cuda:0": 80 * 10**9, "cuda:1": 24 * 10**9, "cuda:2": 80 * 10**9, "cpu": 10**12}
    asked = {"cuda:0": 10**10, "cuda:1": 10**10, "cuda:2": 75 * 10**9, "cuda:3": 1, "cpu": 10**10}
    assert spares_beside(asked, memories) == spares
