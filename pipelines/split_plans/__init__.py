"""How each transformer class of diffusers is split: literal data, one module per model line.

Importing this imports neither torch nor diffusers.
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
