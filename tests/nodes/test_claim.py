"""A folder has one writer at a time, and none for ever."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.headless.lifetime import LOCK_FILE, InUse, claim, claimed

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def other_process(folder: Path) -> Iterator[subprocess.Popen]:
    """Another process that has claimed the folder."""
    code = (
        f"import runpy, sys; runpy.run_path({str(ROOT / 'tests' / 'support' / 'checkout.py')!r})\n"
        "from pathlib import Path\nfrom latentloom.nodes.headless.lifetime import claimed\n"
        f"with claimed(Path({str(folder)!r})):\n    print('has it', flush=True)\n    sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)
    try:
        assert process.stdout is not None and process.stdout.readline() == "has it\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_second_process_is_refused_by_name_and_a_killed_one_blocks_nobody(tmp_path: Path) -> None:
    with other_process(tmp_path / "out") as process:
        words = rf"out is being written by process {process.pid} on \S+; wait until that ends, or .* --out"
        with pytest.raises(InUse, match=words), claimed(tmp_path / "out"):
            pass
        process.kill()
        process.wait()
        assert (tmp_path / "out" / LOCK_FILE).exists()
        with claimed(tmp_path / "out"):
            pass
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_its_last_holder_removed_is_not_taken_for_a_claim(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with claimed(tmp_path / "x"):
        (tmp_path / "x" / LOCK_FILE).unlink()
        with claimed(tmp_path / "x"), pytest.raises(InUse), claimed(tmp_path / "x"):
            pass


def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("latentloom.nodes.headless.lifetime._lock", refuse)
    claim(tmp_path / "a.lock").close()
    assert "cannot be locked (No locks available), so nothing keeps other processes out" in caplog.text


def test_no_output_can_be_called_like_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give a name inside"):
        Workspace(output_dir=tmp_path).output_path(LOCK_FILE, socket="name")
