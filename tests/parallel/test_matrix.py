"""A covering subset of the equality matrix: every variant of every class, each plan and each shape in turn.

`tests/bench/matrix.py` runs all of it.
"""

from typing import Any

import pytest

from bench.matrix import PLANS, few
from latentloom.pipelines.split_plans import REFUSED, SPLIT_PLANS
from support.cells import ZOO, texts, variants, verdict
from support.ranks import RankError
from zoo.cases import CASES

NAMES = sorted(variants())
SHAPES = ("both_odd", "heads3", "masked_odd", "odd_image", "batch2", "masked", "odd_text", "even")


def chosen(index: int) -> tuple[str, str]:
    """The plan and the case of a variant: those in a row meet every plan in every shape."""
    return PLANS[index % len(PLANS)], SHAPES[index % len(SHAPES)]


# Variants of classes that two others or more, or a nearer one, stand for.
BY_HAND = (
    "allegro_padded",
    "anyflow_far_step",
    "anyflow_i2v",
    "bria_controlnet",
    "bria_fibo2_edit",
    "chroma_adapter",
    "chronoedit_i2v",
    "cogvideox_15",
    "cosmos_frames",
    "flux2_first_step",
    "flux_adapter",
    "flux_guidance",
    "hunyuan_dit_one_row",
    "hunyuan_video_15_t2v",
    "joy_image_edit_text_rotary",
    "kandinsky6_silent",
    "longcat_audio_padded",
    "ltx2_i2v",
    "ltx_i2v",
    "motif_video_i2v",
    "omnigen_edit",
    "qwen_image_controlnet",
    "sana_controlnet",
    "sana_video_i2v",
    "sana_wm_refiner_first",
    "sd35_last_skipped",
    "sd35_middle_skipped",
    "z_image_controlnet",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.by_hand if name in BY_HAND else ()) for name in NAMES]
)
def test_sharded_equals_one_process(ranks: Any, name: str) -> None:
    index = NAMES.index(name)
    plan, case = chosen(index)
    shape = case if variants()[name].masks or not CASES[case].masked else "both_odd"
    modes = texts(name, CASES[shape])
    text = modes[index % len(modes)]
    full = plan if text == "auto" else f"{plan},text={text}"
    assert verdict(ranks.run("support.cells:cell", name, shape, full)) == "ok", f"{full} in shape {shape}"


@pytest.mark.parametrize(
    ("name", "plan", "way", "place"),
    [
        ("flux", "ulysses=2", "call", 0),
        ("krea2", "ring=2", "call", 0),
        ("cogvideox", "allgather=2", "hook", 0),
        ("motif_video", "ulysses=2", "hook", 2),
    ],
)
def test_a_block_that_is_left_out_leaves_no_stream_outside(
    ranks: Any, name: str, plan: str, way: str, place: int
) -> None:
    assert verdict(ranks.run("bodies.skipped:without_block", name, plan, way, place)) == "ok"


@pytest.mark.by_hand
@pytest.mark.parametrize("plan", ["ulysses=2", "ring=2"])
@pytest.mark.parametrize(("way", "place"), [("hook", 0), ("hook", 1), ("hook", 2), ("call", 0)])
def test_every_class_is_right_without_a_block_or_refuses_diffusers_hook_by_name(
    ranks: Any, plan: str, way: str, place: int
) -> None:
    found = {name: ranks.run("bodies.skipped:without_block", name, plan, way, place)[:2] for name in NAMES}
    tried = {name: each for name, each in found.items() if each[0] is not None}
    wrong = {name: each for name, each in tried.items() if not _is_held(each)}
    assert not wrong and len(tried) > 20


def _is_held(each: list[Any]) -> bool:
    if isinstance(each[0], str):
        return each[0] == each[1] and "diffusers' TransformerBlockSkipHook" in each[0]
    return verdict(each) in ("ok", "no test: the largest value is 0")


@pytest.mark.parametrize(
    ("name", "case", "plan"),
    [
        ("wan_ti2v", "few1", "ulysses=4"),
        ("ltx", "few1", "ring=3"),
        ("cosmos", "few1", "ulysses=4"),
        ("lumina2", "few2", "allgather=3"),
        ("allegro", "few1", "ulysses=2"),
        ("pixart_picture_mask", "few2", "ulysses=2"),
        ("flux", "few3", "ulysses=2,ring=2"),
    ],
)
def test_more_ranks_than_tokens_are_refused_by_name_on_every_rank(ranks: Any, name: str, case: str, plan: str) -> None:
    told = [each for each in ranks.run("support.cells:few", name, case, plan) if each is not None]
    assert few(told) == "ok" and all("lower the plan's degrees" in each for each in told)


def test_the_subset_meets_every_plan_in_every_shape() -> None:
    met = {chosen(index) for index in range(len(NAMES))}
    assert met == {(plan, case) for plan in PLANS for case in SHAPES}


def test_every_supported_class_is_in_the_zoo_and_no_refused_one_is_supported() -> None:
    classes = {variants()[name].build(CASES["even"])[0].__name__ for name in NAMES}
    assert classes == set(SPLIT_PLANS)
    assert not set(SPLIT_PLANS) & set(REFUSED)
    assert ZOO


def test_every_transformer_class_of_diffusers_is_supported_or_refused_with_a_reason() -> None:
    import inspect

    import diffusers
    from diffusers.models import transformers
    from diffusers.models.modeling_utils import ModelMixin

    found = set()
    for name in dir(diffusers.models):
        kind = getattr(diffusers.models, name)
        if inspect.isclass(kind) and issubclass(kind, ModelMixin) and kind.__module__.startswith(transformers.__name__):
            found.add(name)
    assert found == set(SPLIT_PLANS) | set(REFUSED)
    assert len(SPLIT_PLANS) >= 45
    assert all(len(reason) > 20 for reason in REFUSED.values())


@pytest.mark.by_hand
def test_attention_left_local_is_wrong_for_every_class(ranks: Any) -> None:
    seen: set[str] = set()
    for name in NAMES:
        kind = variants()[name].build(CASES["even"])[0].__name__
        if kind in seen:
            continue
        seen.add(kind)
        try:
            found = verdict(ranks.run("support.cells:cell", name, "even", "ulysses=2", True))
        except RankError as error:  # shapes that do not fit are wrong too, but silence is no answer
            found = str(error)
            assert "no answer" not in found and "died" not in found, found
        assert found != "ok", name
