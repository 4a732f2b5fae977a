"""The small nodes' share of `hostile_files.py`: formulas, patterns, texts and numbers that may take long, or much."""

import random
from collections.abc import Callable
from typing import Any

import torch

from latentloom import nodes
from latentloom.nodes.files.workspace import Workspace
from latentloom.pipelines.values import Image, Mask

WIDE = "\U0001d4b3"
NUMBERS = ["0", "1", "-1", "5", "10**15", "999999999999999", "1e308", "1e-308", "0.5", "a", "b", "-900000000", "1e400"]
SIGNS = ["+", "-", "*", "/", "//", "%", "**", "<", "==", " and ", " or ", " if 1 else ", "*10**15*", "**1**"]
CALLS = ["round({}, {})", "round({}, -{}*10**8)", "max({}, {})", "min({}, {})", "abs({})", "ceil({})", "floor({})"]
CALLS += ["sqrt({})", "({})", "-{}", "not {}"]
PIECES = ["a", "b", ".", r"\w", r"\d\D", "[^,]", "[a-z0-9]", r"\s", "(a)", "(a|b|aa)", "(?:ab)"]
PIECES += ["^", "$", r"\b", "é", WIDE]
PIECES += [f"[{''.join(chr(0x10000 + 3000 * n) for n in range(count))}]" for count in (9, 60)]
PIECES += [r"\1", "(?=a)", "(?<!a)", "(?i:a)", "(?>a)", "(a*)", "(", ")", "(a{9}|b{9})"]
TIMES = ["", "", "*", "+", "?", "{9}", "{500}", "{60000}", "{0,40}", "{3,}", "*?", "{2,9}?", "{0}", "{65535}", "*+"]
CHARACTERS = ["a", "ab", "a b\n", "é", WIDE, "1", "a,", "{x:.99}", "{a}", "{a|", "__a__", " ", "\t\n", "ΐ", "|{}", "\\"]
SIZES = [0, 1, 30, 2_000, 60_000, 1_000_000]
WHOLE = [0, 1, -1, 2, 8, 255, 512, 8192, 16384, 10**9, -(2**63), 2**64 - 1]
FLOATS = [0.0, 1e-9, 0.5, 1.0, 80.0, 170.0, 256.0, 1000.0, 1e308, -1e308]


def formula(dice: random.Random) -> str:
    parts = [dice.choice(NUMBERS)]
    for _ in range(dice.choice([0, 1, 3, 20, 200])):
        roll = dice.random()
        if roll < 0.4:
            parts = [dice.choice(CALLS).format(*(["".join(parts[-9:])] + [dice.choice(NUMBERS)] * 2)[:2])]
        else:
            parts += [dice.choice(SIGNS), dice.choice(NUMBERS)]
    return "".join(parts)


def pattern(dice: random.Random) -> str:
    return "".join(dice.choice(PIECES) + dice.choice(TIMES) for _ in range(dice.choice([1, 1, 2, 3, 8, 60])))


def text(dice: random.Random) -> str:
    piece, most = dice.choice(CHARACTERS), dice.choice(SIZES)
    body = piece * (most // len(piece))
    return body + dice.choice(["", "!", "b", piece])[: max(0, 1_000_000 - len(body))]


def pictures(dice: random.Random, most: int = 500) -> Image:
    count, side = dice.choice([(1, 1), (1, 64), (512, 1), (16, 8), (1, most)])
    return Image(pixels=torch.zeros(count, side, side, 3))


def call_of(dice: random.Random) -> tuple[str, Callable[[], Any]]:
    """What is asked of which node, in words, and the call."""
    whole, real = (lambda: dice.choice(WHOLE)), (lambda: dice.choice(FLOATS))
    inputs: dict[str, dict[str, Any]] = {
        "calculate": {"formula": formula(dice), "a": real(), "b": real()},
        "replace_text": {"text": text(dice), "find": pattern(dice), "replacement": text(dice)[:99], "pattern": True},
        "format_text": {"template": text(dice), "a": text(dice), "x": real()},
        "split_text": {"text": text(dice), "separator": dice.choice(CHARACTERS), "index": whole()},
        "change_case": {"text": text(dice), "case": "title"},
        "vary_text": {"text": text(dice), "wildcards": dice.random() < 0.5, "workspace": Workspace(roots=())},
        "join_text": {"first": text(dice), "second": text(dice), "separator": text(dice)},
        "choose_text": {"lines": text(dice), "index": whole()},
        "layout_prompt": {"prompt": "x", "boxes": "\n".join(["a 1 1 2 2 x"] * dice.choice([1, 2, 70_000]))},
        "size_from_ratio": {"ratio": text(dice), "megapixels": real(), "multiple": whole()},
        "resize_image": {"image": pictures(dice), "width": whole(), "height": whole()},
        "image_grid": {"image": pictures(dice), "columns": whole(), "gap": whole(), "scale": whole()},
        "outpaint": {"image": pictures(dice), "left": whole(), "top": whole(), "feathering": whole()},
        "crop_image": {"image": pictures(dice), "left": whole(), "width": whole()},
        "paste_image": {"image": pictures(dice), "onto": pictures(dice, 250), "width": whole()},
        "blur_mask": {"mask": Mask(pixels=torch.zeros(1, 500, 500)), "grow": whole(), "blur": real()},
    }
    name = dice.choice(["calculate", "replace_text", *inputs])
    given = inputs[name]
    told = {key: str(value)[:60] for key, value in given.items() if not isinstance(value, Image | Mask)}
    return f"{name} of {told}", lambda: getattr(nodes, name)(**given)
