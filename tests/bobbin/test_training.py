"""The training scripts: a few steps of each, and going on after a stop."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bobbin import make
from bobbin.command import Stretch
from bobbin.network import checkpoint
from bobbin.network.tokenizers import build_clip_tokenizer, build_t5_tokenizer
from bobbin.pools import Pools
from bobbin.train import PRESETS, Training, learning_rate, train
from bobbin.train_vae import PRESETS as VAE_PRESETS
from bobbin.train_vae import VaeTraining, train_vae
from bobbin.world.wording import TEXT_LENGTH, vocabulary

# diffusers and torch remark on half precision and on mixed dtypes in layer norms; neither is news.
pytestmark = [pytest.mark.by_hand, pytest.mark.filterwarnings("ignore")]
SMALL = replace(
    PRESETS["cpu"],
    **{"steps": 4, "batch": 4, "pool": 4, "pool_life": 2, "reading_steps": 1, "is_compiled": False},
    sizes=((64, 64), (64, 96)),
)
SMALL_VAE = replace(
    VAE_PRESETS["cpu"], steps=2, polish_steps=1, batch=2, pool=2, sizes=((64, 64),), crop=32, crop_steps=1
)


@pytest.fixture(scope="module")
def vae_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vae")
    assert train_vae(SMALL_VAE, out, Stretch(minutes=5, resume=False, last_step=1)) == 1
    assert not (out / "vae").exists()
    assert train_vae(SMALL_VAE, out, Stretch(minutes=5, resume=True)) == 3
    return out


def test_only_the_decoder_learns_at_the_end(tmp_path: Path) -> None:
    states = []
    for last_step in (2, 3):
        train_vae(SMALL_VAE, tmp_path, Stretch(minutes=5, resume=True, last_step=last_step))
        states.append(checkpoint.load(tmp_path / "train_vae_state.safetensors")[0]["vae"])
    moved = {name for name, value in states[0].items() if not torch.equal(value, states[1][name])}
    assert moved and all(name.startswith("decoder.") for name in moved)


@pytest.fixture
def scratch(vae_run: Path, tmp_path: Path) -> Path:
    for name in ("vae", "train_vae_state.safetensors"):
        (tmp_path / name).symlink_to(vae_run / name)
    return tmp_path


def final_state(scratch: Path, stops: list[int]) -> dict[str, dict[str, torch.Tensor]]:
    for index, last_step in enumerate(stops):
        assert train(SMALL, scratch, Stretch(minutes=5, resume=index > 0, last_step=last_step)) == last_step
    return checkpoint.load(scratch / "train_state.safetensors")[0]


def test_a_resumed_run_ends_in_the_state_of_an_uninterrupted_one(scratch: Path) -> None:
    whole, resumed = final_state(scratch, [4]), final_state(scratch, [2, 4])
    for group in ("learner", "ema", "muon", "adamw"):
        assert whole[group].keys() == resumed[group].keys()
        assert all(torch.equal(value, resumed[group][name]) for name, value in whole[group].items()), group


def test_a_stretch_without_minutes_only_writes_the_model(scratch: Path) -> None:
    final_state(scratch, [1])
    before = (scratch / "train_state.safetensors").read_bytes()
    assert train(SMALL, scratch, Stretch(minutes=0, resume=True)) == 1
    assert (scratch / "train_state.safetensors").read_bytes() == before


def test_no_model_is_written_before_there_was_a_step(scratch: Path) -> None:
    assert train(SMALL, scratch, Stretch(minutes=0, resume=True)) == 0
    assert not (scratch / "model").exists()


@pytest.fixture(scope="module")
def model(vae_run: Path) -> Path:
    train(SMALL, vae_run, Stretch(minutes=5, resume=False, last_step=1))
    return vae_run / "model"


def test_training_writes_a_pipeline_that_diffusers_loads(model: Path) -> None:
    from diffusers import FluxPipeline

    pipeline = FluxPipeline.from_pretrained(model, dtype=torch.float32, local_files_only=True)
    request = {"height": 64, "width": 96, "num_inference_steps": 1, "max_sequence_length": TEXT_LENGTH}
    assert pipeline("a red star", **request).images[0].size == (96, 64)


def test_the_model_draws_through_the_stages_at_its_own_size(model: Path) -> None:
    from bobbin.drawing import Settings, draw

    settings = Settings(model=model, steps=1)
    first, again, other = draw(["a red star"] * 3, seeds=[1, 1, 2], settings=settings)
    assert first.shape == (128, 128, 3)
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_the_model_is_small_enough_to_ship(model: Path) -> None:
    sizes = [path.stat().st_size for path in model.rglob("*") if path.is_file()]
    assert sum(sizes) <= 16 * 2**20


def test_the_models_tokenizers_read_as_the_trained_ones(model: Path) -> None:
    for folder, build in (("tokenizer", build_clip_tokenizer), ("tokenizer_2", build_t5_tokenizer)):
        built = build(vocabulary())
        saved = type(built).from_pretrained(model / folder, local_files_only=True)
        for text in ("A red cube behind a blue ball, drawn by somebody else.", "", "an orange heart to the left of"):
            assert saved(text).input_ids == built(text).input_ids


def test_the_card_records_how_every_weight_file_was_made(model: Path) -> None:
    made = {entry["file"]: entry for entry in json.loads((model / "latentloom.json").read_text())["made_by"]}
    assert set(made) == {path.relative_to(model).as_posix() for path in model.rglob("*.safetensors")}
    assert {entry["steps"] for entry in made.values()} == {1, 3}


def test_what_was_trained_does_not_depend_on_the_length_of_the_schedule_until_the_end() -> None:
    short, long = replace(PRESETS["gpu"], steps=10000), replace(PRESETS["gpu"], steps=20000)
    assert all(learning_rate(short, step) == learning_rate(long, step) for step in range(0, 6000, 100))
    assert learning_rate(short, 9999) < 0.02 * short.learning_rate


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_presets_train_sizes_and_lengths_that_the_model_takes(preset: Training) -> None:
    assert all(side % 16 == 0 and 64 <= side <= 160 for size in preset.sizes for side in size)
    assert max(preset.text_lengths) >= TEXT_LENGTH
    assert preset.curriculum[0][0] == 0


def test_autoencoder_presets_are_named_as_the_others() -> None:
    assert VAE_PRESETS.keys() == PRESETS.keys()
    assert all(isinstance(preset, VaeTraining) for preset in VAE_PRESETS.values())


def test_pools_are_renewed_in_turn_and_the_same_after_a_stop() -> None:
    def pools() -> Pools[float]:
        return Pools(lambda size, rng, step: rng.random(), sizes=((64, 64), (96, 96)), life=4, seed=0)

    whole = pools()
    seen = [whole.at(step) for step in range(40)]
    assert [pools().at(step) for step in range(40)] == seen
    assert 10 <= len(set(seen)) <= 22


def test_one_command_makes_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make.train, "PRESETS", {"cpu": SMALL})
    monkeypatch.setattr(make.train_vae, "PRESETS", {"cpu": SMALL_VAE})
    monkeypatch.setattr(make, "round_trip", lambda folder, num: {"all": float((folder / "config.json").exists())})
    monkeypatch.setattr("sys.argv", ["make", "--out", str(tmp_path / "run"), "--steps", "1", "--no-gate"])
    assert make.main() == 0
    assert (tmp_path / "run" / "model" / "model_index.json").exists()


def test_a_checkpoint_is_replaced_in_one_move(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    for value in (1.0, 2.0):
        checkpoint.save(path, {"a": {"x.y": torch.tensor([value])}}, {"step": int(value)})
    groups, facts = checkpoint.load(path)
    assert groups["a"]["x.y"].item() == 2.0
    assert facts == {"step": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]
