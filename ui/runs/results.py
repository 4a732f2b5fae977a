"""The results of all runs: pictures, videos and sounds by id, with what made them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...nodes.files.atomic import write_atomic
from ...nodes.files.thumbnails import picture_thumbnail, sound_thumbnail, video_thumbnail
from ..contract.run import Result
from ..errors import NotHere
from ..live.state import Made, Run
from ..settings import Settings
from ..store.paging import FIRST_ROWS, page_of, short_values
from .made import MAX_PROMPT, is_own_file, thumbnail_path
from .runs import Runs

THUMB_SIDE = 384
THUMBNAILS = {"image": picture_thumbnail, "video": video_thumbnail, "audio": sound_thumbnail}

Found = tuple[Run, Made]


class Results:
    """Reads the book of runs; a result is there as soon as its file is whole."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self._output_dir = settings.output_dir
        self._data_dir = settings.data_dir
        self._book = runs.book

    def list(
        self, user: str, *, search: str = "", batch: str = "", limit: int = FIRST_ROWS, before: str = ""
    ) -> list[Result]:
        """Newest first, at most `limit`, behind the one whose id is `before`. Raises `NotHere`."""
        words = search.casefold().split()
        found = [
            (run, made)
            for run, made in self._all(user)
            if (not batch or run.batch == batch) and all(word in _text(run, made) for word in words)
        ]
        return [_result(*each) for each in page_of(found, lambda each: each[1].id, limit=limit, before=before)]

    def path(self, user: str, id: str) -> Path:
        """The picture, video or sound itself. Raises `NotHere`, also when the file is gone or became a link."""
        run, made = self._find(user, id)
        file = self._output_dir / made.path
        if not is_own_file(file, self._output_dir / run.folder):
            raise NotHere(f"{made.name} is not in the output folder any more; run its workflow again")
        return file

    def thumbnail(self, user: str, id: str) -> bytes:
        """WebP, made once. Raises `NotHere`, and `ValueError` for a file that is damaged."""
        file = self.path(user, id)
        kept = thumbnail_path(self._data_dir, user, id)
        if kept.is_file():
            return kept.read_bytes()
        _, made = self._find(user, id)
        options = {"frame": made.poster} if made.kind == "video" else {}
        data = THUMBNAILS[made.kind](file, side=THUMB_SIDE, **options)
        write_atomic(kept, data)
        return data

    def set_poster(self, user: str, id: str, frame: int) -> Result:
        """The frame that stands for a video wherever it is small. Raises `NotHere`, and `ValueError` for a frame that
        it has not, or what is no video.
        """
        file = self.path(user, id)
        _, made = self._find(user, id)
        if made.kind != "video":
            raise ValueError(f"{made.name} is no video, so no frame of it can stand for it; choose a video")
        write_atomic(thumbnail_path(self._data_dir, user, id), video_thumbnail(file, side=THUMB_SIDE, frame=frame))
        self._book.set_poster(user, id, frame)
        return _result(*self._find(user, id))

    def delete(self, user: str, id: str) -> None:
        """The file too. Raises `NotHere`."""
        run, made = self._find(user, id)
        file = self._output_dir / made.path
        if is_own_file(file, self._output_dir / run.folder):
            file.unlink(missing_ok=True)
        thumbnail_path(self._data_dir, user, id).unlink(missing_ok=True)
        self._book.forget_made(user, run.id, id)

    def _find(self, user: str, id: str) -> Found:
        run = self._book.maker(user, id)
        return run, next(made for made in run.made if made.id == id)

    def _all(self, user: str) -> Iterator[Found]:
        for run in self._book.of(user):
            for made in reversed(run.made):
                yield run, made


def _result(run: Run, made: Made) -> Result:
    return Result(
        **made.model_dump(exclude={"path"}),
        run=run.id,
        batch=run.batch,
        workflow_name=run.name,
        workflow_id=run.workflow_id,
        params=short_values(run.params, MAX_PROMPT),
        varied=short_values(run.varied, MAX_PROMPT),
        plan=run.plan,
        seconds=run.seconds,
    )


def _text(run: Run, made: Made) -> str:
    values = (str(value) for value in (*run.params.values(), *run.overrides.values()))
    return "\n".join((made.name, made.prompt, str(made.seed), run.name, *values)).casefold()
