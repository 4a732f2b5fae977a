"""A mask of the text that hides nothing is left out before the transformer is asked.

With any mask, one that hides nothing too, torch attends by a slower kernel. Decided once for a denoise, from the texts
alone: on one device as on several, and on all ranks alike.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

MASKS = ("prompt_embeds_mask", "negative_prompt_embeds_mask")


@contextlib.contextmanager
def unmasked(transformer: nn.Module, argument: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Within, the transformer is asked without `argument`, the mask of its text, if none of the texts given hides
    anything.

    By this thread only: another may share the transformer meanwhile, and have a text that is hidden in part.
    """
    masks = [given[name] for name in MASKS if given.get(name) is not None]
    if not argument or not all(bool(mask.bool().all()) for mask in masks):
        yield
        return

    own = threading.get_ident()

    def leave_out(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**kwargs, argument: None} if threading.get_ident() == own else kwargs

    hook = transformer.register_forward_pre_hook(leave_out, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        hook.remove()
