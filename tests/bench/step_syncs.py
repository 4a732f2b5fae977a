"""Where a step of a denoise waits for the device, for every family, and the table of it in `pipelines/README.md`.

    python tests/bench/step_syncs.py                   # two minutes, 3 GB, no GPU: writes the table
    python tests/bench/step_syncs.py flux wan+cfg=2    # tells of these, writes nothing

Tiny random models, 4 steps, on a GPU that is none: its tensors say that they are on `cuda:0`. What is counted is what
the steps after the first wait for, with the innermost line of ours or else of diffusers.
"""

import functools
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import support.checkout  # noqa: F401 (makes the checkout importable)

README = Path(__file__).resolve().parents[2] / "pipelines" / "README.md"
BEGIN, END = "<!-- step syncs -->", "<!-- /step syncs -->"
STEPS, GUIDANCE = 4, 4.0
BY_HAND = ("flux", "flux_schnell", "qwen_image", "sd3", "wan", "wan_i2v", "wan22", "wan22_i2v")
MASKED = ("flux", "qwen_image", "sd3")
SOLVERS = ("euler", "heun", "unipc", "dpm++2m")
PLANS = ("ulysses=2", "ring=2", "allgather=2", "cfg=2")
PLANNED = ("flux", "wan", "qwen_image", "sd3")
LEVELS_OF_ITS_OWN = ("qwen_image_21_turbo",)
# A tiny model's name, what makes the request of its description, and a plan or none.
Case = tuple[str, Callable[[Mapping[str, Any]], Mapping[str, Any]], str]


def main(names: list[str]) -> None:
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain
    from support.step_waits import denoised, later
    from support.tiny_models import write_tiny
    from support.tiny_rows import small_references

    found: dict[str, dict[str, float]] = {}
    known = cases()
    with small_references(), tempfile.TemporaryDirectory() as root:
        for name in names or known:
            tiny, request_of, plan = known[name]
            folder = Path(root) / tiny
            folder = folder if folder.exists() else write_tiny(tiny, folder)
            steps, _ = denoised(request_of(to_plain(describe_model(str(folder), device="cpu"))), plan)
            found[name] = {place: count / (len(steps) - 1) for place, count in by_place(later(steps)).items()}
            print(f"{name:32} {sum(found[name].values()):4.1f} {told(found[name])}", flush=True)
    if not names:
        from bench.support_table import with_table

        README.write_text(with_table(README.read_text(), table(found), begin=BEGIN, end=END))


def cases() -> dict[str, Case]:
    """By name: every model, with a mask, with pictures, with another solver, under a plan."""
    from support.tiny_rows import EDITS, TINY_ROWS

    found: dict[str, Case] = {
        name: (name, functools.partial(by_hand, has_frame=name.endswith("i2v")), "") for name in BY_HAND
    }
    for name in MASKED:
        found[f"{name}+mask"] = name, inpainted, ""
    for name, row in TINY_ROWS.items():
        found[name] = name, of_row(row, name), ""
    for name, row in EDITS.items():
        found[f"{name}+pictures"] = name, of_row(row, name), ""
    for solver in SOLVERS:
        found[f"flux+{solver}"] = "flux", functools.partial(solved, solver=solver), ""
    for name in PLANNED:
        for plan in PLANS:
            found[f"{name}+{plan}"] = name, by_hand, plan
    return found


def by_hand(model: Mapping[str, Any], *, has_frame: bool = False) -> dict[str, Any]:
    from latentloom.pipelines import stages
    from latentloom.pipelines.values import Image, Latents, to_plain

    text = {"model": model, "prompt": "a red circle", "negative_prompt": "blue", "text_length": 64}
    frames = 5 if model["family"] == "wan" else 1
    canvas = Latents(family=model["family"], width=64, height=64, frames=frames)
    if has_frame:
        canvas = stages.encode_image(model=model, image=Image(pixels=picture()), frames=frames)
    return {
        "model": model,
        "conditioning": to_plain(stages.encode_text(text)),
        "latents": to_plain(canvas),
        "seed": 1,
        "steps": STEPS,
        "guidance": GUIDANCE,
    }


def solved(model: Mapping[str, Any], *, solver: str) -> dict[str, Any]:
    return {**by_hand(model), "sampling": {"scheduler": solver}}


def inpainted(model: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from latentloom.pipelines import stages
    from latentloom.pipelines.values import Image, Mask, to_plain

    start = to_plain(stages.encode_image(model=model, image=Image(pixels=picture()), seed=1))
    mask = torch.zeros(1, 64, 64)
    mask[:, 12:45, 20:51] = 1
    return {**by_hand(model), "latents": start, "mask": to_plain(Mask(pixels=mask)), "strength": 1.0}


def of_row(row: Any, name: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    from support.tiny_rows import request_of

    longer = row if name in LEVELS_OF_ITS_OWN else replace(row, steps=STEPS)
    return lambda model: request_of(dict(model), longer)


def picture() -> Any:
    """Grey, 1 H W C."""
    import torch

    return torch.full((1, 64, 64, 3), 0.5)


def by_place(waits: Mapping[tuple[str, str], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, place), count in waits.items():
        found[place] += count
    return found


def told(places: Mapping[str, float]) -> str:
    """The places, a file once with all its lines."""
    lines: dict[str, list[int]] = defaultdict(list)
    for place in places:
        file, _, line = place.rpartition(":")
        lines[file].append(int(line or 0))
    return "; ".join(f"{file}:{', '.join(map(str, sorted(numbers)))}" for file, numbers in sorted(lines.items()))


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """A row for each case in which something waits, and one for all others."""
    import diffusers

    quiet = [name for name, places in found.items() if not places]
    rows = [
        f"| {name} | {sum(places.values()):g} | `{told(places).replace('; ', '`, `')}` |"
        for name, places in found.items()
        if places
    ]
    return "\n".join(
        [
            f"| model | waits in a later step | where (diffusers {diffusers.__version__}) |",
            "| --- | --- | --- |",
            f"| {', '.join(quiet)} | 0 | |",
            *rows,
        ]
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(sys.argv[1:])
