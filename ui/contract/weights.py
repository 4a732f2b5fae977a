"""What the page shows of the files that models are changed by: the LoRAs of this server, and which fit a model."""

from __future__ import annotations

from ...pipelines.models.loras.installed import Verdict
from .answer import Answer


class LoraRow(Answer):
    """One LoRA. What it tells of itself is anybody's: plain text of one line, cut."""

    id: str
    path: str
    """What Load LoRA takes."""
    name: str
    """The file's name without its ending."""
    folder: str
    """Where it lies in its folder of models; empty at the top."""
    bytes: int
    rank: int
    """That of most of its layers; 0 where it has none."""
    made_for: str
    """The model that it names; empty where it names none."""
    triggers: list[str]
    """Words that call it up in a prompt."""
    title: str
    author: str
    licence: str
    has_picture: bool
    verdict: Verdict
    """Whether it fits the model that was asked for: its layers do, what it says it is for does, nobody knows, or no."""
    why: str
    """Why it does not fit, or is refused whatever the model; empty where it may fit."""


class LorasView(Answer):
    """The LoRAs of this server, those first that fit."""

    loras: list[LoraRow]
    is_whole: bool
    """Whether all files were looked at: else there were too many for one look, and the next sees more."""
    problem: str
    """Why nobody can say which fit the model that was asked for; empty where they can, or none was."""
