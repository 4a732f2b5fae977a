"""What one rank has found out about GPUs, others are told: no kernel is tried twice, no wire proven twice."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bodies.toy_gpu import FOLDER
from latentloom.parallel.attention import choice
from latentloom.parallel.pool import known
from latentloom.parallel.pool.known import FILE, Known
from latentloom.parallel.pool.pool import Pool
from latentloom.parallel.ranks.messages import Attends, Kernels
from support.pool_processes import wait_until
from support.told import Told
from support.warm_server import pools_from, warm_server

CPU = torch.device("cpu")
PRELOAD = ["bodies.pool", "bodies.toy_gpu"]
SDPA = Kernels(found=(Attends(dtype="torch.bfloat16", kernel="sdpa", left_out=(("cudnn", "not installed"),)),))
FIRST = ["cudnn torch.bfloat16", "masks"]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the toy GPU; the ranks of this module's pools take the CPU for it."""
    folder = tmp_path_factory.mktemp("toys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        with warm_server(tmp_path_factory.mktemp("server"), PRELOAD) as server, pools_from(server):
            yield folder


@pytest.fixture
def folder(toys: Path) -> Path:
    for each in toys.iterdir():
        each.unlink()
    return toys


@pytest.fixture
def start(
    start_pool: Callable[..., Pool], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Pool]:
    """Starts a pool of three ranks that take the CPU for a GPU."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda **options: start_pool(["cpu"] * 3, preload=PRELOAD, **options)


def tried(folder: Path) -> list[str]:
    return sorted((folder / "tried").read_text().splitlines())


def attend(pool: Pool) -> list[list[str]]:
    return pool.call_every("bodies.toy_gpu:attends", {}, num_ranks=3)


def kill(pool: Pool, number: int) -> None:
    before = pool.states()[number].pid
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: pool.states()[number].pid not in (0, before) and pool.states()[number].is_ready)


def test_the_first_rank_tries_kernels_and_those_that_replace_it_or_come_with_another_pool_try_none(
    start: Callable[[], Pool], folder: Path
) -> None:
    with start() as pool:
        wait_until(lambda: all(state.is_ready for state in pool.states()))
        assert tried(folder) == FIRST
        kill(pool, 1)
        assert tried(folder) == FIRST
        assert attend(pool) == [["cudnn", "cudnn"]] * 3
        (folder / "tried").unlink()
        kill(pool, 0)
        assert attend(pool) == [["cudnn", "cudnn"]] * 3  # what a job has met later is known too
        assert not (folder / "tried").exists()
    with start() as pool:
        assert attend(pool) == [["cudnn", "cudnn"]] * 3
    assert not (folder / "tried").exists()


def test_who_waits_for_ranks_to_start_is_told_what_they_do(start: Callable[[], Pool], folder: Path) -> None:
    told = Told()
    (folder / "slow").touch()
    with Pool(["cpu"] * 2, preload=PRELOAD) as pool:
        pool.call("bodies.pool:echo", {}, told)
        kill(pool, 0)
        pool.call("bodies.pool:echo", {}, told)
    assert told.phases == ["starting ranks", "trying attention kernels on cpu"]


def test_a_spare_rank_is_told_before_it_is_needed(start: Callable[..., Pool], folder: Path) -> None:
    with start(spare_ranks=True) as pool:
        (spare,) = pool._supervisor._crew.spares.ranks
        wait_until(lambda: spare.is_ready)
        waiting = spare.pid
        kill(pool, 2)
        assert pool.states()[2].pid == waiting and tried(folder) == FIRST


def test_a_kernel_that_fails_is_tried_once_in_a_pool_and_again_in_the_next(
    start: Callable[[], Pool], folder: Path
) -> None:
    """It may have failed for want of memory."""
    (folder / "cudnn").write_text("out of memory")
    with start() as pool:
        wait_until(lambda: all(state.is_ready for state in pool.states()))
        kill(pool, 0)
        assert tried(folder) == [*FIRST, "sdpa torch.bfloat16"]
    (folder / "cudnn").unlink()
    with start() as pool:
        assert attend(pool)[0] == ["cudnn", "cudnn"]


def test_where_the_rank_that_tries_dies_another_tries(start: Callable[[], Pool], folder: Path) -> None:
    (folder / "cudnn").write_text("kills")
    with start() as pool:
        assert attend(pool) == [["cudnn", "cudnn"]] * 3
    assert tried(folder).count("cudnn torch.bfloat16") == 2


def test_what_a_file_says_that_cannot_be_is_tried_again(
    start: Callable[[], Pool], folder: Path, tmp_path: Path
) -> None:
    told = Kernels(found=(Attends(dtype="torch.bfloat16", kernel="math", left_out=()),))
    Known(tmp_path / "cache" / "latentloom").keep_kernels("a toy GPU", told)
    with start() as pool:
        assert attend(pool) == [["cudnn", "cudnn"]] * 3
    assert tried(folder)[0] == "cudnn torch.bfloat16"


# ---- the file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "3",
        '{"kinds": [], "boot": 3, "pairs": []}',
        '{"kinds": [{"gpu": "x"}], "boot": "", "pairs": []}',
    ],
    ids=["empty", "cut", "deep", "number", "type", "fields"],
)
def test_a_file_that_is_none_is_begun_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    assert Known(tmp_path).kernels("x") is None
    Known(tmp_path).keep_kernels("x", SDPA)
    assert Known(tmp_path).kernels("x") == SDPA


def test_what_cannot_be_read_or_written_is_remembered_all_the_same(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    here = Known(tmp_path)
    here.keep_kernels("x", SDPA)
    assert here.kernels("x") == SDPA and Known(tmp_path).kernels("x") is None
    alone = Known(None)
    alone.keep_proof(["a", "b"], is_good=True)
    assert alone.are_proven(["b", "a"])


def test_only_so_many_kinds_are_kept(tmp_path: Path) -> None:
    here = Known(tmp_path)
    for number in range(known.MOST + 1):
        here.keep_kernels(str(number), SDPA)
    assert len(json.loads((tmp_path / FILE).read_text())["kinds"]) == known.MOST
    assert Known(tmp_path).kernels("0") is None and Known(tmp_path).kernels("1") == SDPA


def test_wires_are_proven_once_for_each_two_gpus_and_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("one\n")
    monkeypatch.setattr(known, "BOOT", boot)
    assert not Known(tmp_path).are_proven(["a", "b"])
    Known(tmp_path).keep_proof(["a", "b", "c"], is_good=True)
    assert Known(tmp_path).are_proven(["c", "a"]) and not Known(tmp_path).are_proven(["a", "d"])
    assert not Known(tmp_path).are_proven(["a", ""]) and not Known(tmp_path).are_proven(["a"])
    Known(tmp_path).keep_proof(["a", "b"], is_good=False)
    assert Known(tmp_path).are_proven(["c", "a"]) and not Known(tmp_path).are_proven(["a", "b"])
    boot.write_text("two\n")
    assert not Known(tmp_path).are_proven(["c", "a"])


# ---- in a rank


@pytest.mark.parametrize(
    ("dtype", "name"), [("int8", "math"), ("bfloat16", "sage"), ("bfloat16", "math"), ("bfloat16", "flash3")]
)
def test_a_kernel_that_cannot_have_been_found_is_not_adopted(
    dtype: str, name: str, monkeypatch: pytest.MonkeyPatch, untried: None
) -> None:
    monkeypatch.setattr(choice, "candidates", lambda *_: ("flash3", "math"))
    monkeypatch.setattr(choice, "_is_installed", lambda package: not package)
    with pytest.raises(ValueError, match=f"{name}"):
        choice.adopt(CPU, f"torch.{dtype}", name, {})
    assert not choice.found(CPU)
    choice.adopt(CPU, "torch.bfloat16", "math", {"flash3": "it is broken"})
    assert str(choice.chosen(CPU, torch.bfloat16)) == "math (left out: flash3: it is broken)"


def test_what_decides_is_the_gpu_its_driver_and_all_versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu: dict[str, Any] = {"name": "H200", "major": 9, "minor": 0}
    driver = tmp_path / "version"
    driver.write_text("580.1\n")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: type("Properties", (), gpu))
    monkeypatch.setattr(choice, "_version_file", lambda name: driver if name == "nvidia" else tmp_path / "none")
    monkeypatch.setattr(choice, "_version", lambda package: "2.8")
    told = [choice.kind_of(torch.device("cuda:0"))]
    for change in (
        lambda: gpu.update(name="H100"),
        lambda: driver.write_text("580.2"),
        lambda: monkeypatch.setattr(torch, "__version__", "9"),
        lambda: monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91900),
        lambda: monkeypatch.setattr(choice, "_version", lambda package: "2.9"),
        lambda: monkeypatch.setattr(choice, "_stamp", lambda file: "later"),
    ):
        change()
        told.append(choice.kind_of(torch.device("cuda:0")))
    assert len(set(told)) == len(told) and choice.kind_of(CPU) == ""


def test_a_package_of_another_day_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choice._version("no_such_package") == "none"
    (tmp_path / "fast_kernel.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    before = choice._version("fast_kernel")
    os.utime(tmp_path / "fast_kernel.py", (1, 1))
    assert before != choice._version("fast_kernel") == str(10**9)
