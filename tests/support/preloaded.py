"""What processes of tests use of the libraries, and nothing of ours: imported once, by the server that forks them."""

import gc

import diffusers
import diffusers.models.autoencoders
import diffusers.models.transformers
import functorch.compile  # noqa: F401 - what compiles and attends by torch imports it
import torch._dynamo
import torch.distributed  # noqa: F401

PIPELINES = (
    "AnyFlowFARPipeline",
    "ChromaPipeline",
    "Flux2Pipeline",
    "FluxPipeline",
    "HeliosPipeline",
    "HunyuanVideo15Pipeline",
    "LTX2Pipeline",
    "QwenImage21Pipeline",
    "QwenImagePipeline",
    "SanaPipeline",
    "SanaSprintPipeline",
    "StableDiffusion3Pipeline",
    "WanPipeline",
    "ZImagePipeline",
)
"""diffusers imports each, and the text encoders of it, when it is asked for by name."""

for name in PIPELINES:
    getattr(diffusers, name)

gc.freeze()  # no collection in a process that is forked goes through it, which would copy its pages
