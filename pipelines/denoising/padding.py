"""Padding of a text, and a mask that hides nothing: left out before the transformer is asked.

What a mask hides still costs time in every layer; and with any mask, one that hides nothing too, torch attends by a
slower kernel. Decided once for a denoise, from the texts alone: on one device as on several, and on all ranks alike.
"""

# B rows, S tokens of the text, C channels

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..families.row import Padding

TOKENS, MASK = "prompt_embeds", "prompt_embeds_mask"


def without_padding(texts: Sequence[Mapping[str, Tensor]], padding: Padding) -> list[Mapping[str, Tensor]]:
    """Texts, tokens B S ... C and mask B S, without tokens that every row of each hides, where the model allows that.

    They stay as long as each other, as some blocks want them; of other lengths they are left as they are, and so is a
    text of which a row hides all.
    """
    import torch

    masks = [text[MASK].bool() for text in texts if MASK in text]
    if padding == "kept" or len(masks) < len(texts) or len({mask.shape[1] for mask in masks}) != 1:
        return list(texts)
    rows = torch.cat(masks)
    if not rows.any(1).all():
        return list(texts)
    shown = rows.any(0).nonzero().flatten()  # in order
    kept = slice(int(shown[-1]) + 1) if padding == "end" else shown
    return [{**text, TOKENS: text[TOKENS][:, kept], MASK: text[MASK][:, kept]} for text in texts]


@contextlib.contextmanager
def unmasked(transformer: nn.Module, argument: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Within, the transformer is asked without `argument`, the mask of its text, if none of the texts given hides
    anything.
    """
    masks = [given[name] for name in (MASK, f"negative_{MASK}") if given.get(name) is not None]
    if not argument or not all(bool(mask.bool().all()) for mask in masks):
        yield
        return

    def leave_out(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**kwargs, argument: None}

    hook = transformer.register_forward_pre_hook(leave_out, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        hook.remove()
