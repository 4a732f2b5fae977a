"""The reader that judges pictures must itself be beyond doubt."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from bobbin.oracle import check, compare, judge
from bobbin.reading.reading import read
from bobbin.world.render import render
from bobbin.world.scene import MATERIALS, OPPOSITE, SHAPES, Scene, Thing, sample

pytestmark = pytest.mark.by_hand
RING = Thing(colour="red", shape="ring", material="metal", size="small")
CUBE = Thing(colour="blue", shape="cube", material="matte", size="large")


@pytest.mark.parametrize("num_things", [1, 2])
def test_oracle_is_right_on_true_renders_and_at_chance_on_wrong_captions(num_things: int) -> None:
    true, wrong = check(num_things, 6)
    assert min(true.values()) == 1.0, true
    assert wrong["all"] <= 1 / 6, wrong
    assert wrong["colour"] < 0.4, wrong


def test_oracle_reads_most_of_three_things_that_hide_each_other() -> None:
    true, _ = check(3, 6)
    assert true["all"] >= 0.8, true


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("material", MATERIALS)
def test_oracle_reads_every_solid_in_both_materials(shape: str, material: str) -> None:
    thing = Thing(colour="purple", shape=shape, material=material, size="small")
    picture = render([Scene(things=(thing,), ground="grass")], random.Random(shape))[0]
    reading = read(picture)
    assert [sighting.thing for sighting in reading.sightings] == [thing]
    assert reading.ground == "grass"


@pytest.mark.parametrize("size", [(96, 96), (160, 160), (160, 128)])
def test_oracle_reads_other_sizes_and_bears_noise(size: tuple[int, int]) -> None:
    rng = random.Random(2)
    scenes = [sample(rng, counts=(1, 1, 0)) for _ in range(5)]
    pictures = render(scenes, rng, width=size[0], height=size[1]).float()
    noise = 4 * torch.randn(pictures.shape, generator=torch.Generator().manual_seed(0))
    noisy = (pictures + noise).round().clamp(0, 255).byte()
    assert all(judge(picture, scene)["all"] for picture, scene in zip(noisy, scenes, strict=True))


@pytest.mark.parametrize("relation", OPPOSITE)
def test_oracle_tells_the_mirrored_relation_apart(relation: str) -> None:
    picture = render([Scene(things=(RING, CUBE), relations=(relation,), ground="sand")], random.Random(0))[0]
    assert judge(picture, Scene(things=(CUBE, RING), relations=(OPPOSITE[relation],)))["all"]
    assert not judge(picture, Scene(things=(CUBE, RING), relations=(relation,)))["relation"]


@pytest.mark.parametrize(
    "fact, other", [("colour", "green"), ("shape", "star"), ("material", "matte"), ("size", "large")]
)
def test_one_wrong_word_is_one_wrong_fact(fact: str, other: str) -> None:
    reading = read(render([Scene(things=(RING,), ground="sand")], random.Random(0))[0])
    wrong = compare(reading, Scene(things=(replace(RING, **{fact: other}),), ground="sand"))
    assert [name for name, is_right in wrong.items() if not is_right] == [fact, "all"]


def test_what_a_prompt_leaves_open_is_not_judged() -> None:
    picture = render([Scene(things=(RING,), ground="sand")], random.Random(0))[0]
    assert judge(picture, Scene(things=(Thing(shape="ring"),))) == {"count": True, "shape": True, "all": True}


def test_noise_is_no_object() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (128, 128, 3)).astype(np.uint8)
    assert not judge(noise, Scene(things=(Thing(colour="red", shape="sphere"),)))["all"]


def test_a_reflection_inside_an_object_is_no_object() -> None:
    picture = render([Scene(things=(CUBE,), ground="sand")], random.Random(0))[0]
    picture[62:70, 60:72] = torch.tensor([126, 52, 178], dtype=torch.uint8)
    assert judge(picture, Scene(things=(CUBE,), ground="sand"))["all"]
