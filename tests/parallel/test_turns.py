"""Compiled graphs are kept in a folder that is this user's alone, and of those that want one, one compiles it."""

import logging
import os
import threading
from pathlib import Path

import pytest
import torch

from latentloom.parallel.machine.folders import ASK_S
from latentloom.parallel.sharding.graphs import turns


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_folder_is_this_user_s_alone_and_found_again() -> None:
    folder = turns.cache_folder()
    assert folder == turns.cache_folder() and folder.name.startswith("compiled-")
    for each in (folder, folder.parent):
        each.chmod(0o755)
    turns.cache_folder()
    assert {each.stat().st_mode & 0o777 for each in (folder, folder.parent)} == {0o700}


@pytest.mark.parametrize("how", ["a link", "a file"])
def test_what_somebody_else_put_there_is_not_used(home: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    (home / "theirs").mkdir()
    if how == "a link":
        (home / "latentloom").symlink_to(home / "theirs")
    else:
        (home / "latentloom").write_text("")
    with caplog.at_level(logging.WARNING, logger="latentloom"):
        other = turns.cache_folder()
    assert home not in other.parents and other.stat().st_mode & 0o777 == 0o700
    assert "compiled graphs are not kept for later" in caplog.text and not list((home / "theirs").iterdir())
    other.rmdir()


def test_another_processor_or_version_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {turns.cache_folder()}
    monkeypatch.setattr(turns, "_processor", lambda: "another")
    folders.add(turns.cache_folder())
    monkeypatch.setattr("torch.__version__", "another")
    folders.add(turns.cache_folder())
    assert len(folders) == 3


def test_a_folder_that_the_user_names_is_used_and_torch_s_own_is_not(home: Path) -> None:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    before = os.environ.get(turns.VARIABLE)
    turns._folder.cache_clear()
    try:
        assert turns._use(str(home / "named")) == home / "named"
        assert turns._use(default_cache_dir()) == turns._use(None) == turns.cache_folder()
        assert os.environ[turns.VARIABLE] == str(turns.cache_folder())
    finally:
        turns._folder.cache_clear()
        os.environ.pop(turns.VARIABLE, None)
        if before is not None:
            os.environ[turns.VARIABLE] = before


def test_without_gradients_no_operator_of_a_graph_asks_for_them() -> None:
    def is_below() -> bool:
        return torch._C._dispatch_tls_local_exclude_set().has(torch._C.DispatchKey.AutogradFunctionality)

    run, weight = turns._below_autograd(lambda x: (2 * x, is_below())), torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert run(weight)[1]
    out, was_below = run(weight)
    assert out.requires_grad and not was_below and not is_below()


def test_one_compiles_and_the_others_wait_until_it_is_done(home: Path) -> None:
    running, told = threading.Event(), list[str]()

    def second() -> None:
        running.set()
        with turns._turn(home / "graph"):
            told.append("second")

    other = threading.Thread(target=second)
    with turns._turn(home / "graph"):
        other.start()
        running.wait()
        other.join(4 * ASK_S)
        told.append("first")
    other.join()
    assert told == ["first", "second"] and (home / "graph").read_bytes() == b"done"
    with turns._turn(home / "graph"), turns._turn(home / "graph"):
        pass  # of what is done nobody waits for anybody


def test_a_compiler_that_fails_or_takes_too_long_keeps_nobody_waiting(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZeroDivisionError), turns._turn(home / "graph"):
        raise ZeroDivisionError
    monkeypatch.setattr(turns, "WAIT_S", 0.0)
    with caplog.at_level(logging.WARNING, logger="latentloom"), turns._turn(home / "graph"):
        assert not caplog.text, "a turn that failed is free"
        with turns._turn(home / "graph"):
            assert "this one does so too" in caplog.text
