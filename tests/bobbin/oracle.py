"""Whether a picture shows what a caption asked for, fact by fact.

`python -m bobbin.oracle` checks the oracle itself, on true renders and on wrong captions.
"""

import math
import random
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from .reading.reading import Reading, Sighting, read
from .world.render import render
from .world.scene import Scene, sample
from .world.wording import mention

# From the second object to the first, to the right and towards the viewer, in scene units, when both are taken to
# stand on the ground; so what stands on top of another seems to be a little way behind it. Last, how far to either side
# it may be.
STEPS = {
    "left of": (-2.0, 0.0, 0.1),
    "right of": (2.0, 0.0, 0.1),
    "in front of": (0.0, 2.4, 0.8),
    "behind": (0.0, -2.4, 0.8),
    "on top of": (0.0, -1.45, 0.1),
}


def judge(picture: np.ndarray | Tensor, scene: Scene) -> dict[str, bool]:
    """Which of the facts that the scene states the picture gets right; `all` is what counts."""
    return compare(read(picture), scene)


def compare(reading: Reading, scene: Scene) -> dict[str, bool]:
    """`judge`, of a picture that has been read already."""
    order = align(reading, scene)
    right = {"count": bool(order), **_compare_in_order(order, scene)}
    if scene.ground:
        right["ground"] = reading.ground == scene.ground
    return right | {"all": all(right.values())}


def align(reading: Reading, scene: Scene) -> tuple[Sighting, ...]:
    """The sightings in the order of the scene's things that makes most facts right; none if their number is wrong."""
    if len(reading.sightings) != len(scene.things):
        return ()
    orders = permutations(reading.sightings)
    return max(orders, key=lambda order: sum(_compare_in_order(order, scene).values()))


def _compare_in_order(found: Sequence[Sighting], scene: Scene) -> dict[str, bool]:
    """The facts of a scene when the objects found are its things in this order."""
    right = {}
    for fact in ("colour", "shape", "material", "size"):
        wanted = [getattr(thing, fact) for thing in scene.things]
        if any(wanted):
            seen = [getattr(sighting.thing, fact) for sighting in found]
            right[fact] = bool(seen) and all(w in ("", s) for w, s in zip(wanted, seen, strict=True))
    if any(scene.relations):
        right["relation"] = bool(found) and all(
            relation in ("", relate(found[2 * i], found[1])) for i, relation in enumerate(scene.relations)
        )
    return right


def relate(first: Sighting, second: Sighting) -> str:
    """How the first stands to the second, or "unclear"."""
    right, near = first.x - second.x, first.z - second.z
    distance = {name: math.hypot(max(abs(right - x) - side, 0), near - z) for name, (x, z, side) in STEPS.items()}
    best = min(distance, key=distance.__getitem__)
    return best if distance[best] < 0.8 else "unclear"


def check(num_things: int, num: int, *, seed: int = 5) -> tuple[dict[str, float], dict[str, float]]:
    """Share of verdicts that say "right": on renders of the scene itself, and on renders of other scenes."""
    rng, other = random.Random(seed), random.Random(seed + 1)
    counts = (num_things == 1, num_things == 2, num_things == 3)
    scenes = [sample(rng, counts=counts) for _ in range(num)]
    readings = [read(picture) for picture in render(scenes, rng)]
    wrong = [mention(sample(other, counts=counts), other) for _ in range(num)]
    return (
        share_right([compare(r, scene) for r, scene in zip(readings, scenes, strict=True)]),
        share_right([compare(r, scene) for r, scene in zip(readings, wrong, strict=True)]),
    )


def share_right(verdicts: Sequence[dict[str, bool]]) -> dict[str, float]:
    """Per attribute, the share that is right among the verdicts that have it."""
    names = dict.fromkeys(name for verdict in verdicts for name in verdict)
    return {n: float(np.mean([v[n] for v in verdicts if n in v])) for n in names}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number in (1, 2, 3):
        for title, shares in zip(("true renders", "wrong captions"), check(number, 200), strict=True):
            print(f"{number} objects, {title}:", {name: round(share, 4) for name, share in shares.items()}, flush=True)
