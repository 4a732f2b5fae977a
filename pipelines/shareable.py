"""Which models ranks can hold between them; known without torch, so that a plan is refused before a load."""

from __future__ import annotations

from ..parallel.plan import ParallelPlan
from .source import split_source
from .values import Model


def check_shareable(model: Model, plan: ParallelPlan) -> None:
    """Refuse by name what cannot be read in shares."""
    changes = (
        (f"quantization {model.quantization}", model.quantization != "none"),
        ("LoRAs", bool(model.loras)),
        ("compiled blocks", model.compiled),
        ("a single-file checkpoint", bool(split_source(model.source)[0])),
    )
    if found := [what for what, is_there in changes if is_there]:
        raise ValueError(
            f"plan {plan}: ranks that share weights read the files of a model folder as they are, and this model has "
            f"{' and '.join(found)}; use weights=1, or load the model without"
        )
