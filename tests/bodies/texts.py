"""What a rank does to test where text encoders work."""

from collections.abc import Mapping
from typing import Any

import torch

from bodies.resting import resting
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import store


def encoded(model: Mapping[str, Any]) -> list[torch.Tensor]:
    """All that a text and its negative become."""
    text = {
        "prompt": "a red circle",
        "negative_prompt": "blue",
        "text_length": 0 if model["family"] == "minimax_h3" else 33,
    }
    found = stages.encode_text({"model": model, **text})
    return [*found.positive.values(), *(found.negative or {}).values()]


def compare(rank: int, model: Mapping[str, Any], other: Mapping[str, Any]) -> list[bool]:
    """Whether the other model's texts have this one's bits: as they are, with half of the blocks there, with none; and
    that what is there of the other is on the CPU."""
    store().clear()
    wanted, found = encoded(model), list[bool]()
    store().clear()
    found.append(all(map(torch.equal, encoded(other), wanted)))
    for share in (0.5, 0.0):
        with resting(share):
            found += [all(map(torch.equal, encoded(other), wanted)) for _ in range(2)]
            assert any(entry.resting for entry in store()._entries.values())
            assert {each.device for each in store().held()} == {"cpu"}
    store().clear()
    return found
