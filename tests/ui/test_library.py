"""The library: saved workflows with versions and folders, drafts, shares; what is refused, and what outlives damage."""

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latentloom.nodes.graph.graph import graph_from_plain, graph_text, graph_to_plain, read_graph
from latentloom.nodes.registry import SPECS
from latentloom.ui.contract.bodies import DraftBody
from latentloom.ui.errors import Conflict, NoRoom, NotHere
from latentloom.ui.library import drafts, library, workflow_files
from latentloom.ui.library.library import Library
from latentloom.ui.live.live import Live, PageSeen
from latentloom.ui.store import quota
from latentloom.ui.store.user_files import checked_folder, checked_name, remove_leftovers
from support.prepared import check
from support.toy_server import graph, png, settings_in


@pytest.fixture
def shelf(tmp_path: Path) -> Library:
    return Library(settings_in(tmp_path), Live())


def workflow(value: int = 0, **parts: Any) -> Any:
    return graph({"number": ("Number", {"value": value})}, **parts)


def sent(folder: Path, data: bytes) -> Path:
    file = folder / "sent"
    file.write_bytes(data)
    return file


def test_a_saved_workflow_is_there_again_after_a_restart(shelf: Library, tmp_path: Path) -> None:
    made = shelf.create("ada", workflow(3), name="Ünïcode ☆", folder="mine / stars")
    assert (made.name, made.folder, made.version, made.num_nodes) == ("Ünïcode ☆", "mine/stars", 1, 1)
    again = Library(settings_in(tmp_path), Live())
    assert again.list("ada") == [made]
    found = again.get("ada", made.id)
    assert found.graph["name"] == "Ünïcode ☆" and found.graph["nodes"]["number"]["inputs"] == {"value": 3}


def test_every_version_can_be_had_and_an_old_one_put_back(shelf: Library) -> None:
    id = shelf.create("ada", workflow(1)).id
    assert shelf.save("ada", id, workflow(2), base_version=1).version == 2
    old = shelf.graph("ada", id, 1)
    assert shelf.save("ada", id, old, base_version=2).version == 3
    assert [each.version for each in shelf.versions("ada", id)] == [3, 2, 1]
    assert shelf.get("ada", id).graph["nodes"]["number"]["inputs"] == {"value": 1}
    with pytest.raises(NotHere, match="version 9"):
        shelf.get("ada", id, 9)


def test_saving_what_is_there_makes_no_version(shelf: Library) -> None:
    id = shelf.create("ada", workflow(1)).id
    assert shelf.save("ada", id, workflow(1), base_version=1).version == 1


def test_saving_over_somebody_elses_change_is_a_conflict(shelf: Library) -> None:
    id = shelf.create("ada", workflow(1)).id
    shelf.save("ada", id, workflow(2), base_version=1)
    with pytest.raises(Conflict, match="it is at version 2"):
        shelf.save("ada", id, workflow(3), base_version=1)


def test_the_oldest_versions_go_when_there_are_too_many(
    shelf: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "MAX_VERSIONS", 3)
    id = shelf.create("ada", workflow(0)).id
    for number in range(1, 5):
        shelf.save("ada", id, workflow(number), base_version=number)
    assert [each.version for each in shelf.versions("ada", id)] == [5, 4, 3]
    assert sorted(path.name for path in tmp_path.glob(f"data/users/*/workflows/{id}/*.json")) == [
        "3.json",
        "4.json",
        "5.json",
        "head.json",
    ]


def test_what_a_client_may_run_is_listed_without_opening_it(
    shelf: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {"steps": {"type": "int", "default": 7}, "prompt": {"type": "string"}}
    id = shelf.create("ada", graph({"number": ("Number", {"value": "$steps"})}, params=params), name="star").id
    monkeypatch.setattr(library.user_files, "read_graph_file", lambda path: 1 / 0)
    for each in (shelf, Library(settings_in(tmp_path), Live())):
        [head] = each.heads("ada")
        found = head.model_dump(include={"id", "name", "description", "params"})
        assert found == {"id": id, "name": "star", "description": "", "params": {"steps": 7, "prompt": None}}


def test_rename_move_duplicate_and_delete(shelf: Library, tmp_path: Path) -> None:
    id = shelf.create("ada", workflow(1)).id
    shelf.put_thumbnail("ada", id, sent(tmp_path, png()))
    assert shelf.change("ada", id, name="new").name == "new"
    assert shelf.change("ada", id, folder="a/b").folder == "a/b"
    copy = shelf.duplicate("ada", id)
    assert (copy.name, copy.folder, copy.version, copy.has_thumb) == ("new (copy)", "a/b", 1, True)
    shelf.delete("ada", id)
    assert [each.id for each in shelf.list("ada")] == [copy.id]
    assert not list(tmp_path.glob(f"data/users/*/workflows/{id}"))
    with pytest.raises(NotHere, match="no workflow"):
        shelf.get("ada", id)


def test_a_duplicate_is_there_with_its_picture_or_is_refused(shelf: Library, tmp_path: Path) -> None:
    id = shelf.create("ada", workflow()).id
    shelf.put_thumbnail("ada", id, sent(tmp_path, png(400, 300)))
    room = len(shelf.thumbnail("ada", id))
    most = sum(shelf._quota.used("ada").values())
    shelf._quota._user_bytes = most + room + 10  # for the picture, and not for the workflow too
    with pytest.raises(NoRoom):
        shelf.duplicate("ada", id)
    assert [row.id for row in shelf.list("ada")] == [id]


def test_pages_hear_of_each_change(tmp_path: Path) -> None:
    live, seen = Live(), PageSeen()
    shelf = Library(settings_in(tmp_path), live)
    live.changes("ada", seen)
    shelf.create("ada", workflow())
    message = live.changes("ada", seen)
    assert message is not None and message.library == 1


def test_thumbnails_are_written_anew_and_strangers_files_refused(shelf: Library, tmp_path: Path) -> None:
    id = shelf.create("ada", workflow()).id
    with pytest.raises(NotHere, match="no picture yet"):
        shelf.thumbnail("ada", id)
    shelf.put_thumbnail("ada", id, sent(tmp_path, png(900, 300) + b"<script>"))
    data = shelf.thumbnail("ada", id)
    assert b"<script>" not in data and Image.open(io.BytesIO(data)).size == (512, 171)
    for bad, words in (
        (b"GIF89a", "not a picture"),
        (png()[:40], "cut short|not a picture"),
        (png(5000, 5000), "5000"),
    ):
        with pytest.raises(ValueError, match=words):
            shelf.put_thumbnail("ada", id, sent(tmp_path, bad))
    assert shelf.thumbnail("ada", id) == data
    assert not list(tmp_path.glob("data/users/*/workflows/*/.*"))


def test_a_share_shows_the_newest_version_to_everybody_until_it_is_deleted(shelf: Library, tmp_path: Path) -> None:
    id = shelf.create("ada", workflow(1), name="star").id
    token = shelf.share("ada", id)
    assert shelf.share("ada", id) == token
    shelf.save("ada", id, workflow(2), base_version=1)
    again = Library(settings_in(tmp_path), Live())
    shared = again.shared(token)
    assert shared.graph["nodes"]["number"]["inputs"] == {"value": 2}
    again.delete("ada", id)
    for wrong in (token, "../../users", "", "x" * 22):
        with pytest.raises(NotHere, match="shared under this link"):
            again.shared(wrong)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x00b", "x" * 201, "right\u202eleft", "\ud800"])
def test_names_without_sense_are_refused(shelf: Library, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 200 characters"):
        checked_name(name)
    with pytest.raises(ValueError, match="1 to 200 characters"):
        shelf.create("ada", workflow(), name=name)


@pytest.mark.parametrize("folder", ["..", "a/../b", "a\nb", "/".join("abcdefghi"), "x" * 201])
def test_folders_without_sense_are_refused(folder: str) -> None:
    with pytest.raises(ValueError, match="the folder is"):
        checked_folder(folder)


def test_folders_are_tidied() -> None:
    assert checked_folder(" /a // b /") == "a/b"
    assert checked_name("  a/b..\\c  ") == "a/b..\\c"


def test_there_is_a_limit_to_workflows(shelf: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quota.KEPT, "workflows", quota.Most(words="saved workflows", count=1, num_bytes=1 << 30))
    shelf.create("ada", workflow())
    with pytest.raises(NoRoom, match="you have 1 saved workflows, and 1 are kept; delete some"):
        shelf.create("ada", workflow())
    shelf.create("bob", workflow())


def test_a_workflow_that_is_too_large_is_refused(shelf: Library) -> None:
    with pytest.raises(ValueError, match="are kept; split it"):
        shelf.create("ada", workflow(description="x" * (5 << 20)))
    assert shelf.list("ada") == []


def test_a_damaged_head_is_made_anew_from_the_versions(shelf: Library, tmp_path: Path) -> None:
    id = shelf.create("ada", workflow(1), name="star").id
    shelf.save("ada", id, workflow(2).model_copy(update={"name": "star"}), base_version=1)
    [head] = tmp_path.glob(f"data/users/*/workflows/{id}/head.json")
    head.write_text("{")
    again = Library(settings_in(tmp_path), Live())
    [found] = again.list("ada")
    assert (found.name, found.version) == ("star", 2)
    assert head.with_name("head.json.damaged").is_file()


def test_a_file_that_cannot_be_read_for_a_while_is_not_put_aside(
    shelf: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = shelf.create("ada", workflow(1), name="star", folder="mine").id
    shelf.drafts.put("ada", "tab", DraftBody(graph={"name": "half"}))

    def refuse(path: Path, *arguments: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    with monkeypatch.context() as broken:
        broken.setattr("latentloom.ui.store.user_files.read_regular", refuse)
        broken.setattr(Path, "open", refuse)
        broken.setattr("latentloom.nodes.graph.problems.open_regular", refuse)
        again = Library(settings_in(tmp_path), Live())
        assert again.list("ada") == again.drafts.list("ada") == []
        with pytest.raises(NotHere):
            shelf.get("ada", id)
    assert not list(tmp_path.rglob("*.damaged"))
    again = Library(settings_in(tmp_path), Live())
    assert (again.get("ada", id).folder, again.drafts.get("ada", "tab").name) == ("mine", "half")


def test_a_workflow_that_was_half_deleted_when_the_server_was_killed_stays_deleted(
    shelf: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = shelf.create("ada", workflow(1)).id
    monkeypatch.setattr(workflow_files.shutil, "rmtree", lambda folder, **how: (folder / "head.json").unlink())
    shelf.delete("ada", id)
    assert Library(settings_in(tmp_path), Live()).list("ada") == []
    monkeypatch.undo()
    remove_leftovers(tmp_path / "data")
    assert not list(tmp_path.rglob("1.json"))


def test_a_workflow_that_cannot_be_deleted_stays(
    shelf: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = shelf.create("ada", workflow(1)).id
    token = shelf.share("ada", id)

    def refuse(path: Path, target: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ValueError, match=r"cannot be deleted \(Read-only"):
        shelf.delete("ada", id)
    assert shelf.shared(token).name == shelf.get("ada", id).name


def test_a_damaged_version_is_put_aside_and_the_others_open(shelf: Library, tmp_path: Path) -> None:
    id = shelf.create("ada", workflow(1)).id
    shelf.save("ada", id, workflow(2), base_version=1)
    [path] = tmp_path.glob(f"data/users/*/workflows/{id}/2.json")
    path.write_text("[" * 1000)
    with pytest.raises(NotHere, match="open another version"):
        shelf.get("ada", id)
    assert shelf.get("ada", id, 1).graph["nodes"]["number"]["inputs"] == {"value": 1}


def test_drafts_keep_whatever_was_on_the_canvas(shelf: Library, tmp_path: Path) -> None:
    plain = {"name": "half", "nodes": {"x": {"type": "Unknown", "odd": [1, {"deep": "\ud800"}]}}}
    shelf.drafts.put("ada", "tab-1", DraftBody(graph=plain, workflow_id="abc", base_version=4))
    again = Library(settings_in(tmp_path), Live()).drafts
    [listed] = again.list("ada")
    assert (listed.key, listed.name, listed.workflow_id) == ("tab-1", "half", "abc")
    assert "graph" not in listed
    assert again.get("ada", "tab-1").graph["nodes"]["x"]["type"] == "Unknown"
    assert again.list("bob") == []
    again.delete("ada", "tab-1")
    with pytest.raises(NotHere, match="no such draft"):
        again.get("ada", "tab-1")


def test_a_draft_that_is_being_written_is_not_listed(shelf: Library, tmp_path: Path) -> None:
    shelf.drafts.put("ada", "tab", DraftBody(graph={"name": "half"}))
    [path] = tmp_path.glob("data/users/*/drafts/tab.json")
    path.with_name(".tab-x1y2.json").write_text('{"key": "tab", "na')
    again = Library(settings_in(tmp_path), Live()).drafts
    assert [each.key for each in again.list("ada")] == ["tab"]
    assert path.with_name(".tab-x1y2.json").is_file()


def test_draft_keys_are_no_paths_and_drafts_are_bounded(shelf: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("../x", "a/b", "", "x" * 65, "a.b"):
        with pytest.raises(NotHere, match="no key"):
            shelf.drafts.put("ada", key, DraftBody(graph={}))
    monkeypatch.setattr(drafts, "MAX_BYTES", 200)
    with pytest.raises(ValueError, match="make it smaller"):
        shelf.drafts.put("ada", "a", DraftBody(graph={"text": "x" * 200}))
    monkeypatch.setattr(drafts, "MAX_DRAFTS", 2)
    for key in "abc":
        shelf.drafts.put("ada", key, DraftBody(graph={}))
    assert {each.key for each in shelf.drafts.list("ada")} == {"b", "c"}


def test_the_file_is_what_the_command_line_runs(shelf: Library) -> None:
    id = shelf.create("ada", workflow(4)).id
    text = graph_text(shelf.graph("ada", id))
    assert graph_to_plain(read_graph(text)) == json.loads(text) == shelf.get("ada", id).graph


def test_templates_say_which_run_here_and_what_the_others_lack(client: Any) -> None:
    needs = {each["id"]: each for each in client.get("/loom/templates/needs").json()}
    assert needs.keys() == {each["id"] for each in client.get("/loom/templates").json()}
    runs = {id for id, each in needs.items() if each["runs"]}
    assert runs >= {"first_picture", "image_to_image", "inpaint", "upscale_and_refine"}
    flux = needs["flux_kontext"]
    assert (flux["runs"], flux["model"]) == (False, "black-forest-labs/FLUX.1-Kontext-dev")
    assert "fit here" in flux["fit"] or "fits here" in flux["fit"]  # by the memory of the machine that tests
    assert {needs[id]["fit"] for id in runs} == {""}
    assert client.get("/loom/templates/files/picture.png").headers["content-type"] == "image/png"
    assert client.get("/loom/templates/files/first_picture.json").status_code == 404


def test_each_node_is_shown_at_work_by_a_workflow_that_opens(client: Any) -> None:
    templates = {each["id"]: each for each in client.get("/loom/templates").json()}
    for type in SPECS:
        use = client.get(f"/loom/nodes/{type}/use").json()
        assert use["example"] is not None, f"no shipped workflow has a {type}"
        graph = graph_from_plain(use["example"]["graph"])
        assert graph.nodes[use["node"]].type == type
        assert [problem.code for problem in check(graph, SPECS)] == [], type
        assert use["needs"]["runs"] or use["needs"]["why"], type
        having = {
            id for id, each in templates.items() if any(n["type"] == type for n in each["graph"]["nodes"].values())
        }
        assert set(use["templates"]) == having


def test_a_node_that_is_not_here_has_no_example(client: Any) -> None:
    answer = client.get("/loom/nodes/LoomNone/use")
    assert answer.status_code == 404 and "there is no node 'LoomNone'" in answer.json()["error"]
