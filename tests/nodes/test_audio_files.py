"""Sounds as files: what goes in comes out, whole or not at all; what is no sound is refused in a sentence."""

import json
import math
import struct
from pathlib import Path

import pytest
import torch

from latentloom.nodes.execution.cache import DiskCache, MemoryCache
from latentloom.nodes.execution.manifest import write_manifest
from latentloom.nodes.files import audio_files
from latentloom.nodes.files.audio_files import check_audio_file, read_audio, read_audio_metadata, write_audio
from latentloom.nodes.files.thumbnails import sound_facts, sound_thumbnail, video_facts
from latentloom.nodes.files.video_files import read_video_metadata, write_video
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.headless.workflow_files import read_workflow
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.values import Audio
from support import toys
from support.prepared import run

RATE = 8000


def tone(seconds: float = 0.5, channels: int = 1, rate: int = RATE, hertz: float = 440) -> torch.Tensor:
    """C S, each channel half as loud as the one before."""
    wave = torch.sin(torch.arange(round(seconds * rate)) / rate * 2 * math.pi * hertz) / 2
    return torch.stack([wave / 2**channel for channel in range(channels)])


def rounded(waveform: torch.Tensor) -> torch.Tensor:
    """To 16 bits."""
    return ((waveform.double() * 32768).round().clamp(-32768, 32767) / 32768).float()


@pytest.mark.parametrize("ending", ["wav", "flac"])
@pytest.mark.parametrize(("channels", "rate"), [(1, RATE), (2, 44100), (6, 48000), (8, 192000)])
def test_samples_come_back_to_the_last_bit(tmp_path: Path, ending: str, channels: int, rate: int) -> None:
    sound = torch.rand(channels, rate // 5, generator=torch.manual_seed(0)) * 2 - 1
    write_audio(sound, tmp_path / f"a.{ending}", rate=rate, metadata={})
    read = read_audio(tmp_path / f"a.{ending}")
    assert read.rate == rate
    assert torch.equal(read.waveform, rounded(sound)[None])


def test_what_is_too_loud_is_cut_off_at_full_scale(tmp_path: Path) -> None:
    write_audio(torch.tensor([[3.0, -3.0, 0.5]]), tmp_path / "a.wav", rate=RATE, metadata={})
    assert read_audio(tmp_path / "a.wav").waveform.tolist() == [[[32767 / 32768, -1.0, 0.5]]]


@pytest.mark.parametrize("ending", ["wav", "flac"])
def test_a_part_is_the_same_samples(tmp_path: Path, ending: str) -> None:
    write_audio(tone(2), tmp_path / f"a.{ending}", rate=RATE, metadata={})
    whole = read_audio(tmp_path / f"a.{ending}").waveform
    part = read_audio(tmp_path / f"a.{ending}", start=0.75, duration=0.5).waveform
    assert torch.equal(part, whole[:, :, 6000:10000])
    assert torch.equal(read_audio(tmp_path / f"a.{ending}", start=1.5, duration=9).waveform, whole[:, :, 12000:])


@pytest.mark.parametrize("ending", ["wav", "flac"])
def test_the_workflow_comes_back(tmp_path: Path, ending: str) -> None:
    workflow = {"format": 1, "name": "Füchse 🦊", "nodes": {}}
    metadata = {"latentloom": json.dumps(workflow, ensure_ascii=False), "prompt": "{}"}
    write_audio(tone(), tmp_path / f"a.{ending}", rate=RATE, metadata=metadata)
    assert read_audio_metadata(tmp_path / f"a.{ending}").items() >= metadata.items()
    assert read_workflow(tmp_path / f"a.{ending}").name == "Füchse 🦊"


@pytest.mark.parametrize("ending", ["wav", "flac", "mp4"])
def test_same_samples_are_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        write(tone(), tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def write(sound: torch.Tensor, target: Path, *, frames: int = 4, rate: int = RATE) -> None:
    """A sound file, or half a second of video with the sound."""
    if target.suffix != ".mp4":
        write_audio(sound, target, rate=rate, metadata={"k": "v"})
        return
    audio = Audio(waveform=sound[None], rate=rate)
    write_video(torch.full((frames, 16, 16, 3), 0.5), target, fps=8, quality=30, metadata={"k": "v"}, audio=audio)


@pytest.mark.parametrize(("seconds", "silent_s"), [(0.2, 0.3), (0.5, 0.0), (3.0, 0.0)])
def test_the_sound_of_a_video_is_as_long_as_the_video(tmp_path: Path, seconds: float, silent_s: float) -> None:
    write(tone(seconds, channels=2), tmp_path / "a.mp4")
    read = read_audio(tmp_path / "a.mp4")
    assert (read.rate, tuple(read.waveform.shape)) == (RATE, (1, 2, 4000))
    assert read_video_metadata(tmp_path / "a.mp4")["k"] == "v"
    heard = read.waveform[0, :, 400:1200] - tone(channels=2)[:, 400:1200]
    assert heard.abs().max() < 0.1
    end = read.waveform[0, 0, 4000 - round(silent_s * RATE) + 800 :]
    assert not silent_s or end.abs().max() < 0.01
    facts = video_facts(tmp_path / "a.mp4")
    assert (facts.frames, facts.rate, facts.channels) == (4, RATE, 2)


def test_a_rate_that_aac_has_not_is_resampled(tmp_path: Path) -> None:
    write(tone(rate=11000), tmp_path / "a.mp4", rate=11000)
    read = read_audio(tmp_path / "a.mp4")
    assert (read.rate, read.waveform.shape[2]) == (48000, 24000)


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.mp4"])
def test_nan_is_refused_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} would hold 8 values that are not a number"):
        write(torch.full((1, 8), math.nan), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def wav(rate: int = RATE, channels: int = 1, data: bytes = b"\0" * 64, *, is_float: bool = False) -> bytes:
    """A WAV file of 16 bits, or of floats, with any header."""
    width = 4 if is_float else 2
    coding = 3 if is_float else 1
    format = struct.pack("<HHIIHH", coding, channels, rate, rate * channels * width, channels * width, width * 8)
    chunks = b"fmt " + struct.pack("<I", 16) + format + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


HOSTILE = {
    "text.wav": (b"hello", "not a sound that can be read"),
    "playlist.flac": (b"#EXTM3U\nfile:///etc/passwd\n", "not a sound that can be read"),
    "slow.wav": (wav(rate=10), "10 samples a second; 1,000 to 384,000 are taken"),
    "fast.wav": (wav(rate=4_000_000), "4,000,000 samples a second"),
    "wide.wav": (wav(channels=60, data=b"\0" * 240), "60 channels; 1 to 8 are taken"),
    "empty.wav": (wav(data=b""), "sound without a sample"),
    "nothing.flac": (b"", "not a sound that can be read"),
    "gone.mp3": (None, "cannot be read|is not a sound that can be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_sound_is_refused_in_a_sentence(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    data, words = HOSTILE[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=words) as told:
        read_audio(tmp_path / name)
    assert len(str(told.value).splitlines()) == 1
    assert capfd.readouterr().err == ""


def test_a_video_without_sound_says_so(tmp_path: Path) -> None:
    write_video(torch.rand(2, 16, 16, 3), tmp_path / "a.mp4", fps=8, quality=30, metadata={})
    with pytest.raises(ValueError, match=r"a\.mp4 is not a sound that can be read \(it holds no sound\)"):
        read_audio(tmp_path / "a.mp4")
    assert video_facts(tmp_path / "a.mp4").rate == 0


def test_too_long_a_sound_is_refused_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_audio(tone(1, channels=2), tmp_path / "a.flac", rate=RATE, metadata={})
    monkeypatch.setattr(audio_files, "MAX_SAMPLES", RATE)
    with pytest.raises(ValueError, match=r"more than 8,000 samples .* set a duration"):
        read_audio(tmp_path / "a.flac")
    monkeypatch.setattr(
        audio_files, "_length_s", lambda container, stream: 0.0
    )  # a header that says less than is there
    with pytest.raises(ValueError, match=r"more than 8,000 samples .* set a duration"):
        read_audio(tmp_path / "a.flac")
    assert read_audio(tmp_path / "a.flac", start=0.5).waveform.shape == (1, 2, 4000)
    monkeypatch.setattr(audio_files, "MAX_FILE_BYTES", 10)
    with pytest.raises(ValueError, match=r"more than the 10 that are read"):
        check_audio_file(tmp_path / "a.flac")


@pytest.mark.parametrize("ending", ["flac", "wav", "mp4"])
def test_too_long_a_sound_is_refused_by_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    file = tmp_path / f"a.{ending}"
    if ending == "mp4":
        sound = Audio(waveform=tone(1)[None], rate=RATE)
        write_video(torch.rand(8, 16, 16, 3), file, fps=8, quality=30, metadata={}, audio=sound)
    else:
        write_audio(tone(1), file, rate=RATE, metadata={})
    monkeypatch.setattr(audio_files, "MAX_SAMPLES", RATE - 1)
    monkeypatch.setattr(audio_files, "_pieces", lambda *given: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match=r"more than 7,999 samples .* set a duration"):
        read_audio(file)


def test_a_start_behind_the_end_says_how_long_the_sound_is(tmp_path: Path) -> None:
    write_audio(tone(0.5), tmp_path / "a.wav", rate=RATE, metadata={})
    with pytest.raises(ValueError, match=r"lasts 0\.5 s, and start is 2"):
        read_audio(tmp_path / "a.wav", start=2)


@pytest.mark.parametrize("ending", ["wav", "flac", "mp4"])
def test_a_start_at_the_very_end_gives_no_empty_sound(tmp_path: Path, ending: str) -> None:
    write(tone(0.5), tmp_path / f"a.{ending}")
    for start in (0.5, 0.51):  # in the last block of AAC, which is filled up
        with pytest.raises(ValueError, match=rf"lasts 0\.5 s, and start is {start}"):
            read_audio(tmp_path / f"a.{ending}", start=start)
    assert read_audio(tmp_path / f"a.{ending}", start=0.5 - 1 / RATE).waveform.shape[2] == 1


def test_tags_are_found_where_ogg_keeps_them(tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / "a.opus"), "w", format="ogg") as container:
        container.metadata["prompt"] = "{}"
        stream = container.add_stream("libopus", rate=48000, layout="mono")
        container.mux(stream.encode(audio_files._frame(tone(rate=48000), format="flt", rate=48000, start=0)))
        container.mux(stream.encode())
    assert read_audio_metadata(tmp_path / "a.opus")["prompt"] == "{}"


def test_a_cut_off_file_gives_what_is_there_or_a_sentence(tmp_path: Path) -> None:
    for name in ("a.wav", "a.flac", "a.mp4"):
        write(tone(), tmp_path / name)
        data = (tmp_path / name).read_bytes()
        for length in range(0, len(data), max(1, len(data) // 12)):
            (tmp_path / name).write_bytes(data[:length])
            try:
                assert read_audio(tmp_path / name).waveform.shape[2] <= 4096
            except ValueError as error:
                assert name in str(error)


@pytest.mark.parametrize("kept", ["memory", "disk"])
def test_a_run_keeps_a_sound_until_its_file_changes(tmp_path: Path, kept: str) -> None:
    write_audio(tone(), tmp_path / "a.wav", rate=RATE, metadata={})
    graph = toys.graph({"load": ("LoomLoadAudio", {"path": "a.wav"})}, outputs={"x": "load.audio"})
    workspace = Workspace(output_dir=tmp_path / "out", roots=(tmp_path,))
    cache = MemoryCache(1 << 20) if kept == "memory" else DiskCache(tmp_path / "cache", 1 << 20)
    first, again = (run(graph, SPECS, workspace=workspace, **{f"{kept}_cache": cache}) for _ in range(2))
    assert again.nodes["load"].cached == kept
    assert torch.equal(again.outputs["x"].waveform, first.outputs["x"].waveform) and again.outputs["x"].rate == RATE
    manifest = json.loads(write_manifest(tmp_path, graph, again, {}).read_text())
    assert manifest["outputs"] == [{"name": "x", "type": "Audio"}]
    write_audio(tone(hertz=880), tmp_path / "a.wav", rate=RATE, metadata={})
    assert run(graph, SPECS, workspace=workspace, **{f"{kept}_cache": cache}).nodes["load"].cached == "no"


def test_the_outline_of_a_sound_is_as_high_as_it_is_loud(tmp_path: Path) -> None:
    import io

    from PIL import Image

    write_audio(torch.cat([tone(0.5), torch.zeros(1, 4000)], 1), tmp_path / "a.wav", rate=RATE, metadata={})
    facts = sound_facts(tmp_path / "a.wav")
    assert (facts.rate, facts.channels, facts.length_s, facts.width) == (RATE, 1, 1.0, 0)
    with Image.open(io.BytesIO(sound_thumbnail(tmp_path / "a.wav", side=64))) as drawn:
        assert drawn.size == (64, 32)
        opaque = torch.tensor(list(drawn.getchannel("A").get_flattened_data())).view(32, 64) > 128
    assert 12 <= opaque[:, 5].sum() <= 20
    assert opaque[:, 50].sum() <= 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5.0, 3e38])
def test_the_outline_of_a_sound_beyond_all_bounds_is_drawn(tmp_path: Path, value: float) -> None:
    (tmp_path / "a.wav").write_bytes(wav(data=struct.pack("<64f", *[value] * 64), is_float=True))
    assert torch.allclose(read_audio(tmp_path / "a.wav").waveform[0], torch.full((1, 64), value), equal_nan=True)
    assert sound_thumbnail(tmp_path / "a.wav", side=64)
