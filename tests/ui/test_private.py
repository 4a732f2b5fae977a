"""What a server keeps is for its own account alone; its results are as open as any file that the user makes."""

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.pipelines.doctor.system import system_checks
from latentloom.ui.access.connections import NOT_ACCEPTED, Seldom
from latentloom.ui.contract.bodies import DraftBody
from latentloom.ui.server import Server
from support.toy_server import copying, finished

MINE = 0o700, 0o600


def modes(folder: Path) -> dict[str, int]:
    """Of the folder and of all that is in it."""
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


def test_all_that_a_server_keeps_is_for_its_account_and_its_results_are_not(
    settings: Any, server: Any, tmp_path: Path
) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "cat.png")
    graph = graph_from_plain(copying(server.uploads.add("local", "cat.png", tmp_path / "cat.png").path))
    id = server.library.create("local", graph).id
    server.library.put_thumbnail("local", id, tmp_path / "cat.png")
    server.library.share("local", id)
    server.library.drafts.put("local", "a", DraftBody(graph={"text": "a"}))
    run = finished(server.runs, "local", server.runs.submit("local", graph).runs[0])
    (made,) = [file for node in run.nodes.values() for file in node.files]
    server.results.thumbnail("local", made)
    found = modes(settings.data_dir)
    assert len(found) > 20 and "server.lock" in found
    assert {name: mode for name, mode in found.items() if mode not in MINE} == {}
    (tmp_path / "usual").write_text("")
    assert server.results.path("local", made).stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "folder").mkdir()
    assert settings.output_dir.stat().st_mode == (tmp_path / "folder").stat().st_mode


def test_a_folder_that_others_can_read_stays_so_and_is_told(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.data_dir.mkdir(mode=0o755)
    with caplog.at_level(logging.WARNING, "latentloom"), closing(Server(settings)):
        assert settings.data_dir.stat().st_mode & 0o777 == 0o755
        assert modes(settings.data_dir / "loom-scratch") == {".": 0o700}
    told = f"can look into {settings.data_dir}; close it with: chmod -R go-rwx {settings.data_dir}"
    assert told in caplog.text
    (found,) = system_checks(cache_dir=None, data_dir=settings.data_dir, num_gpus=0)["privacy"]()
    assert found.state == "warning" and "chmod -R go-rwx" in found.mend
    settings.data_dir.chmod(0o700)
    (found,) = system_checks(cache_dir=None, data_dir=settings.data_dir, num_gpus=0)["privacy"]()
    assert found.state == "ok"


def test_of_a_thousand_websockets_that_are_refused_one_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test-websockets")
    logger.addFilter(Seldom())
    for _ in range(1000):
        logger.error(NOT_ACCEPTED)
    logger.error("something else")
    assert [each.message.partition(";")[0] for each in caplog.records] == ["a websocket was refused", "something else"]
