"""VAEs that decode by rows on several ranks equal their untiled decode, and need less memory on each; those that decode
in tiles share them out, and have the bits of one process."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from latentloom.parallel.group import Group
from latentloom.pipelines import stages
from latentloom.pipelines.spreading.vae import split_vae
from support.ranks import Ranks

IMAGES, VIDEOS = ("sd", "flux", "no attention"), ("qwen", "wan", "wan22", "hunyuan")
SHAPES = {
    **{(kind, rows): (2, 4, rows, 5) for kind in IMAGES for rows in (8, 11)},
    **{(kind, rows): (2, 4, 3, rows, 5) for kind in VIDEOS for rows in (8, 9)},
    ("qwen", 10): (1, 4, 1, 10, 4),
    ("hunyuan", 10): (1, 4, 6, 10, 3),  # more frames than diffusers decodes at once
    **{(kind, 11): (2, 4, 11, 5) for kind in ("flux2", "dc", "dc interpolated")},
    **{(kind, 9): (2, 4, 3, 9, 5) for kind in ("ltx", "ltx 0.9.5", "ltx2", "ltx2 zeros")},
    ("hunyuan15", 9): (1, 4, 3, 9, 5),  # diffusers' mask is for one video
    ("qwen21", 11): (2, 4, 1, 11, 5),
    **{(kind, 9): (2, 4, 9, 5) for kind in ("hunyuan image", "kvae")},
    **{(kind, 9): (2, 4, 3, 9, 4) for kind in ("cosmos", "cosmos rearranged", "magvit", "magvit by video")},
    ("mochi", 9): (1, 4, 2, 9, 2),
    ("hunyuan refiner", 9): (1, 4, 3, 9, 5),
    ("cogvideox", 8): (1, 4, 5, 8, 4),
}
# Rows that divide evenly are tried of one VAE of pictures and of one of videos; of all others, rows that do not, of
# one config of a class.
MORE = [
    *((kind, 8) for kind in (*IMAGES, *VIDEOS) if kind not in ("sd", "wan")),
    *(("no attention", 11), ("cosmos rearranged", 9), ("magvit by video", 9)),
]


@pytest.mark.parametrize(
    ("kind", "rows", "degree"),
    [
        pytest.param(*shape, degree, marks=pytest.mark.by_hand if shape in MORE or number % 2 != (degree == 4) else ())
        for number, shape in enumerate(SHAPES)
        for degree in (2, 4)
    ],
)
def test_a_split_decode_equals_the_untiled_one(ranks: Ranks, kind: str, rows: int, degree: int) -> None:
    found = [x for x in ranks.run("bodies.vae:equality", kind, degree, SHAPES[kind, rows]) if x]
    assert len(found) == degree and found[0]["spread"] > 0.1
    assert max(x["difference"] for x in found) <= 1e-5 * max(1.0, found[0]["largest"])
    assert len({x["bits"] for x in found}) == 1


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("sd", "edges"),
        ("sd", "group_norm"),
        ("sd", "scaled_dot_product_attention"),
        ("wan", "edges"),
        pytest.param("wan", "scaled_dot_product_attention", marks=pytest.mark.by_hand),
        pytest.param("hunyuan", "edges", marks=pytest.mark.by_hand),
        pytest.param("hunyuan", "group_norm", marks=pytest.mark.by_hand),
        ("ltx2", "edges"),
        ("dc", "matmul"),
    ],
)
def test_without_an_exchange_it_would_be_wrong(ranks: Ranks, kind: str, what: str) -> None:
    assert all(off > 1e-2 for off in ranks.run("bodies.vae:alone", kind, what)[:2])


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("sd", (1, 4, 32, 32)),
        pytest.param("flux", (2, 4, 32, 16), marks=pytest.mark.by_hand),
        pytest.param("qwen", (1, 4, 1, 32, 16), marks=pytest.mark.by_hand),
        pytest.param("wan", (1, 4, 3, 16, 8), marks=pytest.mark.by_hand),
        ("wan22", (1, 4, 2, 16, 8)),
        pytest.param("hunyuan", (1, 4, 3, 8, 8), marks=pytest.mark.by_hand),
        pytest.param("hunyuan15", (1, 4, 2, 16, 8), marks=pytest.mark.by_hand),
        pytest.param("cogvideox", (1, 4, 3, 16, 8), marks=pytest.mark.by_hand),
    ],
)
def test_memory_falls_with_the_ranks(ranks: Ranks, kind: str, shape: tuple[int, ...]) -> None:
    every = ranks.run("bodies.vae:memory", kind, shape)
    peak, largest, pixels = every[0].pop(1)
    for found in every:
        for degree, (peak_here, largest_here, _) in found.items():
            assert peak_here <= 1.1 * peak / degree
            assert largest_here <= max(pixels, 1.2 * largest / degree)  # every rank gets all pixels in the end


@pytest.mark.parametrize("kind", ["sd", "wan", pytest.param("hunyuan", marks=pytest.mark.by_hand)])
def test_the_vae_is_as_it_was_after_decodes_that_worked_and_failed(ranks: Ranks, kind: str) -> None:
    for found in ranks.run("bodies.vae:unchanged", kind):
        assert [claim for claim, holds in found.items() if not holds] == []


def test_refusals_are_the_same_on_all_ranks(ranks: Ranks) -> None:
    found = ranks.run("bodies.vae:failures")
    assert found == [found[0]] * 4
    other, few, differing, unknown, unseen, noise, places, uneven = found[0]
    assert "Conv2d cannot be split over ranks, only AutoencoderKL, " in other
    assert "latents of 7 rows cannot be split over 4 ranks, because each needs 2; split them over 3" in few
    assert "AutoencoderKL: z differs between the ranks" in differing
    assert "AutoencoderKL: softmax is not known to keep the rows of a picture apart" in unknown
    assert "AutoencoderKL: numpy is not known" in unseen
    assert "with decoder_inject_noise cannot be split over ranks, because noise is drawn for each place" in noise
    assert "8 rows and 4 columns cannot be split over 4 ranks, because it attends in another way to 8" in places
    assert "9 rows and 4 columns cannot be split over 4 ranks, which need as many each; use a number that" in uneven


def test_a_class_that_is_not_known_is_refused_with_the_nearest() -> None:
    unknown = type("AutoencoderKLWann", (SimpleNamespace,), {})()
    with pytest.raises(ValueError, match=r"AutoencoderKLWann cannot be split .* \(did you mean AutoencoderKLWan\?\)"):
        split_vae(unknown, Group(range(2), 0)).__enter__()


@pytest.mark.parametrize(
    ("kind", "shape"), [("sd", (1, 4, 8, 8)), pytest.param("hunyuan", (1, 4, 3, 8, 4), marks=pytest.mark.by_hand)]
)
def test_half_precision_is_no_worse_than_alone(ranks: Ranks, kind: str, shape: tuple[int, ...]) -> None:
    alone, together = ranks.run("bodies.vae:bf16", kind, shape)[0]
    assert 0 < together <= 1.1 * alone


def test_a_compiled_decoder_is_split_uncompiled(ranks: Ranks) -> None:
    assert max(ranks.run("bodies.vae:compiled")) <= 5e-5


def test_the_decode_stage_refuses_latents_of_too_few_rows(model: Any, canvas: Any) -> None:
    latents = {**canvas("flux"), "tensor": torch.zeros(1, 16, 8, 8)}
    with pytest.raises(ValueError, match=r"latents of 8 rows cannot be split over 8 ranks, .* over 4 at most"):
        stages.decode({"model": model("flux"), "latents": latents, "split": 8})


@pytest.mark.parametrize(("group", "num"), [("pair", 2), pytest.param("ranks", 4, marks=pytest.mark.by_hand)])
def test_the_decode_stage_gives_the_same_pixels_on_all_ranks(
    group: str, num: int, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(group).run("bodies.vae:stage", num)
    assert max(off for off, _ in found) <= 1e-5 and len({mark for _, mark in found}) == 1


# ---- tiles

TILED = {
    "h3": (1, 4, 7, 9, 7),
    "sd": (2, 4, 9, 7),
    "flux2": (1, 4, 9, 7),
    "dc": (1, 4, 9, 7),
    "kvae": (1, 4, 9, 7),
    "hunyuan image": (1, 4, 9, 7),
    "hunyuan refiner": (1, 4, 3, 9, 7),
    "hunyuan15": (1, 4, 3, 9, 7),
    "hunyuan": (1, 4, 3, 9, 7),
    "ltx": (1, 4, 3, 9, 7),
    "ltx2": (1, 4, 3, 8, 5),
}
QUICK = ("h3", "sd", "ltx2")


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize(
    ("kind", "by_frames"),
    [
        *(pytest.param(kind, False, marks=() if kind in QUICK else pytest.mark.by_hand) for kind in TILED),
        *(pytest.param(kind, True, marks=pytest.mark.by_hand) for kind in ("hunyuan", "ltx", "ltx2")),
    ],
)
def test_tiles_are_shared_out_to_the_bit(ranks: Ranks, kind: str, degree: int, by_frames: bool) -> None:
    found = [x for x in ranks.run("bodies.vae:tiles", kind, degree, TILED[kind], by_frames) if x]
    assert len(found) == degree and found[0]["spread"] > 0.1
    assert all(x["is_equal"] and x["is_restored"] and not x["told"] for x in found)
    num_calls = found[0]["alone"]
    assert num_calls > degree and [x["here"] for x in found] == [-(-(num_calls - i) // degree) for i in range(degree)]


def test_tiles_that_keep_frames_from_call_to_call_are_decoded_by_each(ranks: Ranks) -> None:
    for found in filter(None, ranks.run("bodies.vae:tiles", "wan", 2, (1, 4, 2, 9, 7))):
        assert found["is_equal"] and found["here"] == found["alone"] > 2 and found["told"] == 1


def test_a_tile_that_fails_fails_on_all_ranks_and_the_next_decode_goes_on(pair: Ranks) -> None:
    peer, own = pair.run("bodies.vae:failing_tiles")
    assert "another rank could not decode its tiles" in peer[0] and own[0] == "no room for a tile"
    assert all("AutoencoderKLMiniMaxH3: z differs between the ranks" in said[1] for said in (peer, own))
    assert peer[2] == own[2] == "True"


def test_tiles_of_a_decoder_whose_weights_are_brought_are_shared_out(pair: Ranks) -> None:
    first, second = pair.run("bodies.vae:brought_tiles")
    assert first == second == [True] * 4


def test_the_decode_stage_shares_out_tiles_to_the_bit(pair: Ranks, saved: Callable[[str], Path]) -> None:
    for is_equal, spread in pair.run("bodies.vae:tiles_of_the_stage", str(saved("MiniMaxH3ModularPipeline"))):
        assert is_equal and spread > 0.01
