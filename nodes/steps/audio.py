"""Load Audio and Save Audio: sounds from files and as files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ...pipelines.values import Audio
from ..files.file_sizes import sound_bytes
from ..files.workspace import HERE, Workspace, content_hash
from ..graph.sketch import Given, Made, Refusal
from ..graph.spec import Saved, Socket, read_spec
from .arguments import checked
from .pictures import one_sketch
from .refusing import file_refusals, name_refusals

MAX_SECONDS = 86400


@checked
def load_audio(
    path: Annotated[str, Socket(widget="audio", help="WAV, FLAC, MP3, OGG, M4A, or a video with sound")],
    *,
    start: Annotated[float, Socket(min=0, max=MAX_SECONDS, help="Seconds that are left out at its beginning")] = 0.0,
    duration: Annotated[float, Socket(min=0, max=MAX_SECONDS, help="Seconds at most; 0 is to its end")] = 0.0,
    workspace: Workspace = HERE,
) -> Audio:
    """The sound of a file, or a part of it, at its own rate; of a video its first track."""
    from ..files.audio_files import read_audio

    return read_audio(workspace.input_path(path, socket="path"), start=start, duration=duration)


def audio_fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
    """The content of the file that Load Audio reads, of which no more is read than a sound file may have."""
    from ..files.audio_files import check_audio_file

    file = workspace.input_path(inputs["path"], socket="path")
    check_audio_file(file)
    return content_hash(file, socket="path")


def audio_file_refusals(given: Given) -> dict[str, str | Refusal]:
    """A sound that is not here, is none, or is too long."""
    from ..files.audio_files import check_audio

    return file_refusals(given, check_audio)


@checked
def save_audio(
    audio: Audio,
    *,
    name: Annotated[str, Socket(help="File name without ending; folders are allowed")] = "sound",
    format: Annotated[
        Literal["flac", "wav"], Socket(help="Both lose nothing of 16 bits; flac is half as large")
    ] = "flac",
    workspace: Workspace = HERE,
) -> Annotated[Saved, Socket(name="files")]:
    """Sound files of 16 bits in the output folder, with the workflow inside. A batch gets numbers.

    What is louder than full scale is cut off there.
    """
    from ..files.audio_files import write_audio

    with workspace.output_files(name, len(audio.waveform), format, socket="name") as targets:
        for waveform, target in zip(audio.waveform, targets, strict=True):
            write_audio(waveform, target, rate=audio.rate, metadata=workspace.metadata)
            workspace.on_file(target)
    return Saved(files=tuple(map(str, targets)))


def audio_name_refusals(given: Given) -> dict[str, str | Refusal]:
    return name_refusals(given, "audio", str(given.value("format")))


def sounds_written(given: Given) -> int:
    made: Made = given.value("audio")
    return made.count * sound_bytes(made.frames / made.fps if made.fps else 0.0)


NODES = {
    "LoomLoadAudio": read_spec(
        load_audio,
        title="Load Audio",
        category="sound",
        fingerprint=audio_fingerprint,
        sketch=one_sketch,
        refuses=audio_file_refusals,
    ),
    "LoomSaveAudio": read_spec(
        save_audio,
        title="Save Audio",
        category="sound",
        is_output=True,
        refuses=audio_name_refusals,
        writes=sounds_written,
    ),
}
