"""Conditionings that ComfyUI asks for at once, shared out over cfg, and what `auto` chooses, by stand-ins that follow
its rules.

`tests/bench/comfyui_matrix.py` asks the classes themselves, and `comfyui_native.py` a server.
"""

from typing import Any

import pytest
import torch
from torch import nn

from bodies import native, native_rows
from bodies.foreign import WIDTH
from latentloom.nodes.hosts.native import choosing
from latentloom.nodes.hosts.native.checked import twin_of
from latentloom.nodes.hosts.native.rows import carrying, num_rows, rows_apart, unfit
from latentloom.nodes.hosts.native.splits.plans import CASCADE, OF_ALL_ROWS, OF_ROWS, UNET, name_of
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.costs.machine import named_machine
from latentloom.pipelines.values import Place

NUM_HEADS = 4  # that `auto` is told of
CHECKING = ["checking the plan against one device"]


@pytest.mark.parametrize(("plan", "count"), [("cfg=2", 2), ("cfg=2,ulysses=2", 2), ("cfg=2,ring=2", 4), ("cfg=4", 4)])
def test_each_group_computes_its_rows_and_all_get_all(ranks: Any, plan: str, count: int) -> None:
    found = [each for each in ranks.run("bodies.native_rows:answers", plan, count) if each is not None]
    for name in found[0]:
        assert all(each[name][0] <= 1e-5 and each[name][2] for each in found), name
        assert len({str(each[name][1]) for each in found}) == 1, name


def test_what_carries_rows_is_told_by_its_first_dim_and_never_a_list() -> None:
    given = {
        "x": [torch.ones(2, 4, 3), torch.ones(2, 5)],
        "timestep": torch.ones(2),
        "context": torch.ones(2, 7, 8),
        "y": torch.ones(1, 8),
        "ref_latents": [torch.ones(2, 4), torch.ones(1, 4)],
        "control": {"input": [torch.ones(2, 9, 8), None]},
        "scale": torch.tensor(2.0),
        "frame_rate": 25,
        "transformer_options": {},
    }
    assert num_rows(given) == 2
    assert carrying(given) == {
        *("['x'][0]", "['x'][1]", "['timestep']", "['context']"),
        *("['ref_latents'][0]", "['control']['input'][0]"),
    }


def test_rows_that_do_not_go_into_groups_are_refused_with_a_plan_that_does() -> None:
    plan, model = ParallelPlan(cfg=2, ulysses=2), torch.nn.Identity()
    rows = {"x": torch.ones(4, 1)}
    assert unfit(plan, model, rows) == unfit(ParallelPlan(ulysses=2), model, {"x": torch.ones(1)}) == ""
    told = unfit(plan, model, {"x": torch.ones(1, 4)})
    assert told.startswith("plan cfg=2,ulysses=2: cfg has nothing to do here, because each forward is of one row")
    assert told.endswith("use plan ulysses=4, or set allow_whole")
    assert "asks for 3 rows at once, which do not go into 2 groups; use plan ulysses=4" in unfit(
        plan, model, {"x": [torch.ones(3, 4)]}
    )
    other = class_of(OF_ALL_ROWS[0])
    assert unfit(plan, other, rows).endswith("so that cfg cannot part them; use plan ulysses=4")
    assert rows_apart(model, rows) == 4 and rows_apart(other, rows) == 1


@pytest.mark.parametrize("plan", ["cfg=4", "cfg=2,ulysses=2"])
def test_the_check_at_first_use_asks_whether_rows_stand_alone(ranks: Any, plan: str) -> None:
    count = ParallelPlan.parse(plan).cfg
    asked = [("plain", count), ("plain", 2 * count), ("mixing", count), ("table", 4), ("table", count)]
    for found in ranks.run("bodies.native_rows:first_uses", plan, asked):
        plain, twice, mixing, table, same = found
        assert plain[0].startswith("checked on this machine") and plain[1] == CHECKING
        assert twice == (plain[0], [])  # the same tensors carry them
        assert "of the largest value away from one device" in mixing[0] and mixing[1] == CHECKING
        assert table[0].startswith("checked on this machine") and table[1] == CHECKING
        # A table that is as long as the batch is cut, and so found out.
        assert same[0].startswith("checked") if count > 2 else "away from one device" in same[0]


# ---- classes without a sequence of tokens


def class_of(key: str) -> Any:
    module, _, name = key.rpartition(".")
    return type(name, (), {"__module__": module})()


KERNEL: dict[str, dict[str, int]] = {"C": {"kernel_size": 3}, "T": {}}
UNET_MODEL = class_of(next(iter(OF_ROWS)))


def test_rows_of_a_class_without_tokens_are_those_of_one_device_and_one_that_mixes_them_is_refused(ranks: Any) -> None:
    for found in ranks.run("bodies.native_rows:of_unets", "cfg=4"):
        *right, (told, wrong) = found
        assert all(said.startswith("checked on this machine") and apart <= 1e-5 for said, apart in right), right
        assert "of the largest value away from one device" in told and wrong > 1e-2


@pytest.mark.parametrize("plan", ["ulysses=2", "ring=2", "allgather=2"])
def test_no_plan_spreads_tokens_of_a_class_without(plan: str) -> None:
    two, one = {"x": torch.ones(2, 4, 8, 8)}, {"x": torch.ones(1, 4, 8, 8)}
    told = unfit(ParallelPlan.parse(plan), UNET_MODEL, two)
    assert told.startswith(f"plan {plan}: UNetModel has no tokens to spread, only rows (the conditionings of a guided")
    assert told.endswith("and this call has 2; use plan cfg=2, or set allow_whole")
    assert unfit(ParallelPlan(cfg=2), UNET_MODEL, two) == ""
    for name in (plan, "cfg=2"):
        told = unfit(ParallelPlan.parse(name), UNET_MODEL, one)
        assert told.startswith(f"plan {name}: UNetModel has no tokens to spread")
        assert "and this call has 1; guide (cfg over 1) with texts of like length and memory for both, or" in told
        assert told.endswith("or sample 2 pictures at once, or set allow_whole")
    assert "has 3; use plan cfg=3" in unfit(ParallelPlan(cfg=4), UNET_MODEL, {"x": torch.ones(3, 4, 8, 8)})


def test_auto_gives_a_class_without_tokens_as_many_groups_as_its_rows_go_into() -> None:
    split, place = OF_ROWS[name_of(UNET_MODEL)], Place(devices=("cpu",) * 3, plan="auto")
    for rows, plan in ((2, "cfg=2"), (3, "cfg=3"), (6, "cfg=3")):
        found, why = choosing.choose(UNET_MODEL, split, {"x": torch.ones(rows, 4, 8, 8)}, place)
        assert str(found) == plan and why == f"plan auto is {plan} for {rows} rows: UNetModel has no tokens to spread"
    one = {"x": torch.ones(1, 4, 8, 8)}
    assert unfit(choosing.choose(UNET_MODEL, split, one, place)[0], UNET_MODEL, one).startswith("plan auto: UNetModel")


def test_a_twin_has_of_each_list_the_first_of_each_kind_and_all_that_skips_tie_together() -> None:
    def stage(*names: str) -> nn.ModuleList:
        return nn.ModuleList({"C": nn.Conv2d, "T": nn.Linear}[name](4, 4, **KERNEL[name]) for name in names)

    cascade = nn.Module()
    cascade.down_blocks = nn.ModuleList([stage(*"CTCTCT"), stage(*"CCT")])
    cascade.up_blocks = nn.ModuleList([stage(*"CTC")])
    twin = twin_of(cascade, CASCADE, "cpu")
    for name, counts in (("down_blocks", [["Conv2d", "Linear"]] * 2), ("up_blocks", [["Conv2d", "Linear"]])):
        assert [[type(each).__name__ for each in some] for some in getattr(twin, name)] == counts
    unet = native_rows.LikeUNet()
    assert str(twin_of(unet, UNET, "cpu")) == str(unet)


def test_the_frames_of_one_video_are_not_parted() -> None:
    given = {"x": torch.ones(14, 8, 4, 4), "num_video_frames": 14}
    assert "this call has 1; guide (cfg over 1)" in unfit(ParallelPlan(cfg=2), UNET_MODEL, given)
    assert rows_apart(UNET_MODEL, {**given, "num_video_frames": 7}) == 2


# ---- auto


def sized(name: str) -> Any:
    """A stand-in that says how many heads it has, its plan, and a call of it."""
    model, split, given = native.cases()[name]
    vars(model)["num_heads"] = NUM_HEADS
    return model, split, given


def test_the_sizes_of_a_model_and_a_call_are_read_from_both() -> None:
    model, split, given = sized("references")
    found = choosing.demand_of(model, split, given)
    assert (found.image, found.text, found.context) == (11 * 13 + 5 * 7 + 6 * 6, 9, 0)
    assert (found.layers, found.width, found.heads, found.head_dim) == (6, WIDTH, NUM_HEADS, WIDTH // NUM_HEADS)
    assert found.image_weights == found.text_weights == 6 * 3 * WIDTH * WIDTH
    assert found.latent_bytes == given["x"].nbytes and found.dtype == "fp32"
    model, split, given = sized("times of frames")
    found = choosing.demand_of(model.bfloat16(), split, {**given, "x": given["x"].bfloat16()})
    assert (found.image, found.text, found.context, found.dtype) == (3 * 7 * 9, 0, 9, "bf16")
    assert found == choosing.demand_of(model.to("meta"), split, {**given, "x": given["x"].bfloat16()})


def test_plans_are_of_all_devices_exact_and_share_out_only_rows_that_go_into_groups() -> None:
    assert [*map(str, choosing.plans_for(4, 1))] == ["ulysses=4", "ulysses=2,allgather=2", "allgather=4"]
    assert [*map(str, choosing.plans_for(2, 4))] == ["cfg=2", "ulysses=2", "allgather=2"]
    assert [*map(str, choosing.plans_for(3, 2))] == ["ulysses=3", "allgather=3"]
    assert [each.cfg for each in choosing.plans_for(4, 2)] == [2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("machine", "rows", "plan"),
    [
        ("2x4090-pcie4", 2, "cfg=2"),
        ("2x4090-pcie4", 1, "ulysses=2"),
        ("4x4090-pcie4", 4, "cfg=4"),
    ],
)
def test_auto_takes_what_is_predicted_to_be_fastest_and_says_so(
    monkeypatch: pytest.MonkeyPatch, machine: str, rows: int, plan: str
) -> None:
    known = named_machine(machine)
    monkeypatch.setattr(choosing, "machine_at", lambda _: known)
    model, split, given = sized("picture")
    large = {"x": torch.empty(rows, WIDTH // 4, 128, 128, device="meta"), "context": given["context"]}
    found, why = choosing.choose(model, split, large, Place(devices=known.devices, plan="auto"))
    assert str(found) == plan
    assert why.startswith(f"plan auto is {plan} for {rows} row") and "predicted for a step are" in why
    assert why.endswith("B a step")


def test_of_a_machine_that_nobody_measured_conditionings_come_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, split, given = sized("picture")
    place = Place(devices=("cpu", "cpu"), plan="auto")
    two = {"x": given["x"].expand(2, -1, -1, -1), "context": given["context"]}
    plan, why = choosing.choose(model, split, two, place)
    assert str(plan) == "cfg=2" and "assumed of this machine, which was not measured; each device sends" in why
    assert str(choosing.choose(model, split, given, place)[0]) == "ulysses=2"
