"""The API's routes about results: found, marked, put on boards, used as inputs, their models hashed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ..contract.bodies import BoardBody, Empty, HashBody, MarkBody, PosterBody
from ..contract.kept import Upload
from ..contract.run import Board, BoardRow, Hashing, Kind, Maker, Result, TagRow
from ..server import Server
from ..store.paging import FIRST_ROWS
from .requests import Before, Id, Limit, User

Search = Annotated[
    str, Query(max_length=400, description="Words, and what values were: `star steps:16 tag:best is:starred -blue`.")
]


def add_routes(router: APIRouter, server: Server) -> None:
    _add_results(router, server)
    _add_boards(router, server)
    _add_hashes(router, server)


def _add_results(router: APIRouter, server: Server) -> None:
    results, uploads, intake = server.results, server.uploads, server.intake

    @router.get("/results")
    def list_results(
        user: User,
        search: Search = "",
        batch: Annotated[str, Query(max_length=64)] = "",
        kind: Kind | None = None,
        board: Annotated[str, Query(max_length=64)] = "",
        workflow: Annotated[str, Query(max_length=200, description="The whole name of the workflow.")] = "",
        starred: bool = False,
        limit: Limit = FIRST_ROWS,
        before: Before = "",
    ) -> list[Result]:
        """Pictures, videos and sounds, newest first, with the beginning of what long texts they were made from."""
        return results.list(
            user,
            search=search,
            batch=batch,
            kind=kind,
            board=board,
            workflow=workflow,
            starred=starred,
            limit=limit,
            before=before,
        )

    @router.get("/results/{id}")
    def get_result(id: Id, user: User) -> Result:
        return results.get(user, id)

    @router.delete("/results/{id}", status_code=204)
    def delete_result(id: Id, user: User) -> None:
        """Delete a picture, video or sound, its file too."""
        results.delete(user, id)

    @router.post("/results/marks")
    def mark_results(body: MarkBody, user: User) -> list[Result]:
        """Change stars, tags and boards of some results: of all or, where one is refused, of none."""
        return results.mark(user, body)

    @router.post("/results/{id}/input", status_code=201)
    async def use_result(id: Id, body: Empty, user: User) -> Upload:
        """Keep a result among the user's inputs; `path` is what Load Image, Load Audio or Load Video takes."""
        return await intake.look(lambda: uploads.copy(user, results.path(user, id)))

    @router.put("/results/{id}/poster")
    async def set_poster(id: Id, body: PosterBody, user: User) -> Result:
        """Choose the frame that stands for a video."""
        return await intake.look(results.set_poster, user, id, body.frame)

    @router.get("/makers")
    def list_makers(user: User) -> list[Maker]:
        """The names of the workflows that made the user's results."""
        return results.makers(user)

    @router.get("/tags")
    def list_tags(user: User) -> list[TagRow]:
        """Those that the user's results have, most used first."""
        return results.tags(user)


def _add_boards(router: APIRouter, server: Server) -> None:
    boards, results = server.results.boards, server.results

    @router.get("/boards")
    def list_boards(user: User) -> list[BoardRow]:
        """Named sets of results, by name."""
        return results.board_rows(user)

    @router.post("/boards", status_code=201)
    def create_board(body: BoardBody, user: User) -> Board:
        return boards.add(user, body.name)

    @router.patch("/boards/{id}")
    def rename_board(id: Id, body: BoardBody, user: User) -> Board:
        return boards.rename(user, id, body.name)

    @router.delete("/boards/{id}", status_code=204)
    def delete_board(id: Id, user: User) -> None:
        """The results on it stay."""
        boards.delete(user, id)


def _add_hashes(router: APIRouter, server: Server) -> None:
    hashes = server.hashes

    @router.post("/hashes", status_code=201)
    def hash_model(body: HashBody, user: User) -> Hashing:
        """Begin to read all weights of a run's model, in the background, for their sha256."""
        return hashes.ask(user, body.run, body.node)

    @router.get("/hashes/{id}")
    def get_hash(id: Id, user: User) -> Hashing:
        """How far it is, and what was found."""
        return hashes.get(user, id)

    @router.delete("/hashes/{id}", status_code=204)
    def cancel_hash(id: Id, user: User) -> None:
        hashes.cancel(user, id)
