"""The gate: `python -m bobbin.evaluate --model DIR [--sheet sheet.png]`.

500 prompts of combinations that training never showed, drawn at the model card's defaults and read back by `oracle`;
a picture is right when everything its prompt states is. When fewer are right than `GATES` asks, the exit code is 1.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from .drawing import Settings, draw
from .oracle import align, compare, share_right
from .reading.reading import Reading, read
from .world.scene import COLOURS, MATERIALS, SHAPES, Scene, sample
from .world.wording import caption

GAP = 2


def write_sheet(pictures: Sequence[np.ndarray], path: Path, *, columns: int) -> None:
    """Row by row, a grey line between pictures of equal size."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    page = Image.new("RGB", (columns * (width + GAP), rows * (height + GAP)), (90, 90, 90))
    for i, picture in enumerate(pictures):
        page.paste(Image.fromarray(picture), (i % columns * (width + GAP), i // columns * (height + GAP)))
    page.save(path, quality=90)


GATES = {1: 0.98, 2: 0.9}  # the least share of pictures of one and of two objects that must be right
SHEET = 27  # pictures of each kind on the contact sheet
NUMS = {1: 200, 2: 200, 3: 100}  # prompts with one, two and three objects


def prompts(num_things: int, num: int, *, series: str = "gate") -> list[Scene]:
    """Held-out scenes as prompts: colour, shape, material and relation stated, size and ground half of the time."""
    rng = random.Random(f"{series} {num_things}")
    counts = (num_things == 1, num_things == 2, num_things == 3)
    scenes = []
    for _ in range(num):
        scene = sample(rng, counts=counts, held_out=True)
        if rng.random() < 0.5:
            scene = replace(scene, things=tuple(replace(thing, size="") for thing in scene.things))
        scenes.append(scene if rng.random() < 0.5 else replace(scene, ground=""))
    return scenes


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Prompts, their pictures, what those show, and the share that is right."""

    share: float
    scenes: list[Scene]
    pictures: list[np.ndarray]
    readings: list[Reading]


def gate(num_things: int, num: int, settings: Settings, *, series: str) -> Drawn:
    """Draw, read and print the shares."""
    scenes = prompts(num_things, num, series=series)
    pictures = draw([caption(scene) for scene in scenes], seeds=range(num), settings=settings)
    readings = [read(picture) for picture in pictures]
    shares = share_right([compare(r, s) for r, s in zip(readings, scenes, strict=True)])
    shown = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    print(f"{num_things} object{'s' * (num_things > 1)}, {num} held-out prompts: {shown}", flush=True)
    return Drawn(share=shares["all"], pictures=pictures, readings=readings, scenes=scenes)


def print_confusions(fact: str, values: Sequence[str], readings: Sequence[Reading], scenes: Sequence[Scene]) -> None:
    """What was asked for by row, what was drawn by column; pictures with a wrong number of objects are left out."""
    rows: dict[str, Counter[str]] = {value: Counter() for value in values}
    for reading, scene in zip(readings, scenes, strict=True):
        for sighting, thing in zip(align(reading, scene), scene.things, strict=False):
            rows[getattr(thing, fact)][getattr(sighting.thing, fact)] += 1
    columns = [*values, *({drawn for row in rows.values() for drawn in row} - set(values))]
    print(f"{fact}, asked \\ drawn".ljust(24) + "".join(column.rjust(9) for column in columns))
    for value, row in rows.items():
        print(value.ljust(24) + "".join(str(row[column] or ".").rjust(9) for column in columns))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a FluxPipeline folder that `train` wrote")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", type=float, default=1.0, help="draw only this share of the prompts")
    parser.add_argument("--series", default="gate", help="the name of other prompts, to choose settings on")
    parser.add_argument("--steps", type=int, default=0, help="instead of the card's")
    parser.add_argument("--guidance", type=float, default=0.0, help="instead of the card's")
    parser.add_argument("--sheet", type=Path, help="write a contact sheet here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = Settings(model=args.model, device=args.device, steps=args.steps, guidance=args.guidance)
    start = time.perf_counter()
    draw(["a red cube"], seeds=[0], settings=settings)
    ready = time.perf_counter()
    draw(["a red cube"], seeds=[1], settings=settings)
    print(f"load and first picture {ready - start:.1f} s, then {time.perf_counter() - ready:.2f} s a picture")
    drawn = {n: gate(n, max(1, round(args.share * num)), settings, series=args.series) for n, num in NUMS.items()}
    readings, scenes = ([x for d in drawn.values() for x in getattr(d, name)] for name in ("readings", "scenes"))
    for fact, values in (("shape", SHAPES), ("colour", tuple(COLOURS)), ("material", MATERIALS)):
        print_confusions(fact, values, readings, scenes)
    if args.sheet:
        write_sheet([picture for d in drawn.values() for picture in d.pictures[:SHEET]], args.sheet, columns=9)
    for num_things, least in GATES.items():
        held = "held" if drawn[num_things].share >= least else "missed"
        print(f"{num_things} object{'s' * (num_things > 1)}: the gate of {least:.0%} is {held}")
    return int(any(drawn[num_things].share < least for num_things, least in GATES.items()))


if __name__ == "__main__":
    sys.exit(main())
