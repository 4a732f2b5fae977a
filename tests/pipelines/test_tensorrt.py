"""Torch-TensorRT as an engine, by a stand-in for it: engines know no rank and no plan, and are refused by name."""

import importlib.util
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from latentloom.pipelines import stages
from latentloom.pipelines.components import tensorrt
from latentloom.pipelines.components.store import store
from latentloom.pipelines.models.describe import check_engine, describe_model
from latentloom.pipelines.values import Latents, to_plain
from support.tensorrt_stand_in import stand_in

TOLERANCE = 1e-5  # of the largest output, fp32


@pytest.mark.by_hand
def test_engines_of_one_plan_serve_every_other(ranks: Any, tmp_path: Path) -> None:
    plans = ("ulysses=2", "ring=2")
    first, other = (ranks.run("bodies.engines:built", "flux", plan, str(tmp_path))[:2] for plan in plans)
    assert max(each["apart"] for each in (*first, *other)) <= TOLERANCE
    assert first[0]["engines"] == [2, 2], "of a kind of block one before the attention and one behind it"
    assert first[0]["left"] == {"latentloom.attend.default": 2}
    assert first[0]["keys"] == other[0]["keys"] != [] and other[0]["built"] == 0


@pytest.mark.usefixtures("_on_a_cpu")
def test_a_denoise_by_engines_is_near_the_eager_one(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    model = describe_model(str(tiny("flux")), device="cpu")
    conditioning = stages.encode_text({"model": to_plain(model), "prompt": "a red circle"})
    latents = to_plain(Latents(family="flux", width=64, height=64))
    store().clear()

    def painted(engine: str) -> Tensor:
        given = {"model": {**to_plain(model), "engine": engine}, "conditioning": conditioning, "latents": latents}
        found = stages.denoise({**given, "seed": 5, "steps": 2}).tensor
        assert found is not None
        return found

    wanted = painted("eager")
    with stand_in(tmp_path) as found:
        got = painted("tensorrt")
        store().clear()
    assert (got - wanted).abs().max() <= TOLERANCE * wanted.abs().max()
    assert min(found.engines) == 2 and found.left.keys() == {"aten._scaled_dot_product_flash_attention_for_cpu.default"}


@pytest.fixture
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.components.store.check_engine", lambda *_, **__: None)


def test_a_tiny_block_is_built_and_compared_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in(tmp_path) as found:
        tensorrt.check_built("cpu")
        assert found.engines == [2]
        tensorrt.check_built("cpu")
        assert found.engines == [2], "once"

    def refused(backend: Callable[..., Any]) -> str:
        with stand_in(tmp_path), monkeypatch.context() as patched:
            patched.setattr(tensorrt, "backend", backend)
            with pytest.raises(
                ValueError, match=r"engine tensorrt cannot work on cpu: .*; choose engine inductor"
            ) as told:
                tensorrt.check_built("cpu")
        return str(told.value)

    def no_library(graph: fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("Could not find libnvinfer.so.11")

    assert "could not be built (RuntimeError: Could not find libnvinfer.so.11)" in refused(no_library)
    assert "off by" in refused(lambda graph, _: lambda *given: tuple(2 * x for x in graph(*given)))
    assert "left a tiny block to torch whole" in refused(lambda graph, _: graph.forward)


@pytest.mark.parametrize(
    ("given", "is_there", "words"),
    [
        ({"device": "cpu"}, True, "needs a GPU of CUDA, and the device is cpu; choose engine inductor"),
        ({"device": "cuda:0", "quantization": "int8"}, True, "takes no weights of quantization int8"),
        ({"device": "cuda:0"}, False, "needs Torch-TensorRT and it was not found; run `pip install torch-tensorrt`"),
    ],
)
def test_what_tensorrt_lacks_is_told_without_importing_it(
    given: dict[str, Any], is_there: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if is_there else None)
    with pytest.raises(ValueError, match=f"engine tensorrt {words}"):
        check_engine("tensorrt", **given)


class Scaled(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = torch.tensor(factor)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def key_of(engines: tensorrt.Engines, module: torch.nn.Module, shape: str = "2 3") -> str:
    return engines.get_hash(fx.symbolic_trace(module), [shape], "settings")


def test_kept_engines_are_found_by_all_that_they_are_made_of(tmp_path: Path) -> None:
    engines = tensorrt.Engines(tmp_path)
    key = key_of(engines, Scaled(2))
    assert key == key_of(engines, Scaled(2)) and engines.check(key) is None
    assert len({key, key_of(engines, Scaled(3)), key_of(engines, Scaled(2), "2 4")}) == 3
    entry = (b"\n{an engine}\n", ["a", "b"], ["c"], ["2 3"], "settings", True, False)
    engines.insert(key, entry)
    [file] = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and engines.check(key) == entry


@pytest.mark.parametrize("damage", ["cut", "other", "empty", "sends", "link"])
def test_a_damaged_engine_counts_as_absent(damage: str, tmp_path: Path) -> None:
    engines = tensorrt.Engines(tmp_path)
    key = key_of(engines, Scaled(2))
    engines.insert(key, (b"engine", [], [], ["2 3"], "settings", False, damage == "sends"))
    file = tmp_path / f"{key}.engine"
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[:-1], "other": whole[:-1] + b"E", "empty": b""}.get(damage, whole))
    if damage == "link":
        file.unlink()
        file.mkdir()
    assert engines.check(key) is None
