"""Ranks that share one GPU, which the product refuses: NCCL allows it from 2.30 on, asked by its own variable."""

import os

from latentloom.parallel.machine import machine

ASKED = "NCCL_MULTI_RANK_GPU_ENABLE"


def allow_sharing() -> None:
    """Let one device be named for several ranks, where NCCL was asked to take that."""
    if os.environ.get(ASKED) == "1":
        machine._check_once = lambda text, devices: None
