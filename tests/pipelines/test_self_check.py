"""A plan is checked against one device at its first use with a model: errors are refused, right runs never."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bodies.selfcheck import PLANS, PLANTS
from latentloom.__main__ import parser
from latentloom.parallel.errors import BadInput
from latentloom.pipelines.families import FAMILIES
from latentloom.pipelines.requests import Denoise
from latentloom.pipelines.selfcheck import first_use
from latentloom.pipelines.selfcheck.first_use import NotTheSame, keep, kept, small_of
from latentloom.pipelines.selfcheck.passes import EXACT, Unproven, Verdict
from latentloom.pipelines.shape import size_multiple
from latentloom.pipelines.values import Conditioning, Latents, Model, from_plain
from support.ranks import Ranks

# Of each kind a class that has what it breaks.
PLANTED = {
    "wrong mask": ("qwen_image", "masked_odd"),
    "unmasked padding": ("ltx2", "masked_odd"),
    "stale cache": ("wan", "both_odd"),
    "group mix-up": ("flux2", "both_odd"),
    "LoRA lost on one rank": ("flux", "both_odd"),
    "rotary by local length": ("minimax_h3", "both_odd"),
    "time per frame": ("wan_ti2v", "both_odd"),
    "streams swapped": ("flux", "both_odd"),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_errors_of_each_kind_are_refused_on_all_ranks_alike(pair: Ranks, plant: str) -> None:
    assert PLANTED.keys() == {*PLANTS, *PLANS}
    variant, case = PLANTED[plant]
    found = pair.run("bodies.selfcheck:checked", variant, case, "ulysses=2", "bf16", plant)
    assert {verdict["state"] for verdict in found} == {"refused"}
    assert all(verdict["apart"] > 100 * EXACT and verdict["is_unchanged"] for verdict in found)
    assert ("different weights" in found[0]["why"]) == (plant == "LoRA lost on one rank")


@pytest.mark.parametrize("plan", ["ulysses=2", "ring=2", "layers=2"])
@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp32"])
def test_right_runs_are_the_same_and_leave_the_transformer_as_it_was(pair: Ranks, plan: str, dtype: str) -> None:
    for verdict in pair.run("bodies.selfcheck:checked", "qwen_image", "masked_odd", plan, dtype):
        assert verdict["state"] == "same" and verdict["apart"] <= EXACT
        assert (dtype != "fp32") or verdict["ratio"] == 1.0
        assert verdict["is_unchanged"]


@pytest.mark.parametrize(
    ("variant", "dtype"), [("flux", "bf16"), ("wan", "bf16"), ("flux", "fp8"), ("z_image", "fp32")]
)
def test_blocks_that_come_from_the_host_are_checked_as_they_are(pair: Ranks, variant: str, dtype: str) -> None:
    for plant, state in (("", "same"), ("group mix-up", "refused")):
        run = ("bodies.selfcheck:checked", variant, "both_odd", "ulysses=2", dtype, plant, "", True)
        found = pair.run(*run)
        assert [(verdict["state"], verdict["is_unchanged"]) for verdict in found] == [(state, True)] * 2


@pytest.mark.parametrize("variant", ["hunyuan_dit", "sana_wm"])
def test_what_fails_whole_too_is_unproven(pair: Ranks, variant: str) -> None:
    """Of a class that cannot run in bf16 by a cast of all it has."""
    for verdict in pair.run("bodies.selfcheck:checked", variant, "both_odd", "ulysses=2", "bf16"):
        assert verdict["state"] == "unproven" and verdict["why"] and verdict["is_unchanged"]


def test_what_fails_on_one_rank_is_unproven_on_all(pair: Ranks) -> None:
    for rank, verdict in enumerate(pair.run("bodies.selfcheck:failing", "flux")):
        assert verdict["state"] == "unproven" and verdict["is_unchanged"]
        assert verdict["why"] == ("it failed on another rank", "no room")[rank]


@pytest.mark.parametrize("variant", ["flux", "wan", "dit", "z_image", "hunyuan_video"])
def test_block_by_block_in_fp32_a_model_gives_the_bits_of_an_fp32_copy(pair: Ranks, variant: str) -> None:
    assert pair.run("bodies.selfcheck:walked", variant) == [(True, True)] * 2


# ---- At a model's first use by a plan


def test_a_plan_is_checked_once_and_its_verdict_is_told_with_each_run(
    pair: Ranks, model: Callable[..., Any], tmp_path: Path
) -> None:
    plans = ["ulysses=2", "ulysses=2", "cfg=2"]
    for found in pair.run("bodies.selfcheck:denoised", model("flux"), str(tmp_path), plans):
        assert all(apart <= EXACT and not error for apart, _, _, error in found)
        assert [num_checks for _, _, num_checks, _ in found] == [1, 0, 1]
        assert all(known.startswith("checked on this machine, 2") for _, (known,), _, _ in found)
    kept_here = [json.loads(path.read_bytes()) for path in (tmp_path / "latentloom" / "self_checks").iterdir()]
    assert [each["state"] for each in kept_here] == ["same"] * 2
    for found in pair.run("bodies.selfcheck:denoised", model("flux"), str(tmp_path), plans[1:]):  # as a new process
        assert [(num_checks, len(known)) for _, known, num_checks, _ in found] == [(0, 1)] * 2
    others = ["ulysses=2", "ulysses=2,weights=2", "layers=2"]  # of two no rank has all weights, but for the check
    for found in pair.run("bodies.selfcheck:denoised", model("flux", dtype="bf16"), str(tmp_path), others):
        assert [(num_checks, error) for *_, num_checks, error in found] == [(1, "")] * 3, "another dtype by itself"
        assert all(known.startswith("checked on this machine, 2") for _, (known,), _, _ in found)


@pytest.mark.parametrize("family", ["wan", "qwen_image"])
def test_a_wrong_plan_is_refused_before_the_first_step_each_time(
    pair: Ranks, model: Callable[..., Any], tmp_path: Path, family: str
) -> None:
    options = {"wan": {"frames": 13}, "qwen_image": {}}[family]
    bad = ("bodies.selfcheck:denoised", model(family), str(tmp_path), ["ring=2", "ring=2"], "group mix-up", options)
    for found in pair.run(*bad):
        for _, known, num_checks, error in found:
            assert num_checks == 1 and not known
            assert error.startswith("NotTheSame: plan ring=2: in fp32 it is") and error.endswith(
                "--no-self-check (LATENTLOOM_SELF_CHECK=0)"
            )
    assert not [*(tmp_path / "latentloom").rglob("*.json")]
    for found in pair.run("bodies.selfcheck:denoised", model(family), str(tmp_path), ["ring=2"], "", options):
        assert found[0][2:] == (1, "") and found[0][0] <= EXACT


def test_what_would_take_more_than_its_share_or_is_no_smaller_is_told_and_tried_again(
    pair: Ranks, model: Callable[..., Any], tmp_path: Path
) -> None:
    for options, why in (({"most_share": 0.0}, "it would take"), ({"width": 64}, "for larger pictures")):
        run = pair.run("bodies.selfcheck:denoised", model("flux"), str(tmp_path), ["ulysses=2"] * 2, "", options)
        for found in run:
            assert all(known.startswith("not checked on this machine, 2") and why in known for _, (known,), *_ in found)
            assert all(apart <= EXACT and not error for apart, *_, error in found)
    assert not [*(tmp_path / "latentloom").rglob("*.json")]


@pytest.mark.parametrize("family", ["flux", "qwen_image", "sd3"])
def test_layers_that_ranks_ask_before_their_blocks_are_in_fp32_as_well(
    pair: Ranks, model: Callable[..., Any], tmp_path: Path, family: str
) -> None:
    """As on GPUs, where ranks share out what modulates all blocks."""
    bf16, options = model(family, dtype="bf16"), {"modulates": True}
    for found in pair.run("bodies.selfcheck:denoised", bf16, str(tmp_path), ["ulysses=2"], "", options):
        ((_, (known,), num_checks, error),) = found
        assert known.startswith("checked on this machine, 2") and (num_checks, error) == (1, "")


def test_both_experts_compare_what_they_are_given_once_more_behind_a_check(
    pair: Ranks, model: Callable[..., Any], tmp_path: Path
) -> None:
    for (_, small), (_, large) in pair.run("bodies.selfcheck:compared", model("wan22"), str(tmp_path)):
        assert (small, large) == (2, 2)


def test_a_built_in_model_is_not_checked(pair: Ranks, tmp_path: Path) -> None:
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain

    bobbin = to_plain(describe_model("builtin:bobbin", device="cpu"))
    for found in pair.run("bodies.selfcheck:denoised", bobbin, str(tmp_path), ["ulysses=2"]):
        assert found[0][1:] == ([""], 0, "")


def test_one_rank_that_is_told_not_to_check_is_enough(pair: Ranks, model: Callable[..., Any], tmp_path: Path) -> None:
    for found in pair.run("bodies.selfcheck:denoised", model("flux"), str(tmp_path), ["ulysses=2"], "", {"off_at": 1}):
        assert found[0][1:] == ([""], 0, "") and found[0][0] <= EXACT


@pytest.mark.parametrize("family", ["flux", "wan", "ltx_2"])
def test_a_check_is_of_odd_rows_and_columns_and_of_the_job_s_own_rest(model: Callable[..., Any], family: str) -> None:
    described = from_plain(Model, model(family))
    multiple, frames = size_multiple(described), 33 if FAMILIES[family].frame_multiple else 1
    first = {"first": torch.zeros(1, 4, 3, 1024 // 8, 2048 // 8), "seen": torch.zeros(1, 257, 32)}
    request = Denoise(
        model=described,
        conditioning=Conditioning(family=family, prompt="", negative_prompt="", positive={}),
        latents=Latents(family=family, width=2048, height=1024, frames=frames, extras=first, batch=3),
        steps=7,
        strength=0.5,
    )
    small = small_of(request)
    rows, columns = small.latents.height // multiple, small.latents.width // multiple
    assert rows % 2 and columns % 2 and rows != columns and (small.steps, small.latents.batch) == (7, 1)
    assert small.latents.frames == (1 if frames == 1 else small.latents.frames) < 2 + frames
    assert small.latents.extras["first"].shape[-2:] == (small.latents.height // 8, small.latents.width // 8)
    assert small.latents.extras["seen"] is first["seen"] and small.strength == 1.0
    with pytest.raises(Unproven, match="for larger pictures"):
        small_of(request.resolved(latents=small.latents))


# ---- Verdicts


def test_verdicts_are_kept_for_this_user_and_anything_else_is_checked_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = "0123456789abcdef"
    keep(Verdict(state="same"), key)  # of a user without a home
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    verdict = Verdict(state="same", apart=3.1e-7, ratio=1.3, day="2026-11-26")
    keep(verdict, key)
    (path,) = (tmp_path / "latentloom" / "self_checks").iterdir()
    assert kept(key) == verdict and path.stat().st_mode & 0o777 == 0o600 and kept("another") is None
    assert str(verdict) == "checked on this machine, 2026-11-26, 3.1e-07, rounding 1.30 times that of one device"
    for damaged in (b"{", b"[]", b'{"state": "fine"}', b'{"state": "same", "apart": "far"}'):
        path.write_bytes(damaged)
        assert kept(key) is None
    monkeypatch.setattr(first_use, "user_cache", lambda: Path("/proc/none"))
    keep(verdict, key)  # only told


def test_a_refusal_is_the_user_s_to_mend_and_checks_can_be_left_out() -> None:
    assert issubclass(NotTheSame, BadInput) and NotTheSame.code == "not-the-same"
    for command in (["run", "file.json"], ["ui"]):
        assert parser().parse_args([*command, "--no-self-check"]).no_self_check
