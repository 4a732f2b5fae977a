"""The reader that judges pictures must itself be beyond doubt."""

import random

import numpy as np
import pytest

from latentloom.pipelines.bobbin.oracle import check, judge, read
from latentloom.pipelines.bobbin.scene import COLOURS, SHAPES, Scene, Thing, render


def test_oracle_is_right_on_true_renders_and_near_chance_on_wrong_captions() -> None:
    true, wrong = check(600)
    assert min(true.values()) == 1.0, true
    assert wrong["all"] < 0.02, wrong


@pytest.mark.parametrize("colour", COLOURS)
def test_oracle_reads_every_shape_in_every_colour(colour: str) -> None:
    for shape in SHAPES:
        found = read(render(Scene(things=(Thing(colour=colour, shape=shape),)), random.Random(shape)))
        assert [(f.colour, f.shape) for f in found] == [(colour, shape)]


def test_oracle_tells_the_mirrored_relation_apart() -> None:
    star, ring = Thing(colour="red", shape="star"), Thing(colour="red", shape="ring")
    picture = render(Scene(things=(star, ring), relation="above"), random.Random(0))
    assert judge(picture, Scene(things=(ring, star), relation="below"))["all"]
    assert not judge(picture, Scene(things=(star, ring), relation="below"))["relation"]


def test_noise_is_no_object() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    assert not judge(noise, Scene(things=(Thing(colour="red", shape="circle"),)))["all"]
