"""What the gate does not ask: `python -m bobbin.studies NAME --model DIR [--num 100]`.

Pictures that are right are counted over the first of the gate's prompts.

autoencoder  how many true pictures are still right after the autoencoder alone
negative     how often a colour that is left open comes out, with and without that colour as the negative prompt
guidance     how many pictures are right at guidance 1 to 6
padding      the same prompts padded to more tokens
sizes        the same prompts at other sizes
determinism  one request twice, compared byte by byte
"""

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from .drawing import Settings, draw
from .evaluate import prompts
from .oracle import judge
from .reading.reading import read
from .round_trip import round_trip
from .world.scene import SHAPES
from .world.wording import TEXT_LENGTH, caption

SIZES = ((96, 96), (128, 128), (160, 160), (160, 128), (96, 128))


def autoencoder(settings: Settings, num: int) -> None:
    shares = round_trip(settings.model / "vae", num=num)
    print("after the autoencoder alone:", ", ".join(f"{name} {share:.1%}" for name, share in shares.items()))


def negative(settings: Settings, num: int) -> None:
    """Over `num` seeds, the share of the three most frequent colours, before and after each is negated."""
    asked = [f"a {SHAPES[i % len(SHAPES)]}" for i in range(num)]
    plain = _colours(asked, settings, "")
    print(f"no colour asked for: {dict(Counter(plain).most_common())}")
    for colour, count in Counter(plain).most_common(3):
        left = _colours(asked, settings, colour).count(colour)
        print(f"{colour}: {count / num:.1%} of {num} pictures, {left / num:.1%} with it as negative prompt")


def _colours(asked: list[str], settings: Settings, negative_prompt: str) -> list[str]:
    pictures = draw(asked, seeds=range(len(asked)), settings=settings, negative_prompt=negative_prompt)
    found = [read(picture).sightings for picture in pictures]
    return [sightings[0].thing.colour if sightings else "nothing" for sightings in found]


def guidance(settings: Settings, num: int) -> None:
    for scale in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        _report(f"guidance {scale:g}", replace(settings, guidance=scale), num)


def padding(settings: Settings, num: int) -> None:
    for length in (TEXT_LENGTH, 64, 128, 256, 512):
        _report(f"{length} tokens", replace(settings, text_length=length), num)


def sizes(settings: Settings, num: int) -> None:
    for width, height in SIZES:
        _report(f"{width} x {height}", replace(settings, width=width, height=height), num)


def _report(title: str, settings: Settings, num: int) -> None:
    """How many pictures of one and of two objects are right."""
    shares = []
    for num_things in (1, 2):
        scenes = prompts(num_things, num)
        pictures = draw([caption(scene) for scene in scenes], seeds=range(num), settings=settings)
        right = sum(judge(picture, scene)["all"] for picture, scene in zip(pictures, scenes, strict=True))
        shares.append(f"{'one object' if num_things == 1 else 'two'} {right / num:.1%}")
    print(f"{title}: {', '.join(shares)} right of {num}", flush=True)


def determinism(settings: Settings, num: int) -> None:
    asked = [caption(scene) for scene in prompts(2, num)]
    first, second = (draw(asked, seeds=range(num), settings=settings) for _ in range(2))
    same = sum(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    print(f"{same} of {num} pictures are the same bytes when drawn again")


STUDIES: dict[str, Callable[[Settings, int], None]] = {
    "autoencoder": autoencoder,
    "negative": negative,
    "guidance": guidance,
    "padding": padding,
    "sizes": sizes,
    "determinism": determinism,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*STUDIES, "all"])
    parser.add_argument("--model", type=Path, required=True, help="a FluxPipeline folder that `train` wrote")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--num", type=int, default=100, help="pictures per question")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, study in STUDIES.items():
        if args.name in (name, "all"):
            study(Settings(model=args.model, device=args.device), args.num)


if __name__ == "__main__":
    main()
