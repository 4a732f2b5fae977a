"""Run Pipeline with sound: at the rate of the pipeline's own parts, into the file of a video, and from any file's."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch

from latentloom.nodes import run_pipeline, save_video
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.nodes.steps.whole.sockets import values_of
from latentloom.pipelines.signatures.table import signature_of
from latentloom.pipelines.spreading.handed import from_wire, to_wire
from latentloom.pipelines.values import Audio
from latentloom.pipelines.whole.shown import heard, rate_of, resampled
from zoo.pipelines import tiny_of
from zoo.pipelines.tiny import build


@pytest.fixture(scope="module")
def ace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """160 samples a second, of two channels."""
    folder, pipe = tmp_path_factory.mktemp("ace"), build(tiny_of("AceStepPipeline"))
    pipe.save_pretrained(folder)
    return folder, pipe


def tone(rate: int, *, channels: int = 1, seconds: float = 1.45) -> Audio:
    wave = torch.sin(torch.arange(round(seconds * rate)) / rate * 2 * math.pi * 20) / 2
    return Audio(waveform=wave.expand(1, channels, -1), rate=rate)


def given() -> dict[str, Any]:
    return tiny_of("AceStepPipeline").call()


def test_picture_and_sound_become_one_file_of_one_length(tmp_path: Path) -> None:
    tiny = tiny_of("LTX2Pipeline:2.0")
    build(tiny).save_pretrained(tmp_path / "model")
    call = {**tiny.call(), "num_inference_steps": 1}
    _, video, audio = run_pipeline(str(tmp_path / "model"), **call)
    assert audio.rate == 16000 and audio.waveform.shape[:2] == (1, 2) and audio.waveform.abs().max() > 0
    (file,) = save_video(video, audio, workspace=Workspace(output_dir=tmp_path)).files
    with av.open(file) as container:
        frames = sum(1 for _ in container.decode(video=0))
    with av.open(file) as container:
        samples = sum(frame.samples for frame in container.decode(audio=0))
    assert frames == 17 and abs(samples / 16000 - 17 / 25) < 1024 / 16000


def test_a_class_of_sound_alone_gives_its_own_samples(ace: tuple[Path, Any]) -> None:
    folder, pipe = ace
    image, video, audio = run_pipeline(str(folder), **given())
    assert image is None and video is None and audio.rate == 160
    torch.testing.assert_close(audio.waveform, torch.from_numpy(alone(pipe)), atol=1e-5, rtol=0)


def test_a_sound_goes_in_at_the_pipeline_s_rate_and_with_its_channels(ace: tuple[Path, Any]) -> None:
    folder, pipe = ace
    start = tone(1600)
    audio = run_pipeline(str(folder), **given(), src_audio=start)[2]
    fitting = {"src_audio": resampled(start, 160)[0].expand(2, -1)}
    plain, made = (alone(pipe, **more) for more in ({}, fitting))
    assert np.abs(made - plain).max() > 1e-3
    torch.testing.assert_close(audio.waveform, torch.from_numpy(made), atol=1e-5, rtol=0)


def alone(pipe: Any, **more: Any) -> Any:
    """By diffusers; the latents of a sound are drawn from torch's own generator."""
    torch.manual_seed(0)
    return pipe(**given(), **more, generator=torch.Generator().manual_seed(0), output_type="np").audios


def test_what_does_not_fit_is_one_sentence(ace: tuple[Path, Any]) -> None:
    folder, pipe = ace
    with pytest.raises(ValueError, match="src_audio has 6 channels; AceStepPipeline takes 1 or 2: give such a sound"):
        run_pipeline(str(folder), **given(), src_audio=tone(1600, channels=6))
    two = Audio(waveform=tone(1600).waveform.expand(2, 1, -1), rate=1600)
    with pytest.raises(ValueError, match="src_audio holds 2 sounds; a pipeline takes one: give one"):
        run_pipeline(str(folder), **given(), src_audio=two)
    with pytest.raises(ValueError, match="no part of SimpleNamespace says how many samples a second"):
        rate_of(SimpleNamespace(vae=pipe.text_encoder))


@pytest.mark.parametrize(("rate", "wanted"), [(48000, 44100), (44100, 48000), (44101, 44100), (1600, 160)])
def test_another_rate_is_the_same_tone_as_long(rate: int, wanted: int) -> None:
    found, same = resampled(tone(rate, channels=2), wanted), tone(wanted, channels=2).waveform
    edge = max(20, wanted // 100)
    assert found.shape == same.shape
    assert (found - same)[..., edge:-edge].abs().max() < 1e-4


def test_the_rate_is_that_of_the_part_that_makes_the_samples() -> None:
    def part(**config: Any) -> Any:
        return SimpleNamespace(config=config)

    mel = part(sample_rate=16000)
    assert rate_of(SimpleNamespace(vae=part(), audio_vae=mel, vocoder=part(output_sampling_rate=48000))) == 48000
    assert rate_of(SimpleNamespace(vae=part(), audio_vae=part(sample_rate=44100), vocoder=part())) == 44100
    assert rate_of(SimpleNamespace(vae=part(), sound_tokenizer=part(sampling_rate=48000))) == 48000
    assert rate_of(SimpleNamespace(vae=part(sample_rate=24000))) == 24000


def test_sounds_of_two_dimensions_are_read_as_their_class_means_them() -> None:
    two = {"sampling_rate": 48000, "sound": torch.zeros(2, 9), "audio": torch.zeros(2, 9)}
    shapes = {
        name: values_of(signature_of(name), two, {})[2].waveform.shape
        for name in ("Cosmos3OmniPipeline", "Kandinsky6TI2VAPipeline")
    }
    assert shapes == {"Cosmos3OmniPipeline": (1, 2, 9), "Kandinsky6TI2VAPipeline": (2, 1, 9)}


def test_a_sound_reaches_ranks_and_stable_audio_is_told_its_rate() -> None:
    sent = from_wire(to_wire({"initial_audio_waveforms": tone(1600), "generator": torch.Generator().manual_seed(3)}))
    pipe = build(tiny_of("StableAudioPipeline"))
    found = heard(pipe, sent)
    assert found.keys() == {"generator", "initial_audio_waveforms", "initial_audio_sampling_rate"}
    assert found["generator"].initial_seed() == 3  # which seeds torch's own there
    assert found["initial_audio_sampling_rate"] == 100 and found["initial_audio_waveforms"].shape == (1, 2, 145)


def test_comfyui_has_wires_for_sounds(ace: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    node: Any = NODE_CLASS_MAPPINGS["LoomRunPipeline"]
    optional = node.INPUT_TYPES()["optional"]
    wires = {name for name, each in optional.items() if each[0] == "AUDIO"}
    assert wires == {"audio", "initial_audio_waveforms", "reference_audio", "src_audio"}
    assert node.RETURN_TYPES == ("IMAGE", "LOOM_VIDEO", "AUDIO")
    call, start = given(), tone(1600)
    told = {name: call.pop(name) for name in ("prompt", "num_inference_steps", "guidance_scale")}
    wire = {"waveform": start.waveform, "sample_rate": start.rate}
    arguments = json.dumps({**call, **{name: told.pop(name) for name in ("num_inference_steps", "guidance_scale")}})
    *_, made = node().run(source=str(ace[0]), src_audio=wire, arguments=arguments, **told)
    assert made["sample_rate"] == 160 and made["waveform"].shape == (1, 2, 232)
