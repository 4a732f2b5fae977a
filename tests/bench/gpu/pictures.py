"""Pictures of the built-in model, compared: the same seed in other number formats, and by whoever paints it."""

import time
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bench.gpu.measuring import Bench, head, reason, row

BOBBIN = "builtin:bobbin"
NEAR = 0.005  # in the mean of pixels, the most that bf16 may differ from fp32: another picture is 0.1 away


@dataclass(frozen=True)
class Painted:
    latents: Tensor
    pixels: Tensor
    seconds: float


def painted(model: Any, *, seed: int = 3, steps: int = 0) -> Painted:
    """From prompt to pixels; 0 steps are the model's own number."""
    from latentloom.nodes import decode, denoise, empty_latents, encode_text

    start = time.perf_counter()
    text = encode_text(model, "a red star left of a blue metal cube on grass")
    latents = denoise(model, text, empty_latents(model), seed=seed, **({"steps": steps} if steps else {}))
    pixels = decode(model, latents).pixels.float().cpu()
    return Painted(latents.tensor.float().cpu(), pixels, time.perf_counter() - start)


def noise(bench: Bench) -> bool:
    """One seed in other number formats, against fp32; False if one is another picture."""
    from latentloom.nodes import load_model

    def model(dtype: str, **options: str) -> Any:
        return load_model(BOBBIN, dtype=dtype, device=str(bench.device), **options)

    head("steps", "numbers", "mean difference of pixels to fp32", "")
    good = True
    for steps in (3,) if bench.is_tiny else (3, 16):
        wanted = painted(model("fp32"), steps=steps).pixels
        for title, dtype, options in (("bf16", "bf16", {}), ("int8", "bf16", {"quantization": "int8"})):
            try:
                off = float((painted(model(dtype, **options), steps=steps).pixels - wanted).abs().mean())
            except ValueError as error:  # torchao is not installed
                row(steps, title, "", reason(error))
                continue
            good = good and (off <= NEAR or title == "int8")
            row(steps, title, f"{off:.4f}", "" if off <= NEAR else "another picture")
    return good
