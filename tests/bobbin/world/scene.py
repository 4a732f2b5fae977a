"""What a scene holds: one to three solids of a colour, a material and a size, how they stand, and the ground below."""

import random
import zlib
from dataclasses import dataclass, replace

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 32, 36),
    "green": (30, 150, 62),
    "blue": (36, 82, 214),
    "yellow": (245, 205, 30),
    "purple": (126, 52, 178),
    "orange": (243, 122, 18),
    "cyan": (30, 188, 208),
    "pink": (246, 122, 178),
    "black": (22, 22, 26),
}
SHAPES = ("sphere", "cube", "cylinder", "cone", "pyramid", "ring", "capsule", "star", "heart")
MATERIALS = ("matte", "metal")
SIZES: dict[str, float] = {"small": 0.45, "large": 0.75}  # the radius of a solid, in scene units
# The direction from the second object to the first: x right, y up, z towards the viewer.
RELATIONS: dict[str, tuple[int, int, int]] = {
    "left of": (-1, 0, 0),
    "right of": (1, 0, 0),
    "in front of": (0, 0, 1),
    "behind": (0, 0, -1),
    "on top of": (0, 1, 0),
}
OPPOSITE = {"left of": "right of", "right of": "left of", "in front of": "behind", "behind": "in front of"}
FLAT_TOPS = ("cube", "cylinder")  # what another object can stand on
# The colour near the viewer and the colour far away.
GROUNDS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "paper": ((238, 236, 232), (250, 249, 247)),
    "sand": ((222, 203, 166), (240, 228, 204)),
    "grass": ((150, 178, 120), (205, 222, 190)),
    "stone": ((150, 155, 162), (190, 196, 204)),
    "dusk": ((176, 160, 190), (236, 204, 196)),
}

# Pairs that no training picture shows: drawing them right is composition, not memory.
HELD_OUT = frozenset(
    {
        ("red", "star"),
        ("green", "sphere"),
        ("blue", "cone"),
        ("yellow", "ring"),
        ("purple", "pyramid"),
        ("orange", "cube"),
        ("cyan", "heart"),
        ("pink", "capsule"),
        ("black", "cylinder"),
    }
)
HELD_OUT_SHARE = 16  # one in this many pairings of two objects and their relation is never trained on either


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One solid; what a caption leaves open is empty."""

    colour: str = ""
    shape: str = ""
    material: str = ""
    size: str = ""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One to three things. The first and the third stand in their relation to the second."""

    things: tuple[Thing, ...]
    relations: tuple[str, ...] = ()
    ground: str = ""

    def __post_init__(self) -> None:
        assert len(self.relations) == len(self.things) - 1, f"every thing but one needs a relation: {self}"

    def pairings(self) -> list[tuple[Thing, str, Thing]]:
        """(thing, relation, the second thing), for each relation."""
        return [(self.things[2 * i], relation, self.things[1]) for i, relation in enumerate(self.relations)]


def sample(rng: random.Random, *, counts: tuple[float, float, float], held_out: bool = False) -> Scene:
    """A random scene of one, two or three objects with the weights `counts`.

    In training no held-out combination appears; with `held_out`, only scenes that hold one do. Objects of a scene
    differ in colour, so that a reader can tell them apart.
    """
    while True:
        scene = _draw(rng, rng.choices((1, 2, 3), counts)[0])
        if is_held_out(scene) == held_out:
            return scene


def _draw(rng: random.Random, num: int) -> Scene:
    things = [
        Thing(colour=colour, shape=rng.choice(SHAPES), material=rng.choice(MATERIALS), size=rng.choice(list(SIZES)))
        for colour in rng.sample(list(COLOURS), num)
    ]
    relations = tuple(rng.sample(list(RELATIONS), num - 1))
    if {"on top of", "behind"} == set(relations):  # one would hide the other
        relations = ("on top of", "in front of")
    if "on top of" in relations:
        things[1] = replace(things[1], shape=rng.choice(FLAT_TOPS), size="large")
    return Scene(things=tuple(things), relations=relations, ground=rng.choice(list(GROUNDS)))


def is_held_out(scene: Scene) -> bool:
    """Whether training must not show this scene: a pair of colour and shape, or a pairing of two objects."""
    pairs = {(thing.colour, thing.shape) for thing in scene.things}
    return bool(pairs & HELD_OUT) or any(_is_kept_back(*pairing) for pairing in scene.pairings())


def _is_kept_back(first: Thing, relation: str, second: Thing) -> bool:
    """`a left of b` and `b right of a` are one pairing."""
    if relation in ("right of", "behind"):
        first, relation, second = second, OPPOSITE[relation], first
    words = f"{first.colour} {first.shape} {relation} {second.colour} {second.shape}"
    return zlib.crc32(words.encode()) % HELD_OUT_SHARE == 0
