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
SHOWN = ("before_encode", *TEXT)  # where the text encoder looks at pictures that another block prepares
# Blocks that put other words for the prompt's are left out: what the user wrote is what the model reads.
WRITERS = ("prompt_enhancer", "prompt_upsample", "prompt_upsampler")


def blocks_for(row: Row, pipeline: str, stage: str, *, branches: tuple[str, ...]) -> ModularPipelineBlocks:
    """Of those with others inside only these branches."""
    import diffusers

    if row.made_by:
        block = importlib.import_module(f"{__package__}.{row.made_by}").made()
    else:
        block = copy.deepcopy(blocks_of(getattr(diffusers, pipeline)))
    names = list(block.sub_blocks)
    cut, looks = names.index("denoise"), branches and branches == row.reference_branches
    stages = {
        "text": [name for name in names[:cut] if name in (SHOWN if looks else TEXT)],
        "image": [name for name in names[:cut] if name not in (*TEXT, *WRITERS)],
        "denoise": ["denoise"],
        "decode": names[cut + 1 :],
    }
    for name in set(names) - set(stages[stage]):
        del block.sub_blocks[name]
    for name, own in list(block.sub_blocks.items()):
        block.sub_blocks[name] = next((own.sub_blocks[each] for each in branches if each in own.sub_blocks), own)
    if stage == "text":
        vars(block.sub_blocks["text_encoder"]).update(row.settings)
    return block


def leaf_of(block: ModularPipelineBlocks, outputs: Collection[str]) -> ModularPipelineBlocks:
    """The first of its blocks without others inside that makes one of these."""
    if not block.sub_blocks:
        return block
    makers = (each for each in block.sub_blocks.values() if {*outputs} & {*each.intermediate_output_names})
    return next(leaf_of(each, outputs) for each in makers)
