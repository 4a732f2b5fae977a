"""ComfyUI's own classes on several devices, by stand-ins that follow their rules: split plans, and the check of them.

`tests/bench/comfyui_matrix.py` and `comfyui_planted.py` ask the classes themselves, where there is a ComfyUI.
"""

from typing import Any

import pytest
import torch

from bodies import native
from latentloom.nodes.hosts.native.splits.plans import BEFORE, FLUX, PLANS, plan_of
from latentloom.pipelines.selfcheck.passes import check_room, in_fp32
from latentloom.pipelines.split_plans import SPLIT_PLANS
from support.outside import python

RIGHT = ["picture", "references", "control", "one time", "times of frames", "video and sound", "guides"]
WRONG = [
    "wrong: rows not behind the text",
    "wrong: times of frames not cut",
    "wrong: streams in another order",
]
TOLD = ["checking the plan against one device"]


@pytest.mark.parametrize("plan", ["ulysses=2", "ulysses=3", "ring=2", "allgather=2", "ulysses=2,ring=2"])
def test_stand_ins_by_the_plans_of_the_classes_give_what_they_give_whole(ranks: Any, plan: str) -> None:
    found = [each for each in ranks.run("bodies.native:answers", plan) if each is not None]
    for name in RIGHT:
        assert all(each[name][0] <= 1e-5 for each in found), name
        assert len({str(each[name][1]) for each in found}) == 1, name


@pytest.mark.parametrize("plan", ["ulysses=3", "ring=2", "allgather=2"])
def test_rows_sums_windows_and_kept_prompts_give_what_they_give_whole(ranks: Any, plan: str) -> None:
    found = [each for each in ranks.run("bodies.native_sound:answers", plan) if each is not None]
    for name in found[0]:
        assert all(max(each[name][:2]) <= 1e-5 for each in found), name
        assert len({str(each[name][2]) for each in found}) == 1, name


@pytest.mark.parametrize("plan", ["ulysses=3", "ulysses=2,ring=2"])
def test_side_blocks_what_frames_are_told_and_methods_of_blocks_give_what_they_give_whole(
    ranks: Any, plan: str
) -> None:
    found = [each for each in ranks.run("bodies.native_wan:answers", plan) if each is not None]
    for name in found[0]:
        assert all(each[name][0] <= 1e-5 for each in found), name
        assert len({str(each[name][1]) for each in found}) == 1, name


def test_frames_that_are_not_of_as_many_tokens_each_are_refused(ranks: Any) -> None:
    said = {*ranks.run("bodies.native_wan:of_odd_frames", "ulysses=2")} - {None}
    assert len(said) == 1 and said.pop().startswith("Like: 105 tokens do not share out to 4 frames; give it as many")


@pytest.mark.parametrize("plan", ["ulysses=4", "ulysses=2,ring=2"])
def test_a_plan_that_is_wrong_without_a_word_is_refused_at_its_first_use(ranks: Any, plan: str) -> None:
    for found in ranks.run("bodies.native:first_uses", plan, [(name, {}) for name in WRONG]):
        for said, phases, is_refused in found:
            assert is_refused and phases == TOLD
            assert said.startswith(f"plan {plan}: Like") and "of the largest value away from one device" in said
            assert said.endswith("or sample it on one device (LATENTLOOM_SELF_CHECK=0 goes on regardless)")


def test_plans_that_are_right_pass_and_are_asked_once_for_each_kind_of_inputs(ranks: Any) -> None:
    once = [(name, {}) for name in RIGHT]
    again: list[tuple[str, dict[str, Any]]] = [*once, ("", {}), *once]  # in another process the verdict was kept
    for found in ranks.run("bodies.native:first_uses", "allgather=4", [*once, *again]):
        assert all(said.startswith("checked on this machine") for said, *_ in found)
        assert [phases for _, phases, _ in found] == [TOLD] * len(RIGHT) + [[]] * 2 * len(RIGHT)


def test_what_was_refused_is_tried_again(ranks: Any) -> None:
    for found in ranks.run("bodies.native:first_uses", "ulysses=4", [(WRONG[0], {}), (WRONG[0], {})]):
        assert [(phases, is_refused) for _, phases, is_refused in found] == [(TOLD, True)] * 2


def test_an_input_that_a_plan_has_no_answer_for_is_refused_by_name(ranks: Any) -> None:
    said = {*ranks.run("bodies.native:with_a_reference_latent", "ulysses=2")} - {None}
    assert said == {"LikeFlux is not split with a reference latent; sample it without, or on one device"}


def test_a_foreign_class_in_half_precision_computes_in_fp32_by_its_own_plan() -> None:
    model, split, given = native.cases()["times of frames"]
    with torch.no_grad():
        whole = model.bfloat16().float()(**given)
        half = model.bfloat16()
        with in_fp32(half, split):
            assert torch.equal(half(**given), whole)
        check_room(half, split)
        assert all(each.dtype == torch.bfloat16 for each in half.parameters())


def class_of(key: str, *has: str) -> Any:
    module, _, name = key.rpartition(".")
    return type(name, (), {"__module__": module, **dict.fromkeys(has)})()


def test_a_class_is_known_by_its_module_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(plan_of(class_of(key, BEFORE.get(key, ("",))[0])) is plan for key, plan in PLANS.items())
    assert all(plan_of(class_of(key)) is plan for key, (_, plan) in BEFORE.items())
    with pytest.raises(ValueError, match=r"^comfy.ldm.wan.ar_model.CausalWanModel has no split plan; sample it on"):
        plan_of(class_of("comfy.ldm.wan.ar_model.CausalWanModel"))
    with pytest.raises(ValueError, match=r"^elsewhere.Flux has no split plan"):
        plan_of(class_of("elsewhere.Flux"))
    monkeypatch.setitem(SPLIT_PLANS, "elsewhere.Flux", FLUX)  # as a package brings it
    assert plan_of(class_of("elsewhere.Flux")) is FLUX


def test_the_plans_are_read_without_torch_and_comfyui() -> None:
    code = "import latentloom.nodes.hosts.native.splits.plans; print(*{'torch', 'comfy', 'diffusers'} & {*sys.modules})"
    done = python(code)
    assert done.stdout == "\n", done.stderr
