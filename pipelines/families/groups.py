"""The blocks of one stage of a row: those of diffusers' modular pipeline, or of the row's own, without the others."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..signatures.table import blocks_of

if TYPE_CHECKING:
    from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks

    from .row import Row

TEXT = ("text_encoder",)
# Blocks that put other words for the prompt's are left out: what the user wrote is what the model reads.
WRITERS = ("prompt_enhancer", "prompt_upsample", "prompt_upsampler")


def blocks_for(row: Row, pipeline: str, stage: str, *, has_frame: bool) -> ModularPipelineBlocks:
    """With the branches of a first frame if there is one."""
    import diffusers

    if row.made_by:
        block = importlib.import_module(f"{__package__}.{row.made_by}").made()
    else:
        block = copy.deepcopy(blocks_of(getattr(diffusers, pipeline)))
    names = list(block.sub_blocks)
    cut = names.index("denoise")
    stages = {
        "text": [name for name in names[:cut] if name in TEXT],
        "image": [name for name in names[:cut] if name not in (*TEXT, *WRITERS)],
        "denoise": ["denoise"],
        "decode": names[cut + 1 :],
    }
    for name in set(names) - set(stages[stage]):
        del block.sub_blocks[name]
    for name, inner in list(block.sub_blocks.items()) if has_frame else ():
        known = (inner.sub_blocks[branch] for branch in row.frame_branches if branch in inner.sub_blocks)
        block.sub_blocks[name] = next(known, inner)
    if stage == "text":
        vars(block.sub_blocks["text_encoder"]).update(row.settings)
    return block


def leaf_of(block: ModularPipelineBlocks, outputs: Collection[str]) -> ModularPipelineBlocks:
    """The first of its blocks without others inside that makes one of these."""
    if not block.sub_blocks:
        return block
    makers = (each for each in block.sub_blocks.values() if {*outputs} & {*each.intermediate_output_names})
    return next(leaf_of(each, outputs) for each in makers)
