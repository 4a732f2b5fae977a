"""The routes about videos: asked for, looked at, listed, fetched, deleted; each is a run, and kept as one."""

from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from ....parallel.wording import worded
from ...access.answers import picture, send
from ...errors import Conflict, NotHere
from ...live.state import MadeFile, RunRecord
from ...runs.once import Asked
from ...server import Server
from ...store.paging import page_of
from ..following import until_over
from ..requests import Id, Key, User, sends
from .bodies import VideoBody, VideoDeleted, VideoError, VideoRow, VideosAnswer
from .making import keep, start, why_not_made
from .route import Wrong, read_body, takes

Status = Literal["queued", "in_progress", "completed", "failed"]
STATUSES: dict[str, Status] = {"waiting": "queued", "running": "in_progress", "done": "completed"}
ENDING_S = 60.0  # how long a video that is being made may take to end, before it is deleted
Limit = Annotated[int, Query(ge=1, le=100)]
After = Annotated[str, Query(max_length=64, description="The last one of the list before.")]
Variant = Literal["video", "thumbnail"]


def add_routes(router: APIRouter, server: Server) -> None:
    runs, results = server.runs, server.results

    def found(user: str, id: str) -> RunRecord:
        with suppress(NotHere):
            if (run := runs.book.get(user, id)).asked_as.get("object") == "video":
                return run
        raise Wrong(worded("there is no video {!r}; it may have been deleted", id[:40]), param="id", status=404)

    @router.post("/videos", openapi_extra=takes(VideoBody, "input_reference"))
    async def create_video(request: Request, user: User, key: Key = "") -> VideoRow:
        """Ask for a video of a prompt, and of a picture where one comes; it is made in its turn."""
        async with read_body(request, VideoBody, "input_reference") as (body, files):
            images = [await keep(server, user, file) for file in files.get("input_reference", ())]
        by = Asked.of(key, "videos", body.model_dump_json(), *images)
        parts: dict[str, Any] = {"kind": "video", "images": images, "seconds": body.seconds, "asked_by": by}
        submit = partial(start, server, user, body, **parts)
        made = await run_in_threadpool(runs.book.answers.once, user, by, submit)
        return _row(found(user, made.runs[0]))

    @router.get("/videos")
    def list_videos(
        user: User, limit: Limit = 20, after: After = "", order: Literal["asc", "desc"] = "desc"
    ) -> VideosAnswer:
        """The user's, newest first."""
        videos = [run for run in runs.book.of(user) if run.asked_as.get("object") == "video"]
        if order == "asc":
            videos.reverse()
        found = page_of(videos, lambda run: run.id, limit=limit + 1, before=after)
        rows = [_row(run) for run in found[:limit]]
        ends = {"first_id": rows[0].id if rows else None, "last_id": rows[-1].id if rows else None}
        return VideosAnswer(data=rows, has_more=len(found) > limit, **ends)

    @router.get("/videos/{id}")
    def get_video(id: Id, user: User) -> VideoRow:
        """How far it is."""
        return _row(found(user, id))

    @router.get("/videos/{id}/content", responses=sends("video/mp4", "image/webp"))
    async def video_content(id: Id, user: User, variant: Variant = "video") -> Response:
        """Its file, or a picture of it, once it is completed; ranges of it for players."""
        run = found(user, id)
        made = _video(run)
        if not run.is_over:
            raise Wrong(f"the video is {STATUSES[run.state]}; wait until it is completed", param="id", code="not_ready")
        if run.state != "done" or made is None:
            raise why_not_made(run)
        if variant == "thumbnail":
            return picture(await server.intake.look(results.thumbnail, user, made.id), "image/webp")
        return send(results.path(user, made.id), name=made.name)

    @router.delete("/videos/{id}")
    async def delete_video(id: Id, user: User, request: Request) -> VideoDeleted:
        """Forget it, with its file; one that is being made is ended first."""
        found(user, id)
        await run_in_threadpool(runs.book.cancel, user, [id])
        if not await until_over(server, request, user=user, ids=[id], timeout_s=ENDING_S):
            raise Conflict("the video has not ended as yet; delete it again in a moment")
        await run_in_threadpool(runs.delete, user, id)
        return VideoDeleted(id=id)


def _video(run: RunRecord) -> MadeFile | None:
    return next((made for made in run.made if made.kind == "video"), None)


def _row(run: RunRecord) -> VideoRow:
    made, asked, row = _video(run), run.asked_as, run.row()
    status = STATUSES.get(run.state, "failed")
    error = why_not_made(run) if status == "failed" else None
    size, seconds = asked["size"], asked["seconds"]
    if made is not None and status == "completed":
        size = f"{made.width}x{made.height}"
        seconds = f"{made.frames / made.fps:.3g}" if made.fps else seconds
    seed = run.overrides.get(asked["seed"])
    return VideoRow(
        id=run.id,
        model=asked["model"],
        status=status,
        progress=100 if status == "completed" else round(100 * row.done / max(row.total, 1)),
        created_at=int(run.created),
        completed_at=int(run.ended) if run.ended and status == "completed" else None,
        prompt=str(run.overrides.get(asked["prompt"], "")),
        size=size,
        seconds=seconds or "auto",
        seed=seed if isinstance(seed, int) else None,
        error=error and VideoError(code=error.code, message=error.detail),
    )
