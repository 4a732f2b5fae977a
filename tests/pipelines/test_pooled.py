"""`latentloom.Pool(...).spread(...)`: a folder's pipeline on ranks that this process starts."""

import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline

import latentloom
from latentloom.parallel.errors import Cancelled
from latentloom.pipelines.whole.assembled import load_pipeline
from zoo.pipelines import tiny_of
from zoo.pipelines.tiny import build, picture


@pytest.fixture(scope="module")
def pool(warm_pools: None) -> Iterator[Any]:
    with latentloom.Pool("cpu*2") as pool:
        yield pool


def called(name: str) -> dict[str, Any]:
    return {**tiny_of(name).call(), "generator": torch.Generator().manual_seed(0), "output_type": "np"}


@pytest.mark.parametrize("name", [pytest.param("LTX2Pipeline:2.0", marks=pytest.mark.by_hand), "FluxFillPipeline"])
def test_ranks_that_load_by_themselves_make_what_one_process_makes(pool: Any, saved: Any, name: str) -> None:
    alone = DiffusionPipeline.from_pretrained(saved(name))(**called(name))
    steps: list[tuple[int, int]] = []
    found = pool.spread(saved(name))(**called(name), on_step=lambda done, total: steps.append((done, total)))
    told = vars(found)
    assert told.pop("sampling_rate", 0) == (16000 if "audio" in told else 0)
    assert steps[-1][0] == steps[-1][1] == 4 and told.keys() == dict(alone).keys()
    for key, value in alone.items():
        assert np.abs(np.asarray(getattr(found, key)) - np.asarray(value)).max() <= 1e-4


def test_guidance_is_shared_out_by_a_plan_and_pictures_come_back_as_pictures(pool: Any, saved: Any) -> None:
    name = "FluxImg2ImgPipeline"
    given = {**called(name), "image": picture(80, 48), "output_type": "pil"}
    alone = build(tiny_of(name))(**given)
    given["generator"] = torch.Generator().manual_seed(0)
    found = pool.spread(saved(name), "cfg=2")(**given)
    one, other = (np.asarray(each.images[0], dtype=int) for each in (alone, found))
    assert np.abs(one - other).max() <= 1


def test_a_run_is_cancelled_and_the_next_one_works(pool: Any, saved: Any) -> None:
    name = "FluxFillPipeline"
    pipe = pool.spread(saved(name))
    with pytest.raises(Cancelled):
        pipe(**called(name), on_step=lambda done, total: pipe.cancel())
    given = called(name)
    assert len(pipe(given.pop("prompt"), **given).images) == 1  # first, as stock pipelines take it


class Asked(threading.Event):
    """A wish that tells when its call has begun to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def is_set(self) -> bool:
        self.begun.set()
        return super().is_set()


@pytest.mark.parametrize("is_of_one", [True, False])
def test_a_cancel_is_not_taken_back_by_a_call_that_begins_after_it(pool: Any, saved: Any, is_of_one: bool) -> None:
    name = "FluxFillPipeline"
    pipe = pool.spread(saved(name))
    wish, later = threading.Event(), Asked()
    with ThreadPoolExecutor(1) as threads:
        found: list[Future[Any]] = []

        def on_step(done: int, total: int) -> None:
            if not found:
                wish.set() if is_of_one else pipe.cancel()
                found.append(threads.submit(pipe, **called(name), cancel=later))
                assert later.begun.wait(60)

        with pytest.raises(Cancelled):
            pipe(**called(name), on_step=on_step, cancel=wish)
        assert len(found) == 1 and len(found[0].result(60).images) == 1


def test_a_cancel_before_its_call_is_not_lost(pool: Any, saved: Any) -> None:
    name = "FluxFillPipeline"
    pipe, wish = pool.spread(saved(name)), threading.Event()
    wish.set()
    with pytest.raises(Cancelled):
        pipe(**called(name), cancel=wish)
    assert len(pipe(**called(name)).images) == 1


def test_what_a_pipeline_or_a_pool_cannot_take_is_one_sentence(pool: Any, saved: Any) -> None:
    name = "FluxFillPipeline"
    pipe = pool.spread(saved(name))
    with pytest.raises(ValueError, match="unexpected keyword argument 'colour'"):
        pipe(**called(name), colour="red")
    with pytest.raises(ValueError, match="a object cannot be given to ranks; give texts"):
        pipe(**called(name), callback_on_step_end=object())
    with pytest.raises(ValueError, match="plan ulysses=4 uses 4 ranks, but the pool has 2 devices"):
        pool.spread(saved(name), "ulysses=4")
    with pytest.raises(ValueError, match="does not exist"):
        pool.spread("no/such/folder")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"_class_name": "FluxFilPipeline"}, "has no pipeline 'FluxFilPipeline'; did you mean FluxFillPipeline"),
        ({"_class_name": "DiffusionPipeline"}, "has no pipeline 'DiffusionPipeline'"),
        ({"vae": ["os", "System"]}, "component vae comes from 'os', which would run code of the model's own"),
        ({"vae": ["ltx2", "LTX2TextConnectors"]}, "component vae"),
        ({"vae": ["flux", "FluxPipeline"]}, "diffusers-FluxPipeline|has no model class FluxPipeline that works here"),
        ({"vae": None}, "lacks vae, which FluxFillPipeline needs; copy or pull it again"),
    ],
)
def test_folders_that_are_no_pipeline_of_diffusers_are_refused(
    saved: Any, tmp_path: Path, entry: dict[str, Any], words: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved("FluxFillPipeline"), folder)
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, **entry}))
    with pytest.raises(ValueError, match=words):
        load_pipeline(str(folder), dtype="fp32")
