"""Read a picture back: which objects it shows, where, and whether that is what a caption asked for. No model.

`python -m latentloom.pipelines.bobbin.oracle` checks the reader itself, on true renders and on wrong captions.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw

from .scene import COLOURS, RELATIONS, SHAPES, Scene, Thing, render, sample

TEMPLATE = 24  # pixels per side in which outlines are compared
MIN_AREA = 0.008  # share of the picture; less is a speck, not an object
MIN_MATCH = 0.65  # overlap with the best template (intersection over union); less is no shape at all
MIN_OFFSET = 0.12  # share of the picture between two centres that counts as above, below, left or right
# The background and the shadow that objects throw on it.
EMPTY = ((250, 250, 250), (225, 225, 225), (200, 200, 200))


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One object found: its centre in shares of the picture; `shape` is "unclear" if it looks like none."""

    colour: str
    shape: str
    x: float
    y: float


def read(picture: np.ndarray | Image.Image) -> list[Sighting]:
    """The objects in a picture, largest first."""
    pixels = np.asarray(picture.convert("RGB") if isinstance(picture, Image.Image) else picture).astype(np.float32)
    height, width = pixels.shape[:2]
    palette = np.array([*COLOURS.values(), *EMPTY], np.float32)
    nearest = ((pixels[:, :, None] - palette) ** 2).sum(-1).argmin(-1)
    found = []
    for rows, columns in _islands(nearest < len(COLOURS)):
        if len(rows) < MIN_AREA * height * width:
            continue
        votes = np.bincount(nearest[rows, columns], minlength=len(palette))
        found.append(
            Sighting(
                colour=list(COLOURS)[votes[: len(COLOURS)].argmax()],
                shape=_shape(rows, columns),
                x=float(columns.mean() + 0.5) / width,
                y=float(rows.mean() + 0.5) / height,
            )
        )
    return found


def judge(picture: np.ndarray | Image.Image, scene: Scene) -> dict[str, bool]:
    """Which parts of the scene the picture gets right; `all` is what counts."""
    found = read(picture)
    wanted = [(thing.colour, thing.shape) for thing in scene.things]
    right = {
        "count": len(found) == len(wanted),
        "colour": sorted(f.colour for f in found) == sorted(colour for colour, _ in wanted),
        "shape": sorted(f.shape for f in found) == sorted(shape for _, shape in wanted),
        "pairs": sorted((f.colour, f.shape) for f in found) == sorted(wanted),
    }
    if scene.relation is not None:
        right["relation"] = len(found) == 2 and _stands(found, scene)
    return right | {"all": all(right.values())}


def _stands(found: list[Sighting], scene: Scene) -> bool:
    """Whether the first object stands as told to the second; told apart by colour, or by shape where colours agree."""
    first, second = scene.things
    name: Callable[[Sighting | Thing], str] = (
        (lambda o: o.shape) if first.colour == second.colour else (lambda o: o.colour)
    )
    a, b = (next((f for f in found if name(f) == name(thing)), None) for thing in (first, second))
    if a is None or b is None:
        return False
    dx, dy = RELATIONS[scene.relation or ""]
    return (a.x - b.x) * dx + (a.y - b.y) * dy > MIN_OFFSET


def _islands(mask: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Connected areas (by sides) as rows and columns, largest first."""
    rest = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask), strict=True)}
    islands = []
    while rest:
        edge = [rest.pop()]
        island = []
        while edge:
            y, x = edge.pop()
            island.append((y, x))
            near = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & rest
            rest -= near
            edge.extend(near)
        islands.append(np.array(island).T)
    return [(i[0], i[1]) for i in sorted(islands, key=lambda i: i.shape[1], reverse=True)]


def _shape(rows: np.ndarray, columns: np.ndarray) -> str:
    outline = np.zeros((np.ptp(rows) + 1, np.ptp(columns) + 1), np.uint8)
    outline[rows - rows.min(), columns - columns.min()] = 255
    seen = _fit(Image.fromarray(outline))
    match = {
        name: np.minimum(seen, known).sum() / np.maximum(seen, known).sum() for name, known in _templates().items()
    }
    best = max(match, key=match.__getitem__)
    return best if match[best] >= MIN_MATCH else "unclear"


@cache
def _templates() -> dict[str, np.ndarray]:
    """Every shape, cropped to its own box and squeezed to the same square."""
    templates = {}
    for name, draw in SHAPES.items():
        mask = Image.new("L", (240, 240))
        draw(ImageDraw.Draw(mask), 120, 120, 90)
        templates[name] = _fit(mask.crop(mask.getbbox()))
    return templates


def _fit(mask: Image.Image) -> np.ndarray:
    return np.asarray(mask.resize((TEMPLATE, TEMPLATE), Image.Resampling.BILINEAR), np.float32) / 255


def check(num: int = 1000, seed: int = 5) -> tuple[dict[str, float], dict[str, float]]:
    """Share of verdicts that say "right": on renders of the scene itself, and on renders of other scenes."""
    rng, other = random.Random(seed), random.Random(seed + 1)
    scenes = [sample(rng, held_out=True) for _ in range(num)]
    pictures = [render(scene, rng) for scene in scenes]
    true = [judge(p, scene) for p, scene in zip(pictures, scenes, strict=True)]
    wrong = [judge(p, sample(other, held_out=True)) for p in pictures]
    return share_right(true), share_right(wrong)


def share_right(verdicts: list[dict[str, bool]]) -> dict[str, float]:
    """Per attribute, the share that is right among the verdicts that have it."""
    names = dict.fromkeys(name for verdict in verdicts for name in verdict)
    return {n: float(np.mean([v[n] for v in verdicts if n in v])) for n in names}


if __name__ == "__main__":
    true_share, wrong_share = check()
    print("true renders:  ", {name: round(share, 4) for name, share in true_share.items()})
    print("wrong captions:", {name: round(share, 4) for name, share in wrong_share.items()})
