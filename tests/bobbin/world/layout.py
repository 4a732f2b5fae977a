"""Where the things of a scene stand and where the camera looks from, as tensors of a whole batch."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .scene import COLOURS, GROUNDS, RELATIONS, SHAPES, SIZES, Scene, Thing
from .solids import SOLIDS

# B pictures, N things of all pictures

ELEVATION = math.radians(36)
DISTANCE = 9.0
# Scene units from the centre to the nearer edge of the picture, for one, two and three things.
HALF_VIEW = (1.25, 2.05, 2.7)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A batch of scenes in numbers; `slot` counts the things of one picture, `table` finds them (-1: none)."""

    picture: Tensor  # N
    slot: Tensor  # N
    shape: Tensor  # N, place in SHAPES
    centre: Tensor  # N 3
    turn: Tensor  # N, radians
    radius: Tensor  # N
    colour: Tensor  # N 3, sRGB in 0..1
    is_metal: Tensor  # N
    table: Tensor  # B slots
    target: Tensor  # B 3, what the camera looks at
    elevation: Tensor  # B
    half_view: Tensor  # B
    ground: Tensor  # B 2 3, near and far

    def to(self, device: str | torch.device) -> "Layout":
        return Layout(**{name: value.to(device) for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Pose:
    """How one thing stands."""

    thing: Thing
    centre: tuple[float, float, float]
    turn: float


def place(scene: Scene, rng: random.Random) -> list[Pose]:
    """Positions that obey the scene's relations, their middle above the origin."""
    tight = 1.0 if len(scene.things) < 3 else 0.9
    spots = [(tight * x, tight * z) for x, z in (_spot(relation, rng) for relation in scene.relations)]
    feet = [(0.0, 0.0)] if not spots else [spots[0], (0.0, 0.0), *spots[1:]]
    middle_x = 0.5 * (min(x for x, _ in feet) + max(x for x, _ in feet))
    middle_z = 0.5 * (min(z for _, z in feet) + max(z for _, z in feet))
    poses, support = [], scene.things[min(1, len(scene.things) - 1)]
    for i, (thing, (x, z)) in enumerate(zip(scene.things, feet, strict=True)):
        solid, below = SOLIDS[thing.shape], 0.0
        if i != 1 and scene.relations and scene.relations[i // 2] == "on top of":
            below = 2 * SOLIDS[support.shape].half_height * SIZES[support.size]
        y = below + solid.half_height * SIZES[thing.size]
        turn = math.radians(rng.uniform(*solid.turns))
        poses.append(Pose(thing=thing, centre=(x - middle_x, y, z - middle_z), turn=turn))
    return poses


def _spot(relation: str, rng: random.Random) -> tuple[float, float]:
    """Where on the ground the first of two things stands when the second is at the origin."""
    x, y, z = RELATIONS[relation]
    if y:
        return rng.uniform(-0.08, 0.08), rng.uniform(-0.08, 0.08)
    loose = rng.uniform(-0.15, 0.15) if x else rng.choice((-1, 1)) * rng.uniform(0.45, 0.8)
    step = (2.0 if x else 2.5) + rng.uniform(-0.1, 0.1)
    return (x * step, loose) if x else (loose, z * step)


def _middle(poses: Sequence[Pose], rng: random.Random) -> tuple[float, float, float]:
    """The point to look at so that the things fill the middle of the picture, nearly."""
    sin, cos = math.sin(ELEVATION), math.cos(ELEVATION)
    left, right, low, high = [], [], [], []
    for pose in poses:
        radius, solid = SIZES[pose.thing.size], SOLIDS[pose.thing.shape]
        x, y, z = pose.centre
        tall = radius * (solid.half_height * cos + 0.5 * solid.bound * sin)
        left.append(x - radius * solid.bound)
        right.append(x + radius * solid.bound)
        low.append(y * cos - z * sin - tall)
        high.append(y * cos - z * sin + tall)
    across, up = 0.5 * (min(left) + max(right)), 0.5 * (min(low) + max(high))
    return across + rng.uniform(-0.1, 0.1), up / cos + rng.uniform(-0.1, 0.1), 0.0


@dataclass(frozen=True, kw_only=True)
class View:
    """A picture's camera, and the colours of its ground, near and far."""

    target: tuple[float, float, float]
    elevation: float
    half_view: float
    ground: str


def lay_out(scenes: Sequence[Scene], rng: random.Random) -> Layout:
    """Every scene of a batch with its own places, turns and camera."""
    groups, views = [], []
    for scene in scenes:
        poses = place(scene, rng)
        view = View(
            target=_middle(poses, rng),
            elevation=ELEVATION + math.radians(rng.uniform(-2, 2)),
            half_view=HALF_VIEW[len(poses) - 1] * rng.uniform(0.97, 1.03),
            ground=scene.ground,
        )
        groups.append(poses)
        views.append(view)
    return assemble(groups, views)


def assemble(groups: Sequence[Sequence[Pose]], views: Sequence[View]) -> Layout:
    """Poses and views of a batch as tensors."""
    rows = [(b, s, pose) for b, poses in enumerate(groups) for s, pose in enumerate(poses)]
    things = [pose.thing for *_, pose in rows]
    table = torch.full((len(groups), max(len(poses) for poses in groups)), -1)
    for n, (b, s, _) in enumerate(rows):
        table[b, s] = n
    return Layout(
        picture=torch.tensor([b for b, *_ in rows]),
        slot=torch.tensor([s for _, s, _ in rows]),
        shape=torch.tensor([SHAPES.index(thing.shape) for thing in things]),
        centre=torch.tensor([pose.centre for *_, pose in rows]),
        turn=torch.tensor([pose.turn for *_, pose in rows]),
        radius=torch.tensor([SIZES[thing.size] for thing in things]),
        colour=torch.tensor([COLOURS[thing.colour] for thing in things]) / 255,
        is_metal=torch.tensor([thing.material == "metal" for thing in things]),
        table=table,
        target=torch.tensor([view.target for view in views]),
        elevation=torch.tensor([view.elevation for view in views]),
        half_view=torch.tensor([view.half_view for view in views]),
        ground=torch.tensor([GROUNDS[view.ground] for view in views]) / 255,
    )
