"""Which ranks work together: ulysses innermost, then ring or allgather, then layers, then cfg."""

import pytest

from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import make_mesh, members, planned_mesh
from latentloom.parallel.plan import ParallelPlan
from support.ranks import Ranks


def test_neighbours_share_the_heavy_exchange() -> None:
    assert members(ParallelPlan(cfg=2, ulysses=2, ring=2), 6) == {
        Axis.CFG: [2, 6],
        Axis.LAYERS: [6],
        Axis.ULYSSES: [6, 7],
        Axis.EXCHANGE: [4, 6],
        Axis.SEQUENCE: [4, 5, 6, 7],
        Axis.WEIGHTS: [6],
    }


def test_each_rank_talks_to_those_of_other_sections_that_hold_the_same_part_of_the_sequence() -> None:
    found = members(ParallelPlan(cfg=2, layers=2, ulysses=2), 5)
    assert (found[Axis.LAYERS], found[Axis.SEQUENCE], found[Axis.CFG]) == ([5, 7], [4, 5], [1, 5])


def test_ranks_that_share_weights_are_neighbours() -> None:
    plan = ParallelPlan(cfg=3, ulysses=2, weights=2)
    assert [members(plan, rank)[Axis.WEIGHTS] for rank in range(6)] == [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5]]


def test_each_axis_divides_all_ranks_the_same_way_seen_from_each_rank() -> None:
    plan = ParallelPlan(cfg=2, layers=2, ulysses=2, allgather=3)
    for axis in (Axis.CFG, Axis.LAYERS, Axis.ULYSSES, Axis.EXCHANGE, Axis.SEQUENCE):
        groups = {tuple(members(plan, rank)[axis]) for rank in range(24)}
        assert sorted(rank for group in groups for rank in group) == list(range(24))


def test_a_planned_mesh_needs_no_process() -> None:
    mesh = planned_mesh(ParallelPlan(ulysses=2, ring=2), 3)
    assert (mesh[Axis.ULYSSES].index, mesh[Axis.EXCHANGE].index, mesh[Axis.SEQUENCE].index) == (1, 1, 3)


def test_a_plan_for_several_ranks_needs_a_process_group() -> None:
    with pytest.raises(ValueError, match="torchrun --nproc-per-node 2"):
        make_mesh(ParallelPlan(ulysses=2))


def test_the_same_plan_again_makes_no_more_process_groups(ranks: Ranks) -> None:
    for first, *others in ranks.run("bodies.rank:groups_made"):
        assert others == [first] * 3


def test_weights_are_gathered_beside_the_exchanges_of_the_same_ranks(ranks: Ranks) -> None:
    assert ranks.run("bodies.rank:weights_group") == [[(0, 1, 2, 3), (0, 1, 2, 3), False]] * 4


def test_a_mesh_of_torch_that_does_not_fit_is_refused_on_every_rank(ranks: Ranks) -> None:
    for ulysses, exchange, sequence, has_order, *refused in ranks.run("bodies.rank:device_meshes"):
        assert all(has_order)  # NCCL's groups order what they gather by it
        # One that fits is taken by the names of its dims: ring outside, ulysses inside, as the tensor of ranks has it.
        assert sequence == (3, 2, 1, 0) and ulysses in ((3, 2), (1, 0)) and exchange in ((3, 1), (2, 0))
        same, flat, more, part, degrees = refused
        assert "name its dims cfg, layers, ring or allgather" in same
        assert "has dims {'ring': 4, 'ulysses': 1}" in flat
        assert "has dims {'ulysses': 2, 'ring': 1, 'fsdp': 2}" in more and "leave no other dim larger than 1" in more
        assert "holds 2 of 4 ranks" in part
        assert "uses 3 ranks, but 4 were started" in degrees
