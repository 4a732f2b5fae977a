"""The shapes in which every transformer class is tried, and what its builders share."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """A grid of tokens `rows` x `columns` (x `frames`), a text, and how many heads look at them."""

    name: str
    rows: int = 4
    columns: int = 4
    frames: int = 1
    text: int = 8
    heads: int = 4
    masked: bool = False  # some text tokens of each picture are padding, all but two of the last
    batch: int = 1
    layers: int = 2
    padded: int = 1  # of a masked batch, the tokens of padding in the first row

    @property
    def tokens(self) -> int:
        return self.rows * self.columns * self.frames


# So few tokens in a frame that some ranks may hold none: right, or refused by name.
FEW = (
    Case("few1", rows=1, columns=1),
    Case("few2", rows=1, columns=2),
    Case("few3", rows=3, columns=1),
    Case("few1_masked", rows=1, columns=1, masked=True, batch=2),
    Case("few2_masked", rows=1, columns=2, masked=True, batch=2),
)
# Texts of which keys are left out: of a batch those behind its longest prompt, and all but two of one prompt.
PADDED = (
    Case("padded", masked=True, rows=3, columns=5, text=21, batch=2, padded=9),
    Case("padded_alone", masked=True, rows=3, columns=5, text=11),
)
SKIPPED = Case("skipped", layers=3, rows=3, columns=5, text=7)  # of three blocks each one is left out in turn
CASES = {
    case.name: case
    for case in (
        Case("even"),
        Case("batch2", batch=2),
        Case("odd_image", rows=3, columns=5),
        Case("odd_text", text=7),
        Case("both_odd", rows=3, columns=5, text=7),
        Case("heads3", heads=3),
        Case("masked", masked=True, batch=2),
        Case("masked_odd", masked=True, batch=2, rows=3, columns=5, text=7),
        *FEW,
        *PADDED,
        SKIPPED,
    )
}

# Model class, config, inputs of its forward (without return_dict).
Built = tuple[type, Mapping[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class Variant:
    """One way in which a class is used; `masks`: its forward takes a mask of text tokens, so masked cases differ."""

    build: Callable[[Case], Built]
    masks: bool = False


def variants_of(module: ModuleType) -> dict[str, Variant]:
    """Of each function of a module that builds one, which are all but those that begin with `_`. The module's
    `UNMASKED` are the names of those whose forward takes no mask."""
    made = {name: each for name, each in vars(module).items() if inspect.isfunction(each) and name[0] != "_"}
    unmasked = module.UNMASKED.split()
    return {
        name: Variant(each, masks=name not in unmasked)
        for name, each in made.items()
        if each.__module__ == module.__name__
    }


def varied(
    build: Callable[[Case], Built], inputs: Callable[[Case], dict[str, Any]] = lambda _: {}, **config: Any
) -> Callable[[Case], Built]:
    """What `build` makes, with these inputs and config too."""

    def made(case: Case) -> Built:
        model, sizes, given = build(case)
        return model, {**sizes, **config}, {**given, **inputs(case)}

    made.__module__ = build.__module__
    return made


def blocks(case: Case, head: int, *, channels: int | None = None) -> dict[str, int]:
    """What most configs have: layers, heads of that width, and where both are the same, channels in and out."""
    sizes = {"num_layers": case.layers, "num_attention_heads": case.heads, "attention_head_dim": head}
    return sizes if channels is None else {**sizes, "in_channels": channels, "out_channels": channels}


def words(case: Case, width: int, timestep: float) -> dict[str, Tensor]:
    """What most forwards are given: the text, so wide, and how far the picture is."""
    return {
        "encoder_hidden_states": noise(case.batch, case.text, width),
        "timestep": torch.full((case.batch,), timestep),
    }


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def text_mask(case: Case, dtype: torch.dtype = torch.bool) -> Tensor:
    """B x text: all ones, or for a masked case two valid tokens in the last row and some padded in the first."""
    mask = torch.ones(case.batch, case.text, dtype=torch.bool)
    if case.masked:
        mask[-1, 2:] = False
        if case.batch > 1:
            mask[0, case.text - case.padded :] = False
    return mask.to(dtype)


def grid_ids(case: Case, axes: int = 3) -> tuple[Tensor, Tensor]:
    """Positions of FLUX-like models: image tokens x axes, text tokens x axes."""
    image = torch.zeros(case.rows, case.columns, axes)
    image[..., 1] = torch.arange(case.rows)[:, None]
    image[..., 2] = torch.arange(case.columns)[None, :]
    return image.reshape(-1, axes), torch.zeros(case.text, axes)


def tiny_transformer(build: Callable[[Case], Built], *, heads: int = 3, **changes: Any) -> Any:
    """The model alone, two layers of each kind, for a pipeline that is written beside its class's builder."""
    model, config, _ = build(Case("tiny", heads=heads))
    return model(**{**config, **changes})


def with_kept(model: type, kept: Callable[[Any], list[Tensor]]) -> type:
    """`model`, giving back what it left in `kv_cache` too; under its own name, by which split plans are found."""
    run: Callable[..., Any] = getattr(model, "forward")  # noqa: B009 (a bare type has none to a type checker)

    @functools.wraps(run)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *args, **kwargs), kept(kwargs["kv_cache"])

    return type(model.__name__, (model,), {"forward": forward})
