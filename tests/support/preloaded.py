"""What ranks of tests use of the libraries and of the checkout; the fork server imports it once, no rank does again."""

import importlib

import diffusers
import torch.distributed  # noqa: F401

import support.checkout  # noqa: F401

OURS = (
    "latentloom.pipelines.stages",
    "latentloom.pipelines.components.adapting",
    "support.cells",
    *(f"bodies.{name}" for name in ("cache", "compiled", "guided", "spreading", "vae")),
)
PIPELINES = (
    "ChromaPipeline",
    "Flux2Pipeline",
    "FluxPipeline",
    "HeliosPipeline",
    "HunyuanVideo15Pipeline",
    "LTX2Pipeline",
    "QwenImage21Pipeline",
    "SanaPipeline",
    "SanaSprintPipeline",
    "WanPipeline",
    "ZImagePipeline",
)
"""Those of test_spread.py: diffusers imports each, and the text encoders of it, when it is asked for by name."""

for name in OURS:
    importlib.import_module(name)
for name in PIPELINES:
    getattr(diffusers, name)
