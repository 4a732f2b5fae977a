"""A file is there whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from latentloom.nodes.files.atomic import replacing, write_atomic


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_atomic(target, b"old")
    with pytest.raises(RuntimeError), replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "old"


def test_full_disk_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is full"), replacing(tmp_path / "a.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_new_file_has_the_ordinary_mode(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.txt", b"x")
    (tmp_path / "b.txt").write_text("x")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_a_folder_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    (tmp_path / "a.txt" / "keep").write_text("x")
    with pytest.raises(ValueError, match="cannot be written"):
        write_atomic(tmp_path / "a.txt", b"x")
    assert (tmp_path / "a.txt" / "keep").read_text() == "x"
