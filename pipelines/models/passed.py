"""How many of a block's weights a token passes, by the names that diffusers gives them.

Matrices that tokens of the text pass are called `add_q_proj`, `txt_mlp` or `ff_context`, those that keys and values of
cross attention pass `attn2.to_k`; modulations are passed by one vector a step. All others every token passes.
"""

import re
from collections.abc import Mapping

# Passed by one vector a step, or by none.
ONCE = re.compile(
    r"(?:^|[._])(?:norm\w*|mod|modulation|adaln|ada_ln\w*|scale_shift_table|time\w*|embed\w*)(?=[._])", re.I
)
OF_TEXT = re.compile(r"(?:^|[._])(?:context|txt|add)(?=[._])")
OF_VIDEO = "_moe_gen"  # of Cosmos 3, whose language model has the plain names, and the video those and `add_q_proj`
OF_CONTEXT = re.compile(r"attn2\.(?:to_)?[kv](?:_proj)?\.")


def passed_by(matrices: Mapping[str, int]) -> tuple[int, int, int]:
    """How many of a block's weights a token of the image, of the text, and of cross attention's text passes.

    `matrices` are the block's, each with how many numbers it holds.
    """
    sizes = {name: size for name, size in matrices.items() if not ONCE.search(name)}
    if any(OF_VIDEO in name for name in sizes):
        of_video = sum(size for name, size in sizes.items() if OF_VIDEO in name or OF_TEXT.search(name))
        return of_video, sum(sizes.values()) - of_video, 0
    of_text = sum(size for name, size in sizes.items() if OF_TEXT.search(name))
    of_context = sum(size for name, size in sizes.items() if OF_CONTEXT.search(name))
    rest = sum(sizes.values()) - of_text - of_context
    return rest, of_text or rest, of_context  # without weights of its own, text passes those of the image
