"""Attention processors and layers that stand in for those of diffusers where tokens are spread.

What asks the session is `in_no_graph` of a compiled block, which would keep the lengths and shares of one forward.

expert_choice: Experts that choose their tokens, over sharded tokens: the choice is made among all, the work where the
    tokens are.
flux2_reference: Attention of FLUX.2 with reference pictures whose keys and values are kept after the first step,
    sharded.
fused_attention: Attention through torch's fused call, for models that spell it out in matrix products and so hide it
    from us.
gated_delta: SANA-WM's gated delta attention over frames that are spread over ranks.
kept_keys: Keys and values that a pipeline keeps for later forwards: whole on every rank, around the model's own
    processors.
linear_attention: Linear attention over sharded tokens: its states are sums over tokens, so the ranks add theirs up.
nabla: Block-sparse attention of Kandinsky over a sharded sequence: local queries against gathered keys and values.
qwen_image21: Attention of Qwen-Image 2.1 over a sharded sequence: its order in time is one mask, and what it keeps is
    whole.
wan_attention: Processors of the Wan family, for attention that is no plain call or whose keys are kept between
    forwards.
"""

import importlib
from collections.abc import Callable
from typing import Any


class StandIn:
    """What is asked in the place of `old`, an attention processor or a layer, while its transformer is sharded."""

    def __init__(self, old: Any, session: Any) -> None:
        self.old, self.session = old, session


def stand_in(name: str) -> Callable[..., Any]:
    """What calls `module.function` here. Its module, which imports torch or diffusers, is imported when it does: a
    split plan is data."""
    module, _, function = name.partition(".")

    def make(*given: Any) -> Any:
        return getattr(importlib.import_module(f".{module}", __name__), function)(*given)

    return make
