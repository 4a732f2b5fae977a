"""Load and Save Video, Load and Save Audio: clips and sounds from files, and as files."""

from typing import Annotated, Literal

from ...parallel.errors import BadInput
from ...parallel.progress import SILENT, Progress
from ...parallel.wording import worded
from ...pipelines.values import Audio, Video
from ..files.audio_files import check_audio, check_audio_file, read_audio, sound_bytes, write_audio
from ..files.video_files import Cut, check_video, check_video_size, read_video, video_bytes, write_video
from ..files.workspace import HERE, SMALLER, Workspace
from ..graph.sketch import Given, Made
from ..graph.spec import Saved, Socket
from .arguments import checked, loading, saving
from .sockets import FileName, Files

FRAME_NUMBERS = 10**6
PICTURES = 4  # a video may have the pixels of so many pictures, all frames together


@checked
def load_video(
    path: Annotated[str, "MP4, MOV, WebM or MKV"],
    *,
    start: Annotated[int, Socket(min=-FRAME_NUMBERS, max=FRAME_NUMBERS), "The first frame, from 0; -1 is the last"] = 0,
    frames: Annotated[int, Socket(min=0, max=FRAME_NUMBERS), "How many are taken; 0 is all that follow"] = 0,
    every: Annotated[int, Socket(min=1, max=1000), "Every second frame is taken for 2, and so on"] = 1,
    workspace: Workspace = HERE,
    progress: Progress = SILENT,
) -> tuple[Video, Annotated[float, Socket(name="fps", help="Frames a second of what was taken")]]:
    """A clip from a file, turned upright, without its sound."""
    file = workspace.input_path(path, socket="path")
    pixels, fps = read_video(
        file,
        Cut(start=start, frames=frames, every=every),
        max_pixels=PICTURES * workspace.max_pixels,
        remedy=worded("take fewer frames, or {}", SMALLER[workspace.host]),
        check=progress.check,
    )
    return Video(pixels=pixels[None], fps=fps), fps


@checked
def save_video(
    video: Annotated[Video, Socket(takes_bytes=True)],
    audio: Annotated[Audio | None, "Becomes as long as the video: cut off there, or followed by silence"] = None,
    *,
    name: FileName = "video",
    fps: Annotated[float, Socket(min=0, max=240), "Frames a second; 0 is the video's own"] = 0.0,
    quality: Annotated[
        int, Socket(min=0, max=51), "Rate factor of H.264: 0 is lossless, 18 looks so, 51 is worst"
    ] = 18,
    workspace: Workspace = HERE,
) -> Files:
    """MP4 files in the output folder, with the workflow inside. A batch gets numbers.

    Each video of a batch has its own sound, or all have one.
    """
    sounds = _sounds(audio, len(video.pixels)) if audio else [None] * len(video.pixels)
    with workspace.output_files(name, len(video.pixels), "mp4", socket="name") as targets:
        for pixels, sound, target in zip(video.pixels, sounds, targets, strict=True):
            write_video(pixels, target, fps=fps or video.fps, quality=quality, metadata=workspace.metadata, audio=sound)
            workspace.on_file(target)
    return Saved(files=tuple(map(str, targets)))


def videos_written(given: Given) -> int:
    made: Made = given.value("video")
    fps = given.number("fps") or made.fps
    sound_s = made.frames / fps if fps and given.has("audio") else 0.0
    quality = given.value("quality")
    return made.count * video_bytes(made.width, made.height, made.frames, quality=quality, sound_s=sound_s)


def _sounds(audio: Audio, count: int) -> list[Audio]:
    """One for each of so many videos."""
    have = len(audio.waveform)
    if have not in (1, count):
        raise BadInput("audio holds {} sounds for {} videos; give one for all, or one for each", have, count)
    return [Audio(waveform=audio.waveform[i % have][None], rate=audio.rate) for i in range(count)]


# ---- Load Audio and Save Audio: sounds from files and as files.

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
    "LoomLoadVideo": loading(
        load_video, title="Load Video", category="picture", check_size=check_video_size, check=check_video
    ),
    "LoomSaveVideo": saving(
        save_video, title="Save Video", category="picture", made="video", ending="mp4", writes=videos_written
    ),
    "LoomLoadAudio": loading(
        load_audio, title="Load Audio", category="sound", check_size=check_audio_file, check=check_audio
    ),
    "LoomSaveAudio": saving(save_audio, title="Save Audio", category="sound", made="audio", writes=sounds_written),
}
