"""Quotas: what each user keeps is counted as it changes, and refused in one sentence where it would be too much."""

import contextlib
import io
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.ui.contract.bodies import DraftBody
from latentloom.ui.errors import NoRoom
from latentloom.ui.library.library import Library
from latentloom.ui.live.live import Live
from latentloom.ui.store import quota
from latentloom.ui.store.quota import KEPT, OWN, Most, Quota, size_of
from latentloom.ui.store.user_files import user_folder
from support.toy_server import finished, pictured, reset, runs_in, settings_in

EMPTY = {"format": 1, "name": "empty", "nodes": {}}


def on_disk(data_dir: Path, user: str, *folders: str) -> int:
    kept = user_folder(data_dir, user)
    return sum(path.stat().st_size for name in folders for path in (kept / name).rglob("*") if path.is_file())


def picture() -> bytes:
    file = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(file, "PNG")
    return file.getvalue()


def test_what_is_counted_is_what_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.ui.library.library.MAX_VERSIONS", 2)
    kept = Quota(tmp_path / "data")
    shelf = Library(settings_in(tmp_path), Live(), quota=kept)
    id = shelf.create("ada", graph_from_plain(EMPTY)).id
    for base in (1, 2, 3):
        shelf.save("ada", id, graph_from_plain(EMPTY | {"description": "x" * base}), base_version=base)
    (tmp_path / "small.png").write_bytes(picture())
    shelf.put_thumbnail("ada", id, tmp_path / "small.png")
    gone = shelf.duplicate("ada", id).id
    shelf.change("ada", gone, name="another")
    for key in ("a", "b", "a"):
        shelf.drafts.put("ada", key, DraftBody(graph={"text": key * 100}))
    shelf.drafts.delete("ada", "b")
    for _ in range(2):
        used = kept.used("ada")
        assert used["workflows"] == on_disk(tmp_path / "data", "ada", "workflows")
        assert used["drafts"] == on_disk(tmp_path / "data", "ada", "drafts")
        assert used == Quota(tmp_path / "data").used("ada"), "as another server finds it"
        shelf.delete("ada", gone) if gone else None
        gone = ""


def test_a_change_that_fails_counts_the_bytes_it_left_and_no_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = Most(words="drafts", count=1, num_bytes=1000)
    monkeypatch.setitem(KEPT, "drafts", most)
    kept = Quota(tmp_path / "data")
    file = tmp_path / "half"
    with pytest.raises(OSError), kept.changing("ada", "drafts", file, count=1):
        file.write_bytes(b"x" * 100)
        raise OSError("the disk is full")
    assert kept.used("ada")["drafts"] == 100
    kept.check("ada", "drafts", num_bytes=0, count=1)  # the one that failed is none
    with kept.changing("ada", "drafts", file, count=1):
        file.write_bytes(b"x" * 50)
    assert kept.used("ada")["drafts"] == 50
    with pytest.raises(NoRoom, match="you have 1 drafts, and 1 are kept"):
        kept.check("ada", "drafts", num_bytes=0, count=1)


def test_runs_and_results_count_and_go_with_their_run(tmp_path: Path) -> None:
    reset()
    kept = Quota(tmp_path / "data")
    with runs_in(tmp_path, quota=kept) as runs:
        run = finished(runs, "ada", runs.submit("ada", pictured(), sweep=["value=1..2"]).runs[1])
        used = kept.used("ada")
        assert used["results"] >= sum(made.bytes for made in run.made) > 0
        assert used["runs"] == on_disk(tmp_path / "data", "ada", "runs", "batches")
        for each in runs.list("ada"):
            runs.delete("ada", finished(runs, "ada", each.id).id)
        assert set(kept.used("ada").values()) == {0}


def test_no_run_starts_for_a_user_whose_results_fill_the_quota(tmp_path: Path) -> None:
    kept = Quota(tmp_path / "data", user_bytes=1000)
    kept.add("ada", "results", num_bytes=1001, count=1)
    with runs_in(tmp_path, quota=kept) as runs:
        with pytest.raises(NoRoom, match="are pictures, videos and sounds; delete some of these"):
            runs.submit("ada", pictured())
        assert runs.list("ada") == []
    own = Quota(tmp_path / "data", user_bytes=10_000, counts_results=False)
    own.add("ada", "results", num_bytes=10_001, count=1)
    own.check("ada", "runs", num_bytes=9000)


def test_two_runs_that_are_asked_for_at_once_do_not_both_take_the_last_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KEPT, "runs", Most(words="runs", count=1, num_bytes=1 << 30))
    both, checking = threading.Barrier(2), Quota.check

    def slow(self: Quota, user: str, kind: Any, **more: Any) -> None:
        checking(self, user, kind, **more)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # for the other one, who cannot come where one waits for the other

    monkeypatch.setattr(Quota, "check", slow)
    with runs_in(tmp_path, quota=Quota(tmp_path / "data")) as runs, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(runs.submit, "ada", pictured()) for _ in range(2)]
        assert sorted(each.exception() is None for each in asked) == [False, True]
        assert len(runs.list("ada")) == 1


@pytest.mark.parametrize("kind", list(KEPT))
def test_each_kind_has_its_limit_for_one_user_and_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.setitem(KEPT, kind, Most(words="things", count=2, num_bytes=100))
    monkeypatch.setattr(quota, "ALL_TIMES", 2)
    kept = Quota(tmp_path)
    kept.add("ada", kind, num_bytes=90, count=2)
    with pytest.raises(NoRoom, match="you have 2 things, and 2 are kept; delete some"):
        kept.check("ada", kind, num_bytes=1, count=1)
    if kind not in OWN:
        with pytest.raises(NoRoom, match=r"your things take .* delete some"):
            kept.check("ada", kind, num_bytes=11)
    kept.check("bob", kind, num_bytes=10, count=1)
    kept.add("bob", kind, num_bytes=1, count=2)
    with pytest.raises(NoRoom, match="all users together have 4 things, and 4 are kept"):
        kept.check("eve", kind, num_bytes=1, count=1)


def test_the_disk_itself_is_never_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(quota, "FREE_BYTES", free * 2)
    with pytest.raises(NoRoom, match=r"disk has .* left, and .* stay free; delete some drafts, or tell who"):
        Quota(tmp_path).check("ada", "drafts", num_bytes=1)
    monkeypatch.setattr(quota, "FREE_BYTES", free // 2)
    with pytest.raises(NoRoom, match="disk has"):
        Quota(tmp_path, user_bytes=free * 2).check("ada", "results", num_bytes=free)


def test_counting_looks_at_no_more_files_than_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(quota, "size_of", lambda path: looked.append(path) or size_of(path))
    shelf = Library(settings_in(tmp_path), Live())
    for number in range(30):
        shelf.drafts.put("ada", f"d{number}", DraftBody(graph={}))
    looked.clear()
    shelf.drafts.put("ada", "d3", DraftBody(graph={"more": 1}))
    assert {path.name for path in looked} == {"d3.json"}


def test_a_full_user_is_answered_507_with_what_to_delete_and_the_others_go_on(
    log_in: Any, server: Any, settings: Any
) -> None:
    server.library._quota._counts_results = True
    ann, bob = log_in("ann"), log_in("bob")
    server.library._quota.add("ann", "uploads", num_bytes=KEPT["uploads"].num_bytes, count=1)
    server.library._quota.add("ann", "results", num_bytes=settings.user_bytes, count=1)
    big = {"graph": EMPTY | {"description": "x" * 1000}}
    asked = [
        ("POST", "/loom/workflows", {"json": big}),
        ("PUT", "/loom/drafts/a", {"json": big}),
        ("POST", "/loom/uploads", {"content": picture(), "headers": {"X-Name": "a.png"}}),
    ]
    for method, path, body in asked:
        refused = ann.request(method, path, **body)
        assert refused.status_code == 507, (path, refused.text)
        assert " GiB of " in refused.json()["error"] and "delete some" in refused.json()["error"]
        assert bob.request(method, path, **body).status_code in (200, 201)
    assert json.loads(ann.get("/loom/workflows").text) == []


def test_each_user_is_shown_what_takes_how_much_of_his_quota(log_in: Any, server: Any, settings: Any) -> None:
    server.quota._counts_results = True
    ann, bob = log_in("ann"), log_in("bob")
    assert ann.put("/loom/drafts/a", json={"graph": EMPTY}).status_code in (200, 201)
    server.quota.add("ann", "results", num_bytes=5000, count=2)
    kept, others = ann.get("/loom/kept").json(), bob.get("/loom/kept").json()
    rows = {row["kind"]: row for row in kept["kinds"]}
    assert rows["results"] == {
        "kind": "results",
        "num_bytes": 5000,
        "count": 2,
        "most_count": KEPT["results"].count,
        "is_counted": True,
    }
    assert rows["drafts"]["count"] == 1
    assert kept["num_bytes"] == sum(row["num_bytes"] for row in rows.values()) and kept["free_bytes"] > 0
    assert (kept["most_bytes"], others["num_bytes"]) == (settings.user_bytes, 0)
