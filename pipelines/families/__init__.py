"""The families of models: literal data, most of them rows. Importing this imports neither torch nor diffusers.

by_blocks: The stage functions of a family that is a row: groups of its blocks, run one after the other.
cosmos_blocks: Cosmos 3's blocks, with a denoiser through a guider, and pixels of several videos at once.
family: What a model family is: data that says which folders it reads and what it needs, and four stage functions.
flux: FLUX.1 (dev, schnell, and the built-in bobbin): pictures from text or from a picture.
flux_denoiser: FLUX's denoiser through a guider: modular FLUX has none, and so knows no negative prompt.
groups: The blocks of one stage of a row.
hunyuan_blocks: HunyuanVideo 1.5's blocks from a first frame.
ltx_blocks: What LTX-2's blocks want that no other row's do.
minimax: Reference pictures as MiniMax H3's blocks take them: objects of diffusers', of a kind each.
row: A family as a row of data, and what its blocks take and give: made of what our values hold, checked, and back.
rows: The families that are rows.
starts: Pictures that denoising starts from, as diffusers' blocks take them: opaque, as a video of one frame, as layers.
wan: Wan 2.1 and 2.2: videos from text, or from text and a first frame; 2.2 has two experts, for high and low noise.
wan_blocks: Wan's denoiser for one transformer or two experts, and what a model that continues a picture is told of it.
"""

from typing import cast

from ...parallel.errors import did_you_mean
from . import wan
from .by_blocks import ByBlocks
from .family import Family, FamilyModule
from .rows import ROWS

MODULES: dict[str, FamilyModule] = {name: ByBlocks(row) for name, row in ROWS.items()}
MODULES["wan"] = cast(FamilyModule, wan)
FAMILIES: dict[str, Family] = {
    **{name: ROWS[name].family for name in ("flux", "qwen_image", "sd3")},  # the order in which sentences list them
    "wan": wan.FAMILY,
    **{name: row.family for name, row in ROWS.items()},
}

# (module, origin) of families from outside, which `doors.py` adds to both tables.
OUTSIDE: dict[str, tuple[FamilyModule, str]] = {}


def family_module(name: str) -> FamilyModule:
    """The module with a family's stage functions."""
    if name not in FAMILIES:
        raise ValueError(f"there is no family {name!r}; {did_you_mean(name, FAMILIES)}Families: {', '.join(FAMILIES)}")
    return OUTSIDE[name][0] if name in OUTSIDE else MODULES[name]
