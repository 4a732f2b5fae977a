"""What scenes hold, and what training never shows."""

import random

import pytest

from bobbin.world.scene import (
    COLOURS,
    FLAT_TOPS,
    HELD_OUT,
    HELD_OUT_SHARE,
    OPPOSITE,
    RELATIONS,
    SHAPES,
    Scene,
    Thing,
    is_held_out,
    sample,
)

ANY = (1.0, 1.0, 1.0)


def scenes(num: int, *, held_out: bool = False, counts: tuple[float, float, float] = ANY) -> list[Scene]:
    rng = random.Random(0)
    return [sample(rng, counts=counts, held_out=held_out) for _ in range(num)]


def test_held_out_pairs_cover_every_colour_and_shape_once() -> None:
    assert {colour for colour, _ in HELD_OUT} == set(COLOURS)
    assert {shape for _, shape in HELD_OUT} == set(SHAPES)


def test_training_shows_every_pair_but_the_held_out_ones() -> None:
    shown = {(t.colour, t.shape) for scene in scenes(4000) for t in scene.things}
    assert not shown & HELD_OUT
    assert len(shown) == len(COLOURS) * len(SHAPES) - len(HELD_OUT)


def test_held_out_scenes_hold_what_training_does_not() -> None:
    assert all(is_held_out(scene) for scene in scenes(200, held_out=True))
    assert not any(is_held_out(scene) for scene in scenes(200))


def test_a_pairing_is_held_out_from_both_ends() -> None:
    for scene in scenes(300, counts=(0, 1, 0)):
        relation = OPPOSITE.get(scene.relations[0])
        if relation:
            mirrored = Scene(things=scene.things[::-1], relations=(relation,), ground=scene.ground)
            assert is_held_out(mirrored) == is_held_out(scene)


def test_the_share_of_held_out_pairings_is_what_it_says() -> None:
    rng = random.Random(1)
    colours = [rng.sample(list(COLOURS), 2) for _ in range(100)]
    pairs = [(Thing(colour=a, shape=s), Thing(colour=b, shape=z)) for a, b in colours for s in SHAPES for z in SHAPES]
    free = [pair for pair in pairs if not any((t.colour, t.shape) in HELD_OUT for t in pair)]
    held = sum(is_held_out(Scene(things=pair, relations=("left of",))) for pair in free)
    assert held / len(free) == pytest.approx(1 / HELD_OUT_SHARE, rel=0.25)


def test_things_differ_in_colour_and_stand_on_flat_tops_only() -> None:
    for scene in scenes(1000):
        assert len({thing.colour for thing in scene.things}) == len(scene.things)
        if "on top of" in scene.relations:
            assert scene.things[1].shape in FLAT_TOPS
            assert scene.things[1].size == "large"


def test_every_number_and_relation_is_sampled() -> None:
    drawn = scenes(300)
    assert {len(scene.things) for scene in drawn} == {1, 2, 3}
    assert {relation for scene in drawn for relation in scene.relations} == set(RELATIONS)


def test_every_thing_but_one_needs_a_relation() -> None:
    with pytest.raises(AssertionError, match="needs a relation"):
        Scene(things=(Thing(colour="red"), Thing(colour="blue")))
