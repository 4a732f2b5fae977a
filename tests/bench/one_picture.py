"""Print how long the built-in model takes for one picture at its own settings, on two threads, parts loaded.

python tests/bench/one_picture.py
"""

import statistics
import time

import torch

from latentloom.nodes import decode, denoise, empty_latents, encode_text, load_model

RUNS = 7


def seconds(seed: int) -> float:
    start = time.perf_counter()
    model = load_model("builtin:bobbin")
    decode(model, denoise(model, encode_text(model, "a red star"), empty_latents(model), seed=seed))
    return time.perf_counter() - start


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(f"first, loading included: {seconds(0):.2f} s")
    print(f"then, median of {RUNS}: {statistics.median(seconds(seed) for seed in range(1, RUNS + 1)):.2f} s")
