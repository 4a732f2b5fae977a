"""The server as a whole: it opens its folders, keeps others out, and gives them free."""

import dataclasses
from contextlib import closing
from pathlib import Path

import pytest

from latentloom.parallel.machine.now import num_cores
from latentloom.pipelines.values import Place
from latentloom.ui.server import Server
from latentloom.ui.settings import Settings
from latentloom.ui.views.devices import asked_place


def test_a_data_folder_has_one_server_at_a_time(settings: Settings) -> None:
    with closing(Server(settings)), pytest.raises(ValueError, match="another server works with"):
        Server(settings)
    Server(settings).close()


def test_folders_are_made_and_what_was_half_done_is_removed(settings: Settings) -> None:
    left = settings.data_dir / "loom-scratch" / "left"
    left.mkdir(parents=True)
    with closing(Server(settings)) as server:
        assert settings.output_dir.is_dir()
        assert list(server.scratch.iterdir()) == []


@pytest.mark.parametrize("folder", ["data_dir", "output_dir"])
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "output", folder: tmp_path / "file" / "in"}
    with pytest.raises(ValueError, match=r"cannot be used .* choose another folder"):
        Server(Settings(**folders))


def test_a_data_folder_that_cannot_be_written_is_refused(settings: Settings) -> None:
    (settings.data_dir / "server.lock").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"cannot be written .* with --data-dir"):
        Server(settings)


def test_what_a_killed_server_was_writing_is_removed_and_nothing_else(settings: Settings) -> None:
    user = settings.data_dir / "users" / "0123456789abcdef"
    left = [user / "runs" / ".a-x1.json", user / "inputs" / ".b", user / "workflows" / "c" / ".head-x1.json"]
    left += [settings.data_dir / place for place in ("downloads/.a.tmp", "apps/.a.tmp", "shares/.a.tmp", ".queue-a")]
    kept = [user / "runs" / "a.json.damaged", user / "inputs" / "b.png", settings.data_dir / ".profile"]
    kept.append(settings.data_dir / "shares" / "a.json")
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    with closing(Server(settings)):
        assert [path.exists() for path in (*left, *kept)] == [False] * 7 + [True] * 4


def test_a_run_asks_only_for_devices_of_the_server() -> None:
    gpus = Place(devices=("cuda:0", "cuda:1"))
    two = asked_place("cpu*2", "ulysses=2", own=Place(), here=())
    assert two == Place(devices=("cpu", "cpu"), plan="ulysses=2")
    assert asked_place("", "ring=2", own=gpus, here=gpus.devices) == dataclasses.replace(gpus, plan="ring=2")
    with pytest.raises(ValueError, match="this server works on cuda:0, cuda:1"):
        asked_place("cpu", "", own=gpus, here=gpus.devices)
    with pytest.raises(ValueError, match="this server works on cuda:0, cuda:1"):
        asked_place("cuda:2", "", own=gpus, here=("cuda:0", "cuda:1", "cuda:2"))
    with pytest.raises(ValueError, match="plan"):
        asked_place("cpu", "everything=2", own=Place(), here=())


def test_a_server_with_more_ranks_than_cores_gives_its_runs_as_many() -> None:
    many = ("cpu",) * (2 * max(2, num_cores()))
    plan = f"ring={len(many)}"
    assert asked_place("", plan, own=Place(devices=many), here=()).plan == plan
    with pytest.raises(ValueError, match="cores"):
        asked_place(f"cpu*{len(many)}", "", own=Place(devices=("cpu",)), here=())
