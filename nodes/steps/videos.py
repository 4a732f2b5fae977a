"""Save Video: clips as MP4 files."""

from __future__ import annotations

from typing import Annotated

from ...pipelines.values import Video
from ..files.workspace import HERE, Workspace
from ..graph.spec import Saved, Socket
from .arguments import checked


@checked
def save_video(
    video: Video,
    *,
    name: Annotated[str, Socket(help="File name without ending; folders are allowed")] = "video",
    fps: Annotated[float, Socket(min=0, max=240, help="Frames a second; 0 is the video's own")] = 0.0,
    quality: Annotated[
        int, Socket(min=0, max=51, help="Rate factor of H.264: 0 is lossless, 18 looks so, 51 is worst")
    ] = 18,
    workspace: Workspace = HERE,
) -> Annotated[Saved, Socket(name="files")]:
    """MP4 files in the output folder, with the workflow inside. A batch gets numbers."""
    from ..files.video_files import write_video

    with workspace.output_files(name, len(video.pixels), "mp4", socket="name") as targets:
        for pixels, target in zip(video.pixels, targets, strict=True):
            write_video(pixels, target, fps=fps or video.fps, quality=quality, metadata=workspace.metadata)
    return Saved(files=tuple(map(str, targets)))
