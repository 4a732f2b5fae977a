"""What a run tells, remembered, and how often it asks a transformer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import Progress, RankWork


class Told(Progress):
    """Remembers phases and steps, makes every preview, and cancels after a step if told to."""

    def __init__(self, *, cancel_after: int = 0) -> None:
        self.phases: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self.previews: list[torch.Tensor] = []
        self.known: list[str] = []  # what checks of plans found
        self.cancel_after = cancel_after

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.phases.append(text)

    def step(self, done: int, total: int, preview: Callable[[], torch.Tensor] | None = None) -> None:
        self.steps.append((done, total))
        if preview is not None:
            self.previews.append(preview())
        if done == self.cancel_after:
            raise Cancelled

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self.known += [work.known for work in ranks]


@contextmanager
def counted_calls(model: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """How often each transformer of the model is asked."""
    from latentloom.pipelines.components.store import store
    from latentloom.pipelines.values import Model, from_plain

    calls: dict[str, int] = {}
    parts = store().load(from_plain(Model, model), ("transformer", "transformer_2?"))

    def counter(name: str) -> Callable[..., None]:
        return lambda *_: calls.update({name: calls.get(name, 0) + 1})

    hooks = [part.register_forward_pre_hook(counter(name)) for name, part in parts.items()]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
