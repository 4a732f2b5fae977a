"""What processes of tests use of the libraries, and nothing of ours: imported once, by the server that forks them."""

import gc

import diffusers
import diffusers.models.autoencoders
import diffusers.models.transformers
import functorch.compile  # noqa: F401 - what compiles and attends by torch imports it
import torch._dynamo
import torch.distributed  # noqa: F401

# diffusers imports the pipeline of each, and the text encoders of it, when it is asked for by name.
FAMILIES = (
    *("AnyFlowFAR", "Chroma", "Flux2", "Flux", "Helios", "HunyuanVideo15", "LTX2"),
    *("QwenImage21", "QwenImage", "Sana", "SanaSprint", "StableDiffusion3", "Wan", "ZImage"),
)

for name in FAMILIES:
    getattr(diffusers, f"{name}Pipeline")

gc.freeze()  # no collection in a process that is forked goes through it, which would copy its pages
