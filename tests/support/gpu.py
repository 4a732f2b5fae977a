"""The device of the tests that are marked `gpu`: a GPU, or what stands for one where there is none.

A test that is marked `gpu(or_cpu="always")` runs on a CPU too, where it compares a CPU with itself, so that it does not
rot while nobody has a GPU. One that takes long there is marked "asked", and runs there by `GPU=cpu pytest -m gpu`.
"""

import os

import torch

ASKED = os.environ.get("GPU", "")
GPU = ASKED or ("cuda:0" if torch.cuda.is_available() else "cpu")
DEVICE = torch.device(GPU)


def fits(or_cpu: str) -> bool:
    """Whether a test that is so marked runs here."""
    return DEVICE.type != "cpu" or or_cpu == "always" or (or_cpu == "asked" and ASKED == "cpu")
