"""The training scripts: a few steps of each, and going on after a stop."""

from pathlib import Path

import pytest
import torch

from latentloom.pipelines.bobbin import checkpoint, train_vae
from latentloom.pipelines.bobbin.architecture import build_vae
from latentloom.pipelines.bobbin.train import Training, train

# diffusers and torch remark on half precision and on mixed dtypes in layer norms; neither is news.
pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = Training(steps=5, batch=4, pool=8, pool_steps=2)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    vae = build_vae()
    vae.register_to_config(scaling_factor=1.0, shift_factor=0.0)
    vae.save_pretrained(tmp_path / "vae")
    return tmp_path


def final_state(scratch: Path, stops: list[int]) -> dict[str, dict[str, torch.Tensor]]:
    for index, last_step in enumerate(stops):
        assert train(SMALL, scratch, minutes=5, resume=index > 0, last_step=last_step) == last_step
    return checkpoint.load(scratch / "train_state.safetensors")[0]


def test_a_resumed_run_ends_in_the_state_of_an_uninterrupted_one(scratch: Path) -> None:
    whole, resumed = final_state(scratch, [3]), final_state(scratch, [1, 3])
    for group in ("learner", "ema", "optimizer"):
        assert whole[group].keys() == resumed[group].keys()
        assert all(torch.equal(value, resumed[group][name]) for name, value in whole[group].items()), group


def test_training_writes_a_pipeline_that_diffusers_loads(scratch: Path) -> None:
    from diffusers import FluxPipeline

    final_state(scratch, [1])
    pipeline = FluxPipeline.from_pretrained(scratch / "model", dtype=torch.float32, local_files_only=True)
    picture = pipeline("a red star", height=64, width=64, num_inference_steps=1, max_sequence_length=16).images[0]
    assert picture.size == (64, 64)


def test_autoencoder_training_resumes_and_finishes(tmp_path: Path) -> None:
    config = train_vae.VaeTraining(steps=2, batch=2)
    assert train_vae.train(config, tmp_path, minutes=5, resume=False, last_step=1) == 1
    assert not (tmp_path / "vae").exists()
    assert train_vae.train(config, tmp_path, minutes=5, resume=True) == 2
    assert (tmp_path / "vae" / "config.json").exists()


def test_a_checkpoint_is_replaced_in_one_move(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    for value in (1.0, 2.0):
        checkpoint.save(path, {"a": {"x.y": torch.tensor([value])}}, {"step": int(value)})
    groups, facts = checkpoint.load(path)
    assert groups["a"]["x.y"].item() == 2.0
    assert facts == {"step": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]
