"""Measure the shipped bobbin: `python -m latentloom.pipelines.bobbin.evaluate [--seeds 4] [--sheet sheet.png]`.

Every prompt "a COLOUR OBJECT", seen in training or not, is drawn with every seed at the model card's defaults and read
back by `oracle`; under 98 % right the exit code is 1. Two-object prompts and negative prompts are reported only.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..describe import describe_model
from ..shape import empty_canvas
from ..values import Model, to_plain
from . import MODEL_DIR
from .oracle import judge, read, share_right
from .scene import COLOURS, HELD_OUT, SHAPES, Scene, Thing, caption, sample
from .sheet import write_sheet

GATE = 0.98


@cache
def _model(folder: Path) -> Model:
    return describe_model(str(folder), device="cpu", dtype="fp32")


@cache
def _text(folder: Path, prompt: str, negative_prompt: str) -> dict[str, Any]:
    from .. import stages

    request = {"model": to_plain(_model(folder)), "prompt": prompt, "negative_prompt": negative_prompt}
    return stages.encode_text(request)


def draw(
    prompts: Sequence[str],
    negatives: Sequence[str] | None = None,
    *,
    seeds: Sequence[int],
    steps: int = 0,
    guidance: float = 0.0,
    model: Path = MODEL_DIR,
) -> list[np.ndarray]:
    """One picture per prompt and seed, uint8, by the stages that every run uses; 0 is the card's own number."""
    from .. import stages

    plain = to_plain(_model(model))
    canvas = to_plain(empty_canvas(_model(model), width=0, height=0, frames=0, fps=0.0, batch=1))
    pictures = []
    for prompt, negative, seed in zip(prompts, negatives or [""] * len(prompts), seeds, strict=True):
        request = {"model": plain, "conditioning": _text(model, prompt, negative), "latents": canvas, "seed": seed}
        latents = stages.denoise({**request, "steps": steps, "guidance": guidance})
        pixels = stages.decode({"model": plain, "latents": latents})["image"]["pixels"]
        pictures.append((pixels[0].clamp(0, 1) * 255).round().byte().numpy())
    return pictures


def one_object(seeds: int, *, first_seed: int = 0, **options: Any) -> tuple[float, list[np.ndarray]]:
    """Every colour with every shape; prints the shares, the misses and the confusions, returns the total share."""
    scenes = [Scene(things=(Thing(colour=c, shape=s),)) for c in COLOURS for s in SHAPES for _ in range(seeds)]
    numbers = [first_seed + i for i in range(seeds)] * (len(scenes) // seeds)
    pictures = draw([caption(s) for s in scenes], seeds=numbers, **options)
    verdicts = [judge(p, s) for p, s in zip(pictures, scenes, strict=True)]
    unseen = [(s.things[0].colour, s.things[0].shape) in HELD_OUT for s in scenes]
    groups = {
        "seen": [v for v, u in zip(verdicts, unseen, strict=True) if not u],
        "held out": [v for v, u in zip(verdicts, unseen, strict=True) if u],
        "total": verdicts,
    }
    for name, group in groups.items():
        _print_shares(f"one object, {name}", group)
    _print_confusions(scenes, pictures)
    return share_right(verdicts)["all"], pictures


def two_objects(num: int, **options: Any) -> list[np.ndarray]:
    """Random prompts with a relation, those with a held-out pair apart."""
    rng = random.Random("two objects")
    groups: dict[str, list[Scene]] = {"seen": [], "with a held-out pair": []}
    while any(len(group) < num for group in groups.values()):
        scene = sample(rng, two=1.0, held_out=True)
        unseen = any((t.colour, t.shape) in HELD_OUT for t in scene.things)
        group = groups["with a held-out pair" if unseen else "seen"]
        if len(group) < num:
            group.append(scene)
    drawn = []
    for name, group in groups.items():
        pictures = draw([caption(s) for s in group], seeds=list(range(num)), **options)
        _print_shares(f"two objects, {name}", [judge(p, s) for p, s in zip(pictures, group, strict=True)])
        drawn += pictures
    return drawn


def negative_prompts(num: int, **options: Any) -> None:
    """How often "a SHAPE" comes out in a colour, and how often still when that colour is the negative prompt."""
    colours, shapes = list(COLOURS), list(SHAPES)
    prompts = [f"a {shapes[i % len(shapes)]}" for i in range(num)]
    plain = _colours(draw(prompts, seeds=list(range(num)), **options))
    print(f"no colour asked for, {num} pictures: {dict(Counter(plain).most_common())}")
    shares = {}
    for colour in colours:
        kept = [i for i in range(num) if plain[i] == colour]
        if kept:
            again = draw([prompts[i] for i in kept], [colour] * len(kept), seeds=kept, **options)
            shares[colour] = sum(c == colour for c in _colours(again)) / len(kept)
    shown = ", ".join(f"{colour} {share:.0%}" for colour, share in shares.items())
    print(f"same prompt and seed, that colour as negative prompt: still {shown}")


def _colours(pictures: list[np.ndarray]) -> list[str]:
    """The colour of the largest object in each picture."""
    return [found[0].colour if (found := read(p)) else "nothing" for p in pictures]


def _print_shares(title: str, verdicts: list[dict[str, bool]]) -> None:
    shares = ", ".join(f"{name} {share:.1%}" for name, share in share_right(verdicts).items())
    print(f"{title} ({len(verdicts)} pictures): {shares}", flush=True)


def _print_confusions(scenes: list[Scene], pictures: list[np.ndarray]) -> None:
    """Asked shape by row, drawn shape by column, then every picture that is wrong."""
    rows: dict[str, Counter[str]] = {shape: Counter() for shape in SHAPES}
    wrong = []
    for scene, picture in zip(scenes, pictures, strict=True):
        found = read(picture)
        drawn = found[0].shape if len(found) == 1 else "other"
        rows[scene.things[0].shape][drawn] += 1
        if not judge(picture, scene)["all"]:
            wrong.append(f"{caption(scene)} -> {' + '.join(f'{f.colour} {f.shape}' for f in found) or 'nothing'}")
    columns = [*SHAPES, "unclear", "other"]
    print("asked \\ drawn".ljust(14) + "".join(c.rjust(9) for c in columns))
    for shape, row in rows.items():
        print(shape.ljust(14) + "".join((str(row[c]) if row[c] else ".").rjust(9) for c in columns))
    print("wrong: " + ("; ".join(wrong) or "none"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4, help="pictures per one-object prompt")
    parser.add_argument("--first-seed", type=int, default=0, help="seeds that chose no default: 4 and up")
    parser.add_argument("--sheet", type=Path, help="write a contact sheet here")
    parser.add_argument("--steps", type=int, default=0, help="instead of the card's")
    parser.add_argument("--guidance", type=float, default=0.0, help="instead of the card's")
    parser.add_argument("--model", type=Path, default=MODEL_DIR, help="another folder in the same layout")
    args = parser.parse_args()
    options = {"steps": args.steps, "guidance": args.guidance, "model": args.model}
    start = time.perf_counter()
    draw(["a red circle"], seeds=[0], **options)
    ready = time.perf_counter()
    draw(["a red circle"], seeds=[0], **options)
    print(f"load and first picture {ready - start:.1f} s, then {time.perf_counter() - ready:.2f} s a picture")
    share, ones = one_object(args.seeds, first_seed=args.first_seed, **options)
    twos = two_objects(96, **options)
    negative_prompts(96, **options)
    if args.sheet:
        write_sheet([*ones[:: args.seeds], *twos[:32], *twos[96:112]], args.sheet, columns=len(SHAPES))
    print(f"{share:.1%} of one-object pictures are right; the gate is {GATE:.0%}")
    return 0 if share >= GATE else 1


if __name__ == "__main__":
    sys.exit(main())
