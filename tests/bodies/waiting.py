"""A toy pipeline whose steps are scripts, spread over two groups of guidance: what values that wait must get right."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

import latentloom
from latentloom.pipelines.spreading.branches import KNOWN

STEPS = 4


class Transformer(nn.Module):
    """Rows are independent; a `cache` is a list that each call lengthens."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(3, 3)
        self.num_calls = 0
        self.largest_rows = 0

    def forward(
        self,
        hidden_states: Any,
        text: Any = 0.0,
        *,
        cache: Any = None,
        table: Any = None,
        other: Any = None,
        residuals: Any = None,
        layers: Any = None,
        gives_sound: bool = True,
    ) -> tuple[Any, ...]:
        """`residuals` are taken out of their list; `layers` are of a text encoder, in front of the rows."""
        self.num_calls += 1
        while residuals:
            hidden_states = hidden_states + residuals.pop()
        if layers is not None:
            hidden_states = hidden_states + layers.sum(0)
        self.largest_rows = max(self.largest_rows, len(hidden_states))
        if cache is not None:
            cache.calls.append(self.num_calls)
            text = text + len(cache.calls)
        if isinstance(hidden_states, list):
            texts = text if isinstance(text, list) else [text] * len(hidden_states)
            return ([self.inside(x + y) for x, y in zip(hidden_states, texts, strict=True)],)
        if isinstance(text, list):
            text = torch.tensor(text)[:, None]
        found = self.inside(hidden_states + text) + sum(each.sum() for each in (table, other) if each is not None)
        return (found,) if gives_sound else (found, None)


class Cache:
    """What a call changes, and torch knows nothing of."""

    def __init__(self) -> None:
        self.calls: list[int] = []


class Solver:
    def step(self, prediction: Tensor, latents: Tensor) -> Tensor:
        return latents - 0.1 * prediction


class Pipeline:
    """Calls a script in each step, and its solver with what that gives."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.transformer, self.scheduler = Transformer(), Solver()
        self.cache = Cache()
        self.shown: list[str] = []
        self.rank = 0

    @property
    def components(self) -> dict[str, Any]:
        return {"transformer": self.transformer, "scheduler": self.scheduler}

    def progress_bar(self, iterable: Any = None, total: Any = None) -> Any:
        return tqdm(iterable, total=total, disable=True)

    @torch.no_grad()
    def __call__(self, script: str, *, rows: int = 1, width: int = 3, guidance_scale: float = 2.0) -> Tensor:
        latents = torch.linspace(-1, 1, rows * width).view(rows, width)
        with self.progress_bar(total=STEPS) as bar:
            for step in range(STEPS):
                prediction = SCRIPTS[script](self, latents, step)
                latents = self.scheduler.step(prediction, latents)
                bar.update()
        return latents


def guided(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    positive = pipe.transformer(latents, 1.0)[0]
    negative = pipe.transformer(latents, -1.0)[0]
    return negative + 3.0 * (positive - negative)


def three_branches(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    return guided(pipe, latents, step) + pipe.transformer(latents, 0.5)[0]


def operand_changed(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """What the first branch was mixed with is overwritten before the second is asked."""
    noise = latents.clone()
    mixed = noise + pipe.transformer(latents, 1.0)[0]
    noise.zero_()
    return mixed - pipe.transformer(latents, -1.0)[0]


def branch_changed(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """A branch is changed in place after something was made of it, and through a view of it."""
    positive = pipe.transformer(latents, 1.0)[0]
    before, view = positive * 2, positive[:, :1]
    positive.add_(1.0)
    view.mul_(0.5)
    return before + positive - pipe.transformer(latents, -1.0)[0]


def looked_at(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    positive = pipe.transformer(latents, 1.0)[0]
    weight = positive.abs().max().item()
    return positive * weight - pipe.transformer(latents, -1.0)[0]


def pieces(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """An operation with several results waits too."""
    one, rest = pipe.transformer(latents, 1.0)[0].split([1, latents.shape[1] - 1], dim=1)
    negative = pipe.transformer(latents, -1.0)[0]
    return torch.cat([one.float(), rest * 2], dim=1) - negative


def window(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """Guidance in the steps in the middle only."""
    return guided(pipe, latents, step) if step in (1, 2) else pipe.transformer(latents, 1.0)[0]


def printed(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """One rank prints a branch while it waits, and one when it is there."""
    positive = pipe.transformer(latents, 1.0)[0]
    if pipe.rank == 1:
        pipe.shown.append(repr(positive))
    negative = pipe.transformer(latents, -1.0)[0]
    if pipe.rank == 0:
        pipe.shown.append(f"{positive}")
    return negative + 3.0 * (positive - negative)


def as_numpy(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    positive = pipe.transformer(latents, 1.0)[0]
    negative = pipe.transformer(latents, -1.0)[0]
    return negative + torch.from_numpy(positive.numpy()) + sum(positive.tolist()[0])


def with_cache(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    positive = pipe.transformer(latents, 1.0, cache=pipe.cache)[0]
    return positive - pipe.transformer(latents, -1.0, cache=pipe.cache)[0]


def doubled(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    both = torch.cat([latents] * 2)
    positive, negative = pipe.transformer(both, torch.tensor([[1.0], [-1.0]]).repeat_interleave(len(latents), 0))[
        0
    ].chunk(2)
    return negative + 3.0 * (positive - negative)


def listed(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """A list of rows in, and one out; a list of numbers beside it has as many entries."""
    found = pipe.transformer([*latents, *latents], [1.0] * len(latents) + [-1.0] * len(latents))[0]
    positive, negative = torch.stack(found).chunk(2)
    return negative + 3.0 * (positive - negative)


def table_as_long(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """A table with as many entries as rows is none of rows: all groups need it whole."""
    both = torch.cat([latents] * 2)
    found = pipe.transformer(both, 1.0, table=torch.arange(float(len(both))))[0]
    return found.chunk(2)[0]


def emptied(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """As many residuals as rows, in a list that the transformer empties."""
    both = torch.cat([latents] * 2)
    residuals = [both * scale for scale in (0.1, 0.2)[: len(both)]]
    positive, negative = pipe.transformer(both, 1.0, residuals=residuals)[0].chunk(2)
    return negative + 3.0 * positive


def behind_layers(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """Rows in the second dim."""
    both = torch.cat([latents] * 2)
    layers = torch.stack([both * scale for scale in (0.1, 0.2, 0.3)])
    return pipe.transformer(both, 1.0, layers=layers)[0].chunk(2)[0]


def mixed(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """Two tables: no way to cut leaves both whole."""
    both = torch.cat([latents] * 2)
    table = torch.arange(float(len(both)))
    return pipe.transformer(both, 1.0, table=table, other=2 * table)[0].chunk(2)[0]


def odd_rows(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    return pipe.transformer(torch.cat([latents] * 3), 1.0)[0].chunk(3)[0]


def one_branch(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    return pipe.transformer(latents, 1.0)[0]


def without_sound(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    positive, _ = pipe.transformer(latents, 1.0, gives_sound=False)
    return positive - pipe.transformer(latents, -1.0, gives_sound=False)[0]


def last_chunk(pipe: Pipeline, latents: Tensor, step: int) -> Tensor:
    """The last step is of fewer tokens, and its branches too."""
    if step == STEPS - 1:
        return torch.cat([guided(pipe, latents[:1], step), torch.zeros_like(latents[1:])])
    return guided(pipe, latents, step)


SCRIPTS: dict[str, Callable[[Pipeline, Tensor, int], Tensor]] = {
    each.__name__: each
    for each in (
        guided,
        three_branches,
        operand_changed,
        branch_changed,
        looked_at,
        pieces,
        window,
        printed,
        as_numpy,
        with_cache,
        doubled,
        listed,
        table_as_long,
        emptied,
        behind_layers,
        mixed,
        odd_rows,
        one_branch,
        without_sound,
        last_chunk,
    )
}


def compare(rank: int, script: str, rows: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Collective: runs of the script, one for each width, on this rank alone and with the other group."""
    torch.set_num_threads(1)
    KNOWN.clear()
    alone, pipe = Pipeline(), Pipeline()
    wanted = [alone(script, rows=rows + extra) for extra in sizes]
    pipe.rank = rank
    steps: list[int] = []
    handle = latentloom.spread(pipe, "cfg=2", on_step=lambda done, _: steps.append(done))  # a toy
    found, modes, calls, told = [], [], [], list[tuple[int, str]]()
    for extra in sizes:
        before = pipe.transformer.num_calls
        steps.clear()
        with _hearing(lambda message: told.append((len(steps), message))):
            found.append(pipe(script, rows=rows + extra))
        calls.append(pipe.transformer.num_calls - before)
        modes.append(handle.num_calls)
    handle.remove()
    return {
        "is_same": [torch.equal(one, other) for one, other in zip(found, wanted, strict=True)],
        "difference": max(float((one - other).abs().max()) for one, other in zip(found, wanted, strict=True)),
        "is_plain": all(type(each) is Tensor for each in found),
        "modes": modes,
        "calls": calls,
        "alone": alone.transformer.num_calls // len(sizes),
        "why": handle.why_whole(),
        "shown": pipe.shown,
        "told": told,
        "cache": pipe.cache.calls,
        "kind": type(pipe).__name__ + type(pipe.scheduler).__module__ + str(type(pipe) is Pipeline),
    }


@contextlib.contextmanager
def _hearing(tell: Callable[[str], None]) -> Iterator[None]:
    """What is logged within it."""
    handler = logging.Handler()
    handler.emit = lambda record: tell(record.getMessage())
    logging.getLogger("latentloom").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("latentloom").removeHandler(handler)
