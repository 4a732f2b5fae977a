"""The tiny models of these tests as plain data, the stages over them, and the stock pipelines to compare with."""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model(tiny: Callable[[str], Path]) -> Callable[..., dict[str, Any]]:
    """`model(family)` describes that tiny model as the plain data that a stage takes."""
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import to_plain

    return lambda family, **options: to_plain(describe_model(str(tiny(family)), device="cpu", **options))


@pytest.fixture(scope="session")
def stock(tiny: Callable[[str], Path]) -> Callable[..., Any]:
    """`stock(family)` is diffusers' own pipeline over that tiny model; `stock(family, kind)` another of its classes."""
    import diffusers

    @functools.cache
    def pipeline(family: str, kind: str = "") -> Any:
        if not kind:
            made = diffusers.DiffusionPipeline.from_pretrained(tiny(family), dtype=torch.float32)
        else:
            made = getattr(diffusers, kind)(**pipeline(family).components)
        made.set_progress_bar_config(disable=True)
        return made

    return pipeline


@pytest.fixture(scope="session")
def canvas() -> Callable[..., dict[str, Any]]:
    """`canvas(family, batch=2)` is an empty canvas of 64 x 64 as plain data."""
    from latentloom.pipelines.values import Latents, to_plain

    size = {"width": 64, "height": 64}
    return lambda family, **options: to_plain(Latents(**{"family": family, **size, **options}))


@pytest.fixture(scope="session")
def paint() -> Callable[..., Any]:
    """`paint(model, canvas, **request)` encodes "a red circle" and denoises."""
    from latentloom.parallel.progress import SILENT
    from latentloom.pipelines import stages

    def run(model: Mapping[str, Any], canvas: Any, *, progress: Any = SILENT, **request: Any) -> Any:
        text = {"model": model, "prompt": "a red circle", "negative_prompt": "blue", "text_length": 64}
        request = {"seed": 5, "steps": 3, "guidance": 1.0, "sampling": {}, **request}
        conditioning = stages.encode_text(text)
        return stages.denoise({**request, "model": model, "conditioning": conditioning, "latents": canvas}, progress)

    return run


@pytest.fixture(scope="session")
def picture() -> torch.Tensor:
    """A picture 1 64 64 3 of a gradient with a red box."""
    pixels = torch.linspace(0, 1, 64).repeat(64, 1)[None, :, :, None].repeat(1, 1, 1, 3)
    pixels[:, 16:40, 20:50] = torch.tensor([0.9, 0.2, 0.1])
    return pixels


@pytest.fixture(scope="session")
def pair() -> Iterator[Any]:
    """Two warm ranks, for what takes all ranks there are."""
    from support.ranks import Ranks

    with Ranks(2) as pair:
        yield pair


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`saved(name)` is the folder of that pipeline of the zoo; do not change what is in it."""
    root = tmp_path_factory.mktemp("saved")

    def folder(name: str) -> Path:
        if not (root / name).exists():
            from zoo.pipelines import tiny_of
            from zoo.pipelines.tiny import build, save

            save(build(tiny_of(name)), root / name)
        return root / name

    return folder


@pytest.fixture
def resettable_peak() -> None:
    """Skips where the system does not let a process count its most memory anew."""
    from latentloom.parallel.progress import RESET

    try:
        RESET.write_text("5")
    except OSError as error:
        pytest.skip(f"{RESET} cannot be written here ({error.strerror})")
