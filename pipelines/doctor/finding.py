"""A finding of `latentloom doctor`: one thing that was looked at, how it is, and how to mend it."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`problem`: something that latentloom is asked to do here will fail; `warning`: it may, or will be slow."""

    check: str
    says: str
    state: State = "ok"
    mend: str = ""

    def __post_init__(self) -> None:
        assert self.state == "ok" or self.mend, f"{self.check}: say how to mend it"
