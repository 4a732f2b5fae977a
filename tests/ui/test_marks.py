"""Stars, tags, boards and the words that find results: each user's own, bounded, there after a restart."""

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latentloom.nodes.graph.graph import read_graph
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.registry import SPECS as REAL
from latentloom.ui.contract.bodies import MarkBody
from latentloom.ui.errors import NoRoom, NotHere
from latentloom.ui.live.state import MadeFile, RunRecord
from latentloom.ui.runs.results import MOST_TAGS, Boards, ResultFilter, Results
from latentloom.ui.runs.runs import Runs
from latentloom.ui.runs.search import terms_of
from latentloom.ui.store import quota
from latentloom.ui.store.uploads import Uploads
from latentloom.ui.worker.work import behind, told_of
from support.checkout import ROOT
from support.toy_server import finished, pictured, runs_in, settings_in


@pytest.fixture
def results(runs: Runs, tmp_path: Path) -> Results:
    for id in runs.submit("ada", pictured(), sweep=["value=1..3"]).runs:
        finished(runs, "ada", id)
    return Results(settings_in(tmp_path), runs)


def ids(found: list[Any]) -> list[str]:
    return [each.id for each in found]


def test_marks_are_kept_found_and_there_after_a_restart(runs: Runs, results: Results, tmp_path: Path) -> None:
    newest, middle, oldest = ids(results.list("ada", ResultFilter()))
    board = results.boards.add("ada", "Stars")
    change = MarkBody(ids=[newest, oldest], star=True, add_tags=[" night  sky ", "best"], add_boards=[board.id])
    [one, two] = results.mark("ada", change)
    assert (one.is_starred, one.tags, one.boards) == (True, ("night sky", "best"), (board.id,))
    assert ids([one, two]) == [newest, oldest]
    results.mark("ada", MarkBody(ids=[oldest], star=False, remove_tags=["best"]))
    assert ids(results.list("ada", ResultFilter(starred=True))) == [newest]
    assert ids(results.list("ada", ResultFilter(board=board.id))) == [newest, oldest]
    found = {
        search: ids(results.list("ada", ResultFilter(search=search)))
        for search in ("tag:best", "-is:starred", "board:star")
    }
    assert found == {"tag:best": [newest], "-is:starred": [middle, oldest], "board:star": [newest, oldest]}
    [row] = results.board_rows("ada")
    assert (row.count, row.cover) == (2, newest)
    assert [(each.tag, each.count) for each in results.tags("ada")] == [("night sky", 2), ("best", 1)]
    runs.close()
    with runs_in(tmp_path) as again:
        later = Results(settings_in(tmp_path), again)
        assert later.get("ada", newest) == one
        assert again.get("ada", one.run).nodes["save"].files == (newest,)
        later.boards.delete("ada", board.id)
        assert later.get("ada", newest).boards == () and later.get("ada", newest).is_starred


def test_marks_are_the_users_own_and_bounded(results: Results) -> None:
    [id, *_] = ids(results.list("ada", ResultFilter()))
    board = results.boards.add("bob", "bobs")
    for mark in (MarkBody(ids=[id], star=True), MarkBody(ids=[id], add_tags=["x"])):
        with pytest.raises(NotHere):
            results.mark("bob", mark)
    with pytest.raises(NotHere, match="no board"):
        results.mark("ada", MarkBody(ids=[id], add_boards=[board.id]))
    with pytest.raises(ValueError, match=f"{MOST_TAGS} are kept"):
        results.mark("ada", MarkBody.model_construct(ids=[id], add_tags=[*map(str, range(MOST_TAGS + 1))]))
    with pytest.raises(ValueError, match="give 1 to"):
        results.mark("ada", MarkBody(ids=[id], add_tags=["two\nlines"]))
    with pytest.raises(NotHere):
        results.mark("ada", MarkBody(ids=[id, "0" * 16], star=True))
    assert not results.get("ada", id).is_starred and results.tags("ada") == []
    with pytest.raises(ValueError, match="already"):
        results.boards.rename("bob", results.boards.add("bob", "other").id, "BOBS")


def test_boards_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quota.KEPT, "boards", quota.Most(words="boards", count=1, num_bytes=1 << 20))
    boards = Boards(tmp_path, quota=quota.Quota(tmp_path))
    first = boards.add("ada", "one")
    with pytest.raises(NoRoom, match="you have 1 boards"):
        boards.add("ada", "two")
    boards.delete("ada", first.id)
    assert boards.add("ada", "two").name == "two"


@pytest.mark.parametrize(
    ("search", "is_found"),
    [
        ("steps:16", True),
        ("STEPS:16.0 red", True),
        ("denoise.steps:16", True),
        ("steps:1", False),
        ("steps:>10 steps:<17", True),
        ("steps:4..8", False),
        ("dtype:aut", True),
        ("model:bobbin", True),
        ("model:flux", False),
        ('"red star"', True),
        ('-"red star"', False),
        ("kind:pictures seed:7", True),
        ("after:2026-11-22 before:2026-11-24 on:2026-11-23", True),
        ("after:2026-11-24", False),
        ("after:yesterday", False),
        ("http://x", False),
        (":: - \" 'x", False),
    ],
)
def test_values_and_dates_find_results(search: str, is_found: bool) -> None:
    workflow = read_graph(ROOT / "workflows" / "bobbin" / "first_picture.json")
    told = told_of(behind(ready(workflow, REAL), "save", {"denoise": {"steps": 16}}))
    facts: dict[str, Any] = {"id": "a", "node": "save", "kind": "image", "name": "p.png", "width": 1, "height": 1}
    made = MadeFile(**facts, **told, bytes=1, time=1795435200.0, path="p.png")  # noon of 2026-11-23 in UTC
    run = RunRecord(id="r", batch="b", name="first_picture", created=0.0, user="ada", folder="f")
    assert all(term(run, made) for term in terms_of(search, boards={})) == is_found


def test_a_result_becomes_an_input_without_a_way_over_the_page(results: Results, tmp_path: Path) -> None:
    [id, *_] = ids(results.list("ada", ResultFilter()))
    uploads = Uploads(tmp_path / "data")
    kept = uploads.copy("ada", results.path("ada", id))
    assert (kept.kind, kept.width, kept.height) == ("image", 8, 8)
    assert uploads.path("ada", kept.path).read_bytes() == results.path("ada", id).read_bytes()
    assert [row.path for row in uploads.list("ada", kind="image")] == [kept.path]
    results.delete("ada", id)
    with pytest.raises(NotHere, match="no result"):
        results.path("ada", id)
    assert Image.open(io.BytesIO(uploads.thumbnail("ada", kept.path))).format == "WEBP"


def test_results_are_found_by_the_whole_name_of_their_workflow(runs: Runs, results: Results) -> None:
    finished(runs, "ada", runs.submit("ada", pictured(name="stars")).runs[0])
    finished(runs, "ada", runs.submit("ada", pictured(name="stars too")).runs[0])
    assert [result.workflow_name for result in results.list("ada", ResultFilter(workflow="stars"))] == ["stars"]
    own = results.list("ada", ResultFilter(limit=1))[0].workflow_name
    assert own == "stars too" and results.list("bob", ResultFilter(workflow="stars")) == []
    rows = results.makers("ada")
    assert [(row.name, row.count) for row in rows if row.name.startswith("stars")] == [("stars", 1), ("stars too", 1)]
    assert sum(row.count for row in rows) == sum(
        bool(each.workflow_name) for each in results.list("ada", ResultFilter())
    )
