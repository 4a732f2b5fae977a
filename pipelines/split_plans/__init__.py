"""How each transformer class of diffusers is split: literal data, one module per model line.

Importing this imports neither torch nor diffusers.

allegro: Split plan of Allegro.
anyflow: Split plans of AnyFlow, a Wan whose every frame goes from one timestep to another, and of its causal form.
audio: Split plans of audio transformers: latents in time, text by cross attention if any.
auraflow: Split plan of AuraFlow, whose text starts with eight learned tokens.
bria: Split plans of Bria's models: the first two are built like FLUX, Fibo 2 has one sequence.
cogvideox: Split plans of CogVideoX and ConsisID: text before video in the joint sequence, rotary positions for video
    alone.
cogview: Split plans of CogView3-Plus and CogView4: text before image in the joint sequence.
cosmos: Split plans of Cosmos and of Cosmos 3, whose text sees only itself.
dreamlite: Split plan of DreamLite's attention stage: picture tokens, and text by cross attention.
easyanimate: Split plan of EasyAnimate: text before video in the joint sequence, rotary positions for video alone.
ernie_image: Split plan of ERNIE-Image: image and text are one sequence before the first block, with tokens in front
    of batch.
flux: Split plans of FLUX and of the models built like it: text and image in two streams, then in one.
glm_image: Split plan of GLM-Image: text before image in the joint sequence, and pictures to edit kept as keys and
    values.
helios: Split plan of Helios: a chunk of video behind its history, in one sequence.
hidream: Split plan of HiDream: each block brings its own layer of the text encoder's tokens, behind those that go
    through.
hunyuan: Split plans of Tencent's Hunyuan models: HunyuanVideo and what grew from it, HunyuanImage and HunyuanDiT.
ideogram4: Split plan of Ideogram 4: text and image are one sequence.
joy_image: Split plans of JoyImage-Edit and JoyImage-Edit-Plus: pictures before text in the joint sequence.
kandinsky: Split plans of Kandinsky 5 and 6 and of Kandinsky 6 super-resolution: text joins by cross attention.
krea2: Split plan of Krea 2: text and image are one sequence.
latte: Split plan of Latte: frames are items of the batch in one block, patches are in the next; patches are spread.
ltx: Split plans of LTX, of LTX-2 with its sound, and of the SANA-WM refiner, which is LTX-2 without it.
lumina: Split plans of Lumina: Lumina-Next reads text by cross attention, Lumina 2 has it in the sequence.
minimax: Split plan of MiniMax-H3: text, video and audio are one packed sequence before the first block.
mochi: Split plan of Mochi, which attends item by item of a batch to the valid tokens of its text.
motif: Split plan of Motif-Video: joint blocks of video and text, then blocks that decode from the video alone.
nucleus: Split plan of Nucleus-Image: picture tokens attend to themselves and the text, and experts choose picture
    tokens.
omnigen: Split plan of OmniGen: text, input pictures, a time token and the picture are one sequence.
others: Split plans of what fits no family, and the transformers that are no denoiser of a picture, video or sound.
pixart: Split plans of PixArt, DiT and the general 2D transformer: picture tokens, and text by cross attention if any.
prx: Split plan of PRX: picture tokens attend to the text and to themselves in one call; the text never changes.
qwen_image: Split plans of Qwen-Image: the first with two streams, 2.1 with one, in which words and pictures follow in
    time.
sana: Split plans of Sana: linear attention summed over the ranks, and convolutions that see a neighbour's edge.
sd3: Split plan of Stable Diffusion 3 and 3.5.
wan: Split plans of Wan and of the models grown from it: ChronoEdit, SkyReels-V2, VACE and Animate.
z_image: Split plan of Z-Image: picture, text and SigLIP features become one sequence after the picture's refiner.
processors/: Attention processors and layers that stand in for those of diffusers where tokens are spread.
"""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan
from . import (
    allegro,
    anyflow,
    audio,
    auraflow,
    bria,
    cogvideox,
    cogview,
    cosmos,
    dreamlite,
    easyanimate,
    ernie_image,
    flux,
    glm_image,
    helios,
    hidream,
    hunyuan,
    ideogram4,
    joy_image,
    kandinsky,
    krea2,
    latte,
    ltx,
    lumina,
    minimax,
    mochi,
    motif,
    nucleus,
    omnigen,
    others,
    pixart,
    prx,
    qwen_image,
    sana,
    sd3,
    wan,
    z_image,
)

SPLIT_PLANS: dict[str, SplitPlan] = {
    **allegro.PLANS,
    **anyflow.PLANS,
    **audio.PLANS,
    **auraflow.PLANS,
    **bria.PLANS,
    **cogvideox.PLANS,
    **cogview.PLANS,
    **cosmos.PLANS,
    **dreamlite.PLANS,
    **easyanimate.PLANS,
    **ernie_image.PLANS,
    **flux.PLANS,
    **glm_image.PLANS,
    **helios.PLANS,
    **hidream.PLANS,
    **hunyuan.PLANS,
    **ideogram4.PLANS,
    **joy_image.PLANS,
    **kandinsky.PLANS,
    **krea2.PLANS,
    **latte.PLANS,
    **ltx.PLANS,
    **lumina.PLANS,
    **minimax.PLANS,
    **mochi.PLANS,
    **motif.PLANS,
    **nucleus.PLANS,
    **omnigen.PLANS,
    **others.PLANS,
    **pixart.PLANS,
    **prx.PLANS,
    **qwen_image.PLANS,
    **sana.PLANS,
    **sd3.PLANS,
    **wan.PLANS,
    **z_image.PLANS,
}
"""By class name."""

REFUSED: dict[str, str] = {
    **audio.REFUSED,
    **others.REFUSED,
}
"""Class name to the reason why it runs on one device only."""
