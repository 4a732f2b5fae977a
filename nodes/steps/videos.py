"""Save Video: clips as MP4 files, with sound."""

from __future__ import annotations

from typing import Annotated

from ...pipelines.values import Audio, Video
from ..files.workspace import HERE, Workspace
from ..graph.spec import Saved, Socket
from .arguments import checked


@checked
def save_video(
    video: Video,
    audio: Annotated[
        Audio | None, Socket(help="Becomes as long as the video: cut off there, or followed by silence")
    ] = None,
    *,
    name: Annotated[str, Socket(help="File name without ending; folders are allowed")] = "video",
    fps: Annotated[float, Socket(min=0, max=240, help="Frames a second; 0 is the video's own")] = 0.0,
    quality: Annotated[
        int, Socket(min=0, max=51, help="Rate factor of H.264: 0 is lossless, 18 looks so, 51 is worst")
    ] = 18,
    workspace: Workspace = HERE,
) -> Annotated[Saved, Socket(name="files")]:
    """MP4 files in the output folder, with the workflow inside. A batch gets numbers.

    Each video of a batch has its own sound, or all have one.
    """
    from ..files.video_files import write_video

    sounds = _sounds(audio, len(video.pixels)) if audio else [None] * len(video.pixels)
    with workspace.output_files(name, len(video.pixels), "mp4", socket="name") as targets:
        for pixels, sound, target in zip(video.pixels, sounds, targets, strict=True):
            write_video(pixels, target, fps=fps or video.fps, quality=quality, metadata=workspace.metadata, audio=sound)
    return Saved(files=tuple(map(str, targets)))


def _sounds(audio: Audio, count: int) -> list[Audio]:
    """One for each of so many videos."""
    have = len(audio.waveform)
    if have not in (1, count):
        raise ValueError(f"audio holds {have} sounds for {count} videos; give one for all, or one for each")
    return [Audio(waveform=audio.waveform[i % have][None], rate=audio.rate) for i in range(count)]
