"""A transformer of the studio's own."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEADS, WIDTH = 4, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)

    def forward(self, hidden_states: Tensor) -> Tensor:
        q, k, v = self.qkv(hidden_states).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4)  # B H S D each
        return hidden_states + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class LoomExampleTransformer(nn.Module):
    """B S C in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.proj_out = nn.Linear(HEADS * WIDTH, HEADS * WIDTH)

    def forward(self, hidden_states: Tensor) -> Tensor:
        for block in self.blocks:
            hidden_states = block(hidden_states=hidden_states)
        return self.proj_out(hidden_states)


def made() -> tuple[LoomExampleTransformer, Tensor]:
    """The same on every rank: the transformer, and tokens that two ranks cannot share evenly."""
    torch.manual_seed(0)
    return LoomExampleTransformer().eval(), torch.randn(1, 7, HEADS * WIDTH)
