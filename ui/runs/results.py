"""The results of all runs: pictures, videos and sounds by id, with what made them; and boards, named sets of them."""

import builtins
import contextlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ...nodes.files.atomic import write_atomic
from ...nodes.files.thumbnails import picture_thumbnail, sound_thumbnail, video_thumbnail
from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ...pipelines.models.regular_file import read_regular
from ..contract.bodies import MarkBody
from ..contract.run import Board, BoardRow, Kind, Maker, Result, TagRow
from ..errors import NotHere
from ..live.state import MadeFile, RunRecord
from ..settings import Settings
from ..store import user_files
from ..store.paging import FIRST_ROWS, MAX_PROMPT, MAX_ROWS, Before, Limit, page_of, short_values
from ..store.quota import Quota
from .runs import Runs
from .search import terms_of

THUMB_SIDE = 384
MOST_TAGS = 32  # of one result; so many boards, too, may have it
MOST_BOARDS = 32

Found = tuple[RunRecord, MadeFile]


class ResultFilter(BaseModel):
    """Which results a list has; what is empty asks for nothing."""

    search: Annotated[
        str,
        Field(max_length=400, description="Words, and what values were: `star steps:16 tag:best is:starred -blue`."),
    ] = ""
    batch: Annotated[str, Field(max_length=64)] = ""
    kind: Kind | None = None
    board: Annotated[str, Field(max_length=64)] = ""
    workflow: Annotated[str, Field(max_length=200, description="The whole name of the workflow.")] = ""
    starred: bool = False
    limit: Limit = FIRST_ROWS
    before: Before = ""


class Boards:
    """Threads share it."""

    def __init__(self, data_dir: Path, *, quota: Quota) -> None:
        self._data_dir = data_dir
        self._quota = quota
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Board]] = {}  # by user and id, once somebody asked

    def of(self, user: str) -> dict[str, Board]:
        """By id, in the order of their names."""
        with self._lock:
            return dict(sorted(self._read(user).items(), key=lambda each: each[1].name.casefold()))

    def add(self, user: str, name: str) -> Board:
        """Raises `ValueError`, also for a name that is taken."""
        board = Board(id=user_files.fresh_id(), name=user_files.checked_name(name), created=time.time())
        return self._write(user, board)

    def rename(self, user: str, id: str, name: str) -> Board:
        """Raises `NotHere`, and `ValueError` for a name that is none or is taken."""
        return self._write(user, self.get(user, id).model_copy(update={"name": user_files.checked_name(name)}))

    def delete(self, user: str, id: str) -> None:
        """The results stay. Raises `NotHere`."""
        self.get(user, id)
        with self._lock:
            path = self._path(user, id)
            with self._quota.changing(user, "boards", path, count=-path.exists()):
                path.unlink(missing_ok=True)
            self._read(user).pop(id, None)

    def get(self, user: str, id: str) -> Board:
        with self._lock:
            found = self._read(user).get(id)
        if found is None:
            raise user_files.nothing(id, "board")
        return found

    def _write(self, user: str, board: Board) -> Board:
        with self._lock:
            known = self._read(user)
            if any(other.name.casefold() == board.name.casefold() and other.id != board.id for other in known.values()):
                raise BadInput("there is a board {!r} already; use it, or choose another name", board.name[:50])
            is_new = board.id not in known
            self._quota.check(user, "boards", num_bytes=len(board.model_dump_json()), count=int(is_new))
            path = self._path(user, board.id)
            with self._quota.changing(user, "boards", path, count=int(is_new)):
                user_files.write_record(path, board)
            known[board.id] = board
            return board

    def _read(self, user: str) -> dict[str, Board]:
        if user not in self._known:
            paths = sorted(self._path(user, "").parent.glob("[!.]*.json"))
            boards = (user_files.read_record(path, Board) for path in paths)
            self._known[user] = {board.id: board for board in boards if board is not None}
        return self._known[user]

    def _path(self, user: str, id: str) -> Path:
        return user_files.user_folder(self._data_dir, user) / "boards" / f"{id}.json"


class Results:
    """Reads the book of runs; a result is there as soon as its file is whole."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self.boards = Boards(settings.data_dir, quota=runs.book.records.quota)
        self._output_dir = settings.output_dir
        self._data_dir = settings.data_dir
        self._book = runs.book

    def list(self, user: str, asked: ResultFilter) -> builtins.list[Result]:
        """Newest first. Raises `NotHere`."""
        boards = self.boards.of(user)
        terms = terms_of(asked.search, boards={id: each.name for id, each in boards.items()})

        def is_asked(run: RunRecord, made: MadeFile) -> bool:
            return (
                asked.batch in ("", run.batch)
                and asked.kind in (None, made.kind)
                and asked.board in ("", *made.boards)
                and asked.workflow in ("", run.name)
                and (made.is_starred or not asked.starred)
                and all(term(run, made) for term in terms)
            )

        # the last row that was seen is a place in the list, whatever its marks are by now
        found = [(run, made) for run, made in self._all(user) if made.id == asked.before or is_asked(run, made)]
        rows = page_of(found, lambda each: each[1].id, limit=asked.limit, before=asked.before)
        return [_result(*each, boards) for each in rows]

    def get(self, user: str, id: str) -> Result:
        return _result(*self._find(user, id), self.boards.of(user))

    def mark(self, user: str, change: MarkBody) -> builtins.list[Result]:
        """Change marks of some results, of all or none. Raises `NotHere`, and `ValueError` where they are too many."""
        boards = self.boards.of(user)
        for id in change.add_boards:
            self.boards.get(user, id)
        tags = [" ".join(user_files.checked_name(tag).split()) for tag in change.add_tags]
        change = change.model_copy(update={"add_tags": tags})
        ids = dict.fromkeys(change.ids)
        self._book.mark(user, {id: _marked(self._find(user, id)[1], change, boards) for id in ids})
        return [self.get(user, id) for id in ids]

    def board_rows(self, user: str) -> builtins.list[BoardRow]:
        """The user's boards by name, with how many results each has."""
        on: defaultdict[str, list[str]] = defaultdict(list)
        for _, made in self._all(user):
            for board in made.boards:
                on[board].append(made.id)
        return [
            BoardRow(**dict(board), count=len(on[id]), cover=next(iter(on[id]), None))
            for id, board in self.boards.of(user).items()
        ]

    def makers(self, user: str) -> builtins.list[Maker]:
        """The names of the workflows that made the user's results, in order; at most `MAX_ROWS`."""
        counts = Counter(run.name for run, _ in self._all(user) if run.name)
        rows = sorted(counts.items(), key=lambda each: each[0].casefold())
        return [Maker(name=name, count=count) for name, count in rows[:MAX_ROWS]]

    def tags(self, user: str) -> builtins.list[TagRow]:
        """All that the user gave, those of most results first; at most `MAX_ROWS`."""
        counts = Counter(tag for _, made in self._all(user) for tag in made.tags)
        rows = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        return [TagRow(tag=tag, count=count) for tag, count in rows[:MAX_ROWS]]

    def path(self, user: str, id: str) -> Path:
        """The picture, video or sound itself. Raises `NotHere`, also when the file is gone or became a link."""
        run, made = self._find(user, id)
        file = self._output_dir / made.path
        if not user_files.is_own_file(file, self._output_dir / run.folder):
            raise NotHere(worded("{} is not in the output folder any more; run its workflow again", made.name))
        return file

    def thumbnail(self, user: str, id: str) -> bytes:
        """WebP, made once. Raises `NotHere`, and `ValueError` for a file that is damaged."""
        file = self.path(user, id)
        kept = user_files.thumbnail_path(self._data_dir, user, id)
        if kept.is_file():
            return read_regular(kept)
        _, made = self._find(user, id)
        if made.kind == "video":
            data = video_thumbnail(file, side=THUMB_SIDE, frame=made.poster)
        else:
            data = (sound_thumbnail if made.kind == "audio" else picture_thumbnail)(file, side=THUMB_SIDE)
        write_atomic(kept, data, is_private=True)
        return data

    def set_poster(self, user: str, id: str, frame: int) -> Result:
        """The frame that stands for a video. Raises `NotHere`, and `ValueError` for one it has not, or no video."""
        file = self.path(user, id)
        _, made = self._find(user, id)
        if made.kind != "video":
            raise BadInput("{} is no video, so no frame of it can stand for it; choose a video", made.name)
        data = video_thumbnail(file, side=THUMB_SIDE, frame=frame)
        write_atomic(user_files.thumbnail_path(self._data_dir, user, id), data, is_private=True)
        self._book.mark(user, {id: {"poster": frame}})
        return self.get(user, id)

    def delete(self, user: str, id: str) -> None:
        run, _ = self._find(user, id)
        with contextlib.suppress(NotHere):
            self.path(user, id).unlink(missing_ok=True)
        user_files.thumbnail_path(self._data_dir, user, id).unlink(missing_ok=True)
        self._book.forget_made(user, run.id, id)

    def _find(self, user: str, id: str) -> Found:
        run = self._book.maker(user, id)
        return run, next(made for made in run.made if made.id == id)

    def _all(self, user: str) -> Iterator[Found]:
        for run in self._book.of(user):
            for made in reversed(run.made):
                yield run, made


def _result(run: RunRecord, made: MadeFile, boards: Mapping[str, Board]) -> Result:
    known = made.model_copy(update={"boards": tuple(id for id in made.boards if id in boards)})
    return Result(
        **known.model_dump(exclude={"path", "words"}),
        **run.model_dump(include={"batch", "workflow_id", "plan", "seconds"}),
        run=run.id,
        workflow_name=run.name,
        params=short_values(run.params, MAX_PROMPT),
        varied=short_values(run.varied, MAX_PROMPT),
    )


def _marked(made: MadeFile, change: MarkBody, boards: Mapping[str, Board]) -> dict[str, Any]:
    """The new marks of one result; boards that were deleted are left out. Raises `ValueError`."""
    tags = _changed(made.tags, change.add_tags, change.remove_tags)
    on = _changed((id for id in made.boards if id in boards), change.add_boards, change.remove_boards)
    if len(tags) > MOST_TAGS:
        raise BadInput("{} would have {} tags, and {} are kept; take some away first", made.name, len(tags), MOST_TAGS)
    if len(on) > MOST_BOARDS:
        raise BadInput(
            "{} would be on {} boards, and {} are kept; take it off some first", made.name, len(on), MOST_BOARDS
        )
    is_starred = made.is_starred if change.star is None else change.star
    return {"is_starred": is_starred, "tags": tags, "boards": on}


def _changed(known: Iterable[str], added: Iterable[str], removed: Iterable[str]) -> tuple[str, ...]:
    gone = set(removed)
    return tuple(each for each in dict.fromkeys((*known, *added)) if each not in gone)
