"""Scenes, captions and renders."""

import random

import numpy as np
import pytest

from latentloom.pipelines.bobbin.scene import (
    COLOURS,
    HELD_OUT,
    RELATIONS,
    SHAPES,
    Scene,
    Thing,
    caption,
    render,
    sample,
)


def test_one_seed_renders_one_picture() -> None:
    first, second = (render(sample(rng), rng) for rng in (random.Random(3), random.Random(3)))
    assert first.shape == (64, 64, 3)
    assert first.dtype == np.uint8
    assert np.array_equal(first, second)


def test_captions_say_what_the_scene_holds() -> None:
    star, ring = Thing(colour="orange", shape="star"), Thing(colour="blue", shape="ring")
    assert caption(Scene(things=(star,))) == "an orange star"
    assert caption(Scene(things=(ring, star), relation="left of")) == "a blue ring left of an orange star"


def test_held_out_pairs_are_known_pairs_and_cover_every_colour_and_shape() -> None:
    assert {colour for colour, _ in HELD_OUT} == set(COLOURS)
    assert {shape for _, shape in HELD_OUT} == set(SHAPES)


def test_training_scenes_never_show_a_held_out_pair() -> None:
    rng = random.Random(0)
    shown = {(t.colour, t.shape) for _ in range(3000) for t in sample(rng).things}
    assert not shown & HELD_OUT
    assert len(shown) == len(COLOURS) * len(SHAPES) - len(HELD_OUT)


def test_every_relation_is_sampled() -> None:
    rng = random.Random(0)
    assert {sample(rng, two=1.0).relation for _ in range(100)} == set(RELATIONS)


def test_a_relation_needs_two_objects() -> None:
    with pytest.raises(AssertionError, match="exactly two objects"):
        Scene(things=(Thing(colour="red", shape="star"),), relation="above")
