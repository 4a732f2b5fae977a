"""FLUX.1 (dev, schnell, and the built-in bobbin): pictures from text or from a picture.

Its own guidance is distilled into an input of the transformer; true guidance with a negative prompt is ours on top.
"""

from .by_blocks import ByBlocks
from .family import Card
from .row import Row, Variant

DEV_LICENCE = "FLUX.1 [dev] Non-Commercial License"
DEV = Card(name="FLUX.1 dev", licence=DEV_LICENCE, steps=28, distilled_guidance=3.5, text_length=512)
SCHNELL = Card(name="FLUX.1 schnell", licence="Apache-2.0", steps=4, text_length=256)

FLUX = Row(
    name="flux",
    title="FLUX.1",
    pipelines=("FluxPipeline", "FluxImg2ImgPipeline"),
    reads_modular=False,
    variants=(
        Variant(DEV, "FluxModularPipeline", {"transformer.guidance_embeds": True}),
        Variant(SCHNELL, "FluxModularPipeline"),
    ),
    longest_text=512,
    text=("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
    made_by="flux_denoiser",
    takes_image="start",
    takes_mask=True,
    draws_picture=True,
    distilled="guidance_scale",
)

# Under these names outsiders find them, as in any family's module.
MODULE = ByBlocks(FLUX)
FAMILY = MODULE.FAMILY
encode_text, encode_image = MODULE.encode_text, MODULE.encode_image
denoise, decode = MODULE.denoise, MODULE.decode
