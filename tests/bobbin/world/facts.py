"""What every cell of a picture shows, as the renderer knows it: a second thing to learn, beside the picture itself.

Telling networks what they see makes them learn to draw it in far fewer pictures: latents that say plainly what they
show are easier to learn (Yao et al. 2025, arXiv:2501.01423), and so is a transformer whose middle layers must say it
(Yu et al. 2024, arXiv:2410.06940). Those papers ask a vision model what a picture shows; we know.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .scene import COLOURS, MATERIALS, RELATIONS, SHAPES, SIZES, Scene, Thing

# B pictures, H W cells, N rows, C features

CELL = 8  # pixels per side: a cell is one latent
VALUES = (tuple(COLOURS), SHAPES, MATERIALS, tuple(SIZES))
# How many answers each question has; the first, 0, is "nothing stands here".
COUNTS = tuple(len(values) + 1 for values in VALUES)
UNCLEAR = -100  # of a cell on an outline; what torch's cross entropy leaves out
SLOTS = 3
# How many values each fact has that a caption tells of one thing, and of how it stands to the second.
NAMED = (*COUNTS, len(RELATIONS) + 1)


def cells(scenes: Sequence[Scene], owner: Tensor) -> Tensor:
    """Colour, shape, material and size in the middle of every cell, B 4 H W; `owner` as the renderer tells it."""
    table = torch.zeros(len(scenes), SLOTS + 2, 4, dtype=torch.long)  # last rows: -2 outline, -1 nothing
    table[:, -2] = UNCLEAR
    for row, scene in zip(table, scenes, strict=True):
        for slot, thing in enumerate(scene.things):
            row[slot] = torch.tensor(_numbers(thing))
    middle = owner[:, CELL // 2 :: CELL, CELL // 2 :: CELL].cpu()  # B H W
    picture = torch.arange(len(scenes))[:, None, None]
    return table[picture, middle].permute(0, 3, 1, 2)


def slots(scenes: Sequence[Scene]) -> Tensor:
    """Colour, shape, material, size and relation of each thing as a caption states it, B SLOTS 5.

    0 is no thing at all, and UNCLEAR what the caption leaves open.
    """
    table = torch.zeros(len(scenes), SLOTS, len(NAMED), dtype=torch.long)
    relations = tuple(RELATIONS)
    for row, scene in zip(table, scenes, strict=True):
        for slot, thing in enumerate(scene.things):
            relation = scene.relations[slot // 2] if slot != 1 and scene.relations else ""
            row[slot] = torch.tensor([*_numbers(thing), relations.index(relation) + 1 if relation else 0])
    return table


def _numbers(thing: Thing) -> list[int]:
    """The answers to the questions of VALUES; UNCLEAR where the thing leaves one open."""
    facts = (thing.colour, thing.shape, thing.material, thing.size)
    return [values.index(fact) + 1 if fact else UNCLEAR for values, fact in zip(VALUES, facts, strict=True)]


class Reader(nn.Module):
    """Answers several questions about each row of features; thrown away after training."""

    def __init__(self, width: int, counts: Sequence[int]) -> None:
        super().__init__()
        self.counts = tuple(counts)
        self.answer = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, sum(self.counts)))

    def loss(self, features: Tensor, facts: Tensor) -> Tensor:
        """Cross entropy of N C features against N questions, the mean of all questions; what is UNCLEAR is left out."""
        answers = self.answer(features.float()).split(self.counts, dim=-1)
        sums = [F.cross_entropy(a, fact, reduction="sum") for a, fact in zip(answers, facts.unbind(-1), strict=True)]
        known = (facts != UNCLEAR).sum(0).clamp(min=1)
        return (torch.stack(sums) / known).mean()


class CaptionReader(nn.Module):
    """Says what both text encoders have understood of a caption, thing by thing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.asked = nn.Parameter(torch.randn(SLOTS, width) * width**-0.5)
        self.look = nn.MultiheadAttention(width, 4, batch_first=True)
        self.spread = nn.Linear(width, SLOTS * width)
        self.of_tokens, self.of_pooled = Reader(width, NAMED), Reader(width, NAMED)

    def loss(self, states: Tensor, pooled: Tensor, facts: Tensor) -> Tensor:
        """The mean over `states` (B S C, one row a token) and `pooled` (B C); `facts` as `slots` gives them."""
        asked = self.asked.expand(len(states), -1, -1)
        seen = self.look(asked, states.float(), states.float(), need_weights=False)[0]  # B SLOTS C
        spread = self.spread(pooled.float()).unflatten(-1, (SLOTS, -1))
        known = facts.flatten(0, 1)
        return self.of_tokens.loss(seen.flatten(0, 1), known) + self.of_pooled.loss(spread.flatten(0, 1), known)
