"""Load Audio and Save Audio: sounds from files and as files."""

from typing import Annotated, Literal

from ...pipelines.values import Audio
from ..files.audio_files import check_audio, check_audio_file, read_audio, sound_bytes, write_audio
from ..files.workspace import HERE, Workspace
from ..graph.signature import read_spec
from ..graph.sketch import Given, Made
from ..graph.spec import Saved, Socket
from .arguments import checked, file_fingerprint, file_refusals, name_refusals
from .sockets import FileName, Files

Seconds = Annotated[float, Socket(min=0, max=86400)]


@checked
def load_audio(
    path: Annotated[str, Socket(widget="audio", help="WAV, FLAC, MP3, OGG, M4A, or a video with sound")],
    *,
    start: Annotated[Seconds, "Seconds that are left out at its beginning"] = 0.0,
    duration: Annotated[Seconds, "Seconds at most; 0 is to its end"] = 0.0,
    workspace: Workspace = HERE,
) -> Audio:
    """The sound of a file, or a part of it, at its own rate; of a video its first track."""
    return read_audio(workspace.input_path(path, socket="path"), start=start, duration=duration)


@checked
def save_audio(
    audio: Audio,
    *,
    name: FileName = "sound",
    format: Annotated[Literal["flac", "wav"], "Both lose nothing of 16 bits; flac is half as large"] = "flac",
    workspace: Workspace = HERE,
) -> Files:
    """Sound files of 16 bits in the output folder, with the workflow inside. A batch gets numbers.

    What is louder than full scale is cut off there.
    """
    with workspace.output_files(name, len(audio.waveform), format, socket="name") as targets:
        for waveform, target in zip(audio.waveform, targets, strict=True):
            write_audio(waveform, target, rate=audio.rate, metadata=workspace.metadata)
            workspace.on_file(target)
    return Saved(files=tuple(map(str, targets)))


def sounds_written(given: Given) -> int:
    made: Made = given.value("audio")
    return made.count * sound_bytes(made.frames / made.fps if made.fps else 0.0)


NODES = {
    "LoomLoadAudio": read_spec(
        load_audio,
        title="Load Audio",
        category="sound",
        fingerprint=file_fingerprint(lambda file, workspace: check_audio_file(file)),
        sketch=lambda given: Made(count=1),
        refuses=lambda given: file_refusals(given, check_audio),
    ),
    "LoomSaveAudio": read_spec(
        save_audio,
        title="Save Audio",
        category="sound",
        is_output=True,
        refuses=lambda given: name_refusals(given, "audio", str(given.value("format"))),
        writes=sounds_written,
    ),
}
