"""The step border: where running work reports progress and learns that it was cancelled.

A *border* is the moment between two steps. Work of any length calls its `Progress` there, in this process or in a rank;
a cancel is heard there, and nowhere else, so that nothing is left half done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Basis = Literal["", "model", "machine"]
# Makes a small picture of the latents, uint8 H W 3; called only when somebody is watching.
Preview = Callable[[], "Tensor"]


# What stands below the fields of the next four is what the page's contract says of them: as comments it would be lost.


@dataclass(frozen=True, kw_only=True)
class RankWork:
    """What one rank did in one stage, or this process where it works alone."""

    rank: int
    """The rank's number among those that work together, or could."""
    device: str
    title: str = ""
    """What the device is, such as the GPU's name."""
    machine: str = ""
    """The name of its machine; of one in a cluster, the cluster's name for it."""
    seconds: float
    sent_bytes: int = 0
    exchanges: int = 0
    """Collective calls, as the algorithm sees them."""
    peak_memory_bytes: int = 0
    """The most memory in use, of the accelerator or else of the process; loading counts, and what was done beside the
    stage."""
    idle_bytes: int = 0
    """Of it, what the process had before its first stage: Python and libraries. 0 on an accelerator."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a prediction is for, as runs of this machine are compared by it later: no prompt, no path."""

    machine: str
    """A name of its devices and of the rates that they are predicted by."""
    model: str
    class_name: str
    """Of its transformer."""
    fingerprint: str
    dtype: str
    quantization: str
    engine: str
    width: int
    height: int
    frames: int
    batch: int
    text_tokens: int
    """Padding included."""


@dataclass(frozen=True, kw_only=True)
class Factors:
    """By what the seconds of a prediction were multiplied, as earlier runs taught."""

    step: float = 1.0
    text: float = 1.0
    decode: float = 1.0
    num_runs: int = 0
    """From which this is known."""
    basis: Basis = ""
    """Whether they were runs of the same class of model and dtype, or of any on this machine."""


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What a run is predicted to take by a plan, in seconds with warm ranks, before it begins."""

    plan: str
    why: str
    """Why this plan, in plain words."""
    machine: str
    is_measured: bool
    """Whether this machine's own measurements are under it, or data sheets."""
    is_assumed: bool = False
    """Whether its speed is only assumed: predictions learn from such seconds, and they are told to nobody."""
    steps: int
    step_s: float
    text_s: float
    decode_s: float
    load_s: float
    """Before the first, to read the weights."""
    num_bytes: int
    """On the device that holds most."""
    context_bytes: int = 0
    """Of them, what an accelerator's context and libraries take, which no run's measurement counts."""
    rejected: Sequence[tuple[str, float, str]] = ()
    """Other plans, the seconds of one of their steps, and why not."""
    factors: Factors = Factors()
    """Those that are in these seconds already."""
    setting: Setting | None = None
    """Without one nothing is learned from the run."""

    @property
    def seconds(self) -> float:
        """Of text, steps and decoding."""
        return self.text_s + self.steps * self.step_s + self.decode_s


class Progress:
    """What work calls between its steps, and what its caller learns by; this one is silent.

    `phase`, `step` and `check` may raise `Cancelled`, and nothing else.
    """

    owner: str = ""  # whose work it is: in a queue, owners take turns
    keeper: str = ""  # for whom this process keeps what may be asked for again: nobody finds what others keep
    wants_previews: bool = False
    rank: int = 0  # who works, where one rank does the job alone: its number among those that could have

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        """A part of the work begins, such as "loading transformer"; it has no steps of its own.

        The text is for people. What `is_loading` waits for a disk, not for other ranks, and is worth waiting for.
        """

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        """`done` of `total` steps are finished."""

    def check(self) -> None:
        """Nothing new; raises `Cancelled` if the work should end. Called often by whoever waits for ranks."""

    def foresee(self, foreseen: Foreseen) -> None:
        """What the denoise that begins, and the run around it, are predicted to take."""

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        """How the work is spread over ranks: the plan alone when it begins, and what each did once it is done.

        Of one that worked alone the plan is empty.
        """


SILENT = Progress()  # the progress of a call made by hand: nobody watches and nobody cancels
