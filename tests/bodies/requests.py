"""A denoise's request; and what is counted of one, here and in a rank: how often it is made, read and written."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import placement, requests, stages, values

COUNTED = {
    requests.Request.__post_init__.__code__: lambda names: f"made {type(names['self']).__name__}",
    values.from_plain.__code__: lambda names: f"read {names['kind'].__name__}",
    values.to_plain.__code__: lambda names: f"written {type(names['value']).__name__}",
    ParallelPlan.parse.__func__.__code__: lambda names: "parsed a plan",
}
VALUES = ("Model", "Conditioning", "Latents", "Sampling", "ParallelPlan", "Denoise")


def request_of(
    model: Mapping[str, Any], *, width: int = 48, height: int = 64, text_length: int = 33, **options: Any
) -> dict[str, Any]:
    """Two steps of a denoise without guidance, unless told otherwise."""
    family = str(model["family"])
    text = {"model": model, "prompt": "a red circle", "negative_prompt": "blue", "text_length": text_length}
    frames = options.pop("frames", 5 if family == "wan" else 1)
    canvas = values.Latents(family=family, width=width, height=height, frames=frames)
    return {
        "model": model,
        "conditioning": stages.encode_text(text),
        "latents": values.to_plain(canvas),
        "seed": 5,
        "steps": 2,
        "guidance": 1.0,
        **options,
    }


def counted(run: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """What it gives, and how often this thread made, read, wrote or parsed a request or a value of one meanwhile."""
    counts: Counter[str] = Counter()

    def look(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and (word := COUNTED.get(frame.f_code)):
            counts[word(frame.f_locals)] += 1

    sys.setprofile(look)
    try:
        found = run()
    finally:
        sys.setprofile(None)
    return found, {name: count for name, count in counts.items() if name.endswith((*VALUES, "plan"))}


def on_rank(request: Mapping[str, Any], progress: Any, seat: Any) -> dict[str, Any]:
    """As `placement.on_rank`, and what was counted."""
    answer, counts = counted(lambda: placement.on_rank(request, progress, seat))
    return {"answer": answer, "counts": counts}
