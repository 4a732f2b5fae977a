"""Pictures: the same ones every time, and showing what the scene says where it says."""

import random
from dataclasses import replace

import pytest
import torch

from bobbin.world.layout import Layout, lay_out
from bobbin.world.render import draw, render
from bobbin.world.scene import COLOURS, GROUNDS, RELATIONS, SHAPES, Scene, Thing, sample
from bobbin.world.solids import SOLIDS

CUBE = Thing(colour="blue", shape="cube", material="matte", size="large")
STAR = Thing(colour="red", shape="star", material="metal", size="small")


def laid_out(relation: str, num: int = 8) -> Layout:
    scene = Scene(things=(STAR, CUBE), relations=(relation,), ground="sand")
    return lay_out([scene] * num, random.Random(relation))


def middles(relation: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean column and row of the pixels of the star and of the cube."""
    _, owner = draw(laid_out(relation), width=96, height=96)
    spots = [[(picture == slot).nonzero().float().mean(0).flip(0) for picture in owner] for slot in (0, 1)]
    return torch.stack(spots[0]), torch.stack(spots[1])


def test_one_seed_renders_one_picture() -> None:
    first, second = (
        render([sample(rng, counts=(1, 1, 1)) for _ in range(3)], rng) for rng in (random.Random(3), random.Random(3))
    )
    assert first.shape == (3, 128, 128, 3)
    assert first.dtype == torch.uint8
    assert torch.equal(first, second)


def test_rendering_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = [sample(random.Random(i), counts=(1, 1, 1)) for i in range(5)]
    whole = render(scenes, random.Random(0), width=64, height=64)
    monkeypatch.setattr("bobbin.world.render.CHUNK", 2)
    chunks = render(scenes, random.Random(0), width=64, height=64)
    off = (whole.int() - chunks.int()).abs()
    assert off.max() <= 8 and (off > 1).float().mean() < 1e-3  # vector units round by position, which shows at edges


@pytest.mark.parametrize("size", [(64, 64), (96, 128), (160, 96)])
def test_a_picture_has_the_size_asked_for(size: tuple[int, int]) -> None:
    picture = render([sample(random.Random(0), counts=(0, 0, 1))], random.Random(0), width=size[0], height=size[1])
    assert picture.shape == (1, size[1], size[0], 3)


@pytest.mark.parametrize(
    "relation, axis, sign", [("left of", 0, -1), ("right of", 0, 1), ("in front of", 1, 1), ("behind", 1, -1)]
)
def test_things_stand_as_told(relation: str, axis: int, sign: int) -> None:
    star, cube = middles(relation)
    apart = (star - cube) * sign
    assert (apart[:, axis] > 15).all()
    assert (apart[:, axis] > (star - cube)[:, 1 - axis].abs()).all()


def test_what_is_on_top_hides_a_part_of_what_it_stands_on() -> None:
    layout = laid_out("on top of")
    feet = layout.centre[:, 1] - layout.radius * torch.tensor([SOLIDS[SHAPES[i]].half_height for i in layout.shape])
    assert torch.allclose(feet[::2], torch.full((8,), 2 * 0.72 * 0.75))
    assert torch.allclose(feet[1::2], torch.zeros(8), atol=1e-6)
    hidden = replace(layout, radius=torch.where(layout.slot == 0, 1e-3, layout.radius))
    _, whole = draw(hidden, width=96, height=96)
    _, owner = draw(layout, width=96, height=96)
    assert ((owner == 1).sum((1, 2)) < (whole == 1).sum((1, 2))).all()


@pytest.mark.parametrize("nearer", [0, 1])
def test_the_nearer_thing_hides_the_farther_one(nearer: int) -> None:
    layout = laid_out("in front of")
    tilt = layout.elevation
    to_viewer = torch.stack([torch.zeros_like(tilt), tilt.sin(), tilt.cos()], dim=1)
    centre = layout.centre.clone()
    centre[::2] = centre[1::2] + (2.0 if nearer == 0 else -2.0) * to_viewer
    moved = replace(layout, centre=centre)
    alone = [replace(moved, radius=torch.where(moved.slot == slot, moved.radius, 1e-3)) for slot in (0, 1)]
    star, cube = (draw(one, width=96, height=96)[1] == slot for slot, one in enumerate(alone))
    shown = draw(moved, width=96, height=96)[1][star & cube]
    assert len(shown) > 100
    assert (shown[shown >= 0] == nearer).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_solid_fits_its_bounds_and_stands_on_its_foot(shape: str) -> None:
    solid = SOLIDS[shape]
    grid = torch.linspace(-1.6, 1.6, 81)
    x, y, z = torch.meshgrid(grid, grid, grid, indexing="ij")
    inside = solid.distance(x, y, z) < 0
    assert (x**2 + y**2 + z**2)[inside].sqrt().max() <= solid.bound + 0.01
    assert y[inside].min().item() == pytest.approx(-solid.half_height, abs=0.07)
    assert y[inside].max().item() == pytest.approx(solid.half_height, abs=0.12)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_distance_is_never_too_long(shape: str) -> None:
    points = torch.rand(2, 4000, 3, generator=torch.Generator().manual_seed(0)) * 3 - 1.5
    here, there = (SOLIDS[shape].distance(*side.unbind(-1)) for side in points)
    assert ((here - there).abs() <= (points[0] - points[1]).norm(dim=-1) + 1e-4).all()


def test_things_cast_a_shadow_and_grounds_differ() -> None:
    scene = Scene(things=(CUBE,), ground="paper")
    picture, owner = draw(lay_out([scene], random.Random(0)), width=96, height=96)
    floor = picture[0].mean(-1)[owner[0] == -1]
    assert floor.min() < 0.75 * floor.max()
    corners = render([replace(scene, ground=ground) for ground in GROUNDS], random.Random(0))[:, -1, 0].float()
    assert torch.pdist(corners).min() > 20


@pytest.mark.parametrize("colour", COLOURS)
def test_metal_looks_different_from_matte_in_every_colour(colour: str) -> None:
    things = [Thing(colour=colour, shape="sphere", material=m, size="large") for m in ("matte", "metal")]
    pictures = [render([Scene(things=(t,), ground="stone")], random.Random(0)).float() for t in things]
    assert (pictures[0] - pictures[1]).abs().mean() > 1


def test_every_relation_has_a_direction() -> None:
    assert all(sum(map(abs, direction)) == 1 for direction in RELATIONS.values())
