"""The model card: what the nodes assume of a model when the user leaves a socket at zero.

Zero, or an empty text, means the model's own: this is the one place where it becomes a number. The stages ask here for
what they use, and so does whoever tells of a run before it.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Card:
    """Defaults of one model. A family fills it in; a file `latentloom.json` in the model's folder overrides it.

    Sizes are in pixels; `guidance` is the true, two-branch guidance scale (1 is off), `distilled_guidance` the number
    that guidance-distilled models such as FLUX.1-dev take as an input (0 where the model takes none).
    """

    name: str = ""
    about: str = ""
    licence: str = ""
    width: int = 1024
    height: int = 1024
    most_side: int = 0  # of the largest pictures that it is good for; 0 where nobody says
    frames: int = 1
    fps: float = 0.0
    steps: int = 28
    guidance: float = 1.0
    second_guidance: float = 0.0  # that of a second expert, as a share of the first's; 0 of a model without one
    distilled_guidance: float = 0.0
    text_length: int = 512  # tokens that a prompt is padded or cut to
    negative_prompt: str = ""

    def filled(self, **asked: Any) -> dict[str, Any]:
        """What is asked for, by the names of fields, and the model's own where that is 0 or ""."""
        return {name: value or getattr(self, name) for name, value in asked.items()}
