"""Scenes of one or two coloured objects: what they hold, what a person would call them, and how they look."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIZE = 64
SUPERSAMPLE = 4  # masks are drawn this many times larger, for smooth edges

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 45, 45),
    "green": (45, 160, 70),
    "blue": (45, 90, 220),
    "yellow": (242, 202, 40),
    "purple": (135, 65, 180),
    "orange": (245, 130, 30),
    "cyan": (40, 190, 205),
    "pink": (245, 125, 180),
    "black": (34, 34, 40),
}
# Unit vector from the second object to the first, y pointing down.
RELATIONS: dict[str, tuple[int, int]] = {"above": (0, -1), "below": (0, 1), "left of": (-1, 0), "right of": (1, 0)}

# Pairs that no training picture shows: drawing them right is composition, not memory.
HELD_OUT = frozenset(
    {
        ("red", "star"),
        ("green", "circle"),
        ("blue", "cross"),
        ("yellow", "ring"),
        ("purple", "triangle"),
        ("orange", "square"),
        ("cyan", "heart"),
        ("pink", "moon"),
        ("black", "circle"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One coloured object."""

    colour: str
    shape: str


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One object, or two of which the first stands in `relation` to the second."""

    things: tuple[Thing, ...]
    relation: str | None = None

    def __post_init__(self) -> None:
        assert len(self.things) == (1 if self.relation is None else 2), f"a relation joins exactly two objects: {self}"


# Shapes: each draws itself in white on a black mask, about a centre (x, y) with an outer radius r, all in mask pixels.


def _circle(draw: ImageDraw.ImageDraw, x: float, y: float, r: float, *, fill: int = 255) -> None:
    draw.ellipse([x - r, y - r, x + r, y + r], fill=fill)


def _ring(draw: ImageDraw.ImageDraw, x: float, y: float, r: float) -> None:
    _circle(draw, x, y, r)
    _circle(draw, x, y, 0.56 * r, fill=0)


def _moon(draw: ImageDraw.ImageDraw, x: float, y: float, r: float) -> None:
    _circle(draw, x + 0.15 * r, y, r)
    _circle(draw, x + 0.65 * r, y, 0.82 * r, fill=0)


def _polygon(corners: list[tuple[float, float]]) -> Callable[[ImageDraw.ImageDraw, float, float, float], None]:
    def draw_polygon(draw: ImageDraw.ImageDraw, x: float, y: float, r: float) -> None:
        draw.polygon([(x + r * u, y + r * v) for u, v in corners], fill=255)

    return draw_polygon


def _spokes(num: int, radii: tuple[float, ...]) -> list[tuple[float, float]]:
    """`num` corners around the centre, the first straight up, at the radii in turn."""
    angles = [2 * math.pi * k / num - math.pi / 2 for k in range(num)]
    return [(radii[k % len(radii)] * math.cos(a), radii[k % len(radii)] * math.sin(a)) for k, a in enumerate(angles)]


def _heart(num: int = 60) -> list[tuple[float, float]]:
    turns = [2 * math.pi * k / num for k in range(num)]
    height = [13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t) for t in turns]
    return [(16 * math.sin(t) ** 3 / 16.5, -(h + 2.5) / 16.5) for t, h in zip(turns, height, strict=True)]


_ARM = 0.36  # half the width of a cross's bar
_CROSS = [(-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)]

SHAPES: dict[str, Callable[[ImageDraw.ImageDraw, float, float, float], None]] = {
    "circle": _circle,
    "square": _polygon([(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
    "triangle": _polygon(_spokes(3, (1.0,))),
    "star": _polygon(_spokes(10, (1.0, 0.45))),
    "cross": _polygon(_CROSS + [(-u, -v) for u, v in _CROSS]),
    "ring": _ring,
    "heart": _polygon(_heart()),
    "moon": _moon,
}


def sample(rng: random.Random, *, two: float = 0.5, held_out: bool = False) -> Scene:
    """A random scene, of two objects with probability `two`; without the held-out pairs unless asked for."""
    pairs = [(c, s) for c in COLOURS for s in SHAPES if held_out or (c, s) not in HELD_OUT]
    num = 2 if rng.random() < two else 1
    things = tuple(Thing(colour=c, shape=s) for c, s in rng.sample(pairs, num))
    return Scene(things=things, relation=rng.choice(list(RELATIONS)) if num == 2 else None)


def caption(scene: Scene) -> str:
    """The plain caption: `a red circle`, `an orange star left of a blue ring`."""
    names = [f"{'an' if t.colour[0] in 'aeiou' else 'a'} {t.colour} {t.shape}" for t in scene.things]
    return names[0] if scene.relation is None else f"{names[0]} {scene.relation} {names[1]}"


def render(scene: Scene, rng: random.Random, *, size: int = SIZE) -> np.ndarray:
    """A picture of the scene, uint8, size x size x 3; `rng` decides place, size, light and background.

    Objects get lighter towards their top and cast a faint shadow on a nearly white background: prettier than
    flat, and still so far from every other colour that `oracle.read` cannot be in doubt.
    """
    picture = _background(rng, size)
    for thing, (x, y, r) in zip(scene.things, _places(scene, rng), strict=True):
        mask = _mask(thing.shape, x, y, r, size)
        shade = mask.filter(ImageFilter.GaussianBlur(size / 40))
        shadow = np.roll(_unit(shade), (size // 24, size // 48), axis=(0, 1))[..., None]
        picture *= 1 - 0.16 * shadow
        alpha = _unit(mask)[..., None]
        picture = picture * (1 - alpha) + _lit(COLOURS[thing.colour], y - r, y + r, size) * alpha
    return np.rint(picture).clip(0, 255).astype(np.uint8)


def _unit(mask: Image.Image) -> np.ndarray:
    return np.asarray(mask, np.float32) / 255


def _background(rng: random.Random, size: int) -> np.ndarray:
    """Nearly white, a touch warmer or cooler each time, and a little darker towards the floor."""
    tint = np.array([rng.uniform(244, 253) for _ in range(3)], np.float32)
    fall = np.linspace(1.0, rng.uniform(0.94, 0.98), size, dtype=np.float32)
    return np.ones((size, size, 1), np.float32) * fall[:, None, None] * tint


def _places(scene: Scene, rng: random.Random) -> list[tuple[float, float, float]]:
    """Centre and radius of every object, as shares of the picture."""
    if scene.relation is None:
        return [(rng.uniform(0.44, 0.56), rng.uniform(0.44, 0.56), rng.uniform(0.25, 0.34))]
    dx, dy = RELATIONS[scene.relation]
    return [
        (
            0.5 + sign * dx * 0.25 + rng.uniform(-0.03, 0.03),
            0.5 + sign * dy * 0.25 + rng.uniform(-0.03, 0.03),
            rng.uniform(0.15, 0.19),
        )
        for sign in (1, -1)
    ]


def _mask(shape: str, x: float, y: float, r: float, size: int) -> Image.Image:
    scale = size * SUPERSAMPLE
    large = Image.new("L", (scale, scale))
    SHAPES[shape](ImageDraw.Draw(large), x * scale, y * scale, r * scale)
    return large.resize((size, size), Image.Resampling.BOX)


def _lit(colour: tuple[int, int, int], top: float, bottom: float, size: int) -> np.ndarray:
    """The colour under soft light from above: one row per picture row."""
    rows = (np.arange(size, dtype=np.float32) + 0.5) / size
    down = ((rows - top) / (bottom - top)).clip(0, 1)[:, None, None]
    base = np.array(colour, np.float32)
    bright, dark = base + 0.2 * (255 - base), base * 0.9
    return bright * (1 - down) + dark * down
