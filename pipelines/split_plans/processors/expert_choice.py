"""Experts that choose their tokens, over sharded tokens: the choice is made among all, the work where the tokens are.

Expert choice is Zhou et al., 2022, arXiv:2202.09368; the layer is Nucleus-Image's.
"""

# B batch, E experts, S tokens of all ranks, T tokens here, C channels, N pairs of an expert and a token here

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....parallel.sharding.operator import in_no_graph
from ....parallel.sharding.split_plan import image
from . import StandIn


class ExpertChoice(StandIn):
    """In place of the forward of `NucleusMoELayer`: one gather of B E T scores a call."""

    @in_no_graph
    def __call__(
        self, hidden_states: Tensor, hidden_states_unmodulated: Tensor, timestep: Tensor | None = None
    ) -> Tensor:
        layer = self.old
        affinity = self._affinity(hidden_states_unmodulated, timestep)  # B E T
        chosen = self._chosen(affinity)
        weights = affinity.masked_fill(~chosen, 0)
        weights = weights / (weights.sum(1, keepdim=True) + 1e-12) * layer.route_scale
        experts, rows = chosen.transpose(0, 1).flatten(1).nonzero(as_tuple=True)  # N, by expert; rows of B T
        routed = layer.experts(hidden_states.flatten(0, 1)[rows], experts.bincount(minlength=layer.num_experts))
        routed = routed.float() * weights.transpose(0, 1).flatten(1)[experts, rows][:, None]
        out = layer.shared_expert(hidden_states).flatten(0, 1)
        return out.index_add(0, rows, routed.to(out.dtype)).view_as(hidden_states)

    def _affinity(self, unmodulated: Tensor, timestep: Tensor | None) -> Tensor:
        """How much each expert wants each token that is here."""
        if timestep is not None:
            unmodulated = torch.cat([timestep[:, None].expand(-1, unmodulated.shape[1], -1), unmodulated], 2)
        logits = self.old.gate(unmodulated)
        scores = logits.float().sigmoid() if self.old.use_sigmoid else F.softmax(logits.float(), dim=-1)
        return scores.to(logits.dtype).transpose(1, 2)

    def _chosen(self, affinity: Tensor) -> Tensor:
        """Collective: which of the tokens here are among those that each expert wants most of all tokens."""
        everyone = self.session.gather(affinity, 2, "image")  # B E S
        capacity = max(1, math.ceil(self.old.capacity_factor * everyone.shape[2] / self.old.num_experts))
        chosen = torch.zeros_like(everyone, dtype=torch.bool)
        chosen.scatter_(2, everyone.topk(capacity, dim=2).indices, True)
        return self.session.cut(chosen, image(2), what="the experts' choice")


def choose_among_all(layer: Any, session: Any) -> Any:
    """An expert layer's forward for sharded tokens; that of other layers stays."""
    return ExpertChoice(layer, session) if hasattr(layer, "experts") else layer.forward
