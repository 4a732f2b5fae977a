import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.machine import machine
from latentloom.parallel.machine.machine import (
    Device,
    links_of,
    num_sockets,
    parse_devices,
    parse_matrix,
    parse_uuids,
    read_machine,
    read_wiring,
)

MATRIX = """\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tSYS\tPXB\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tPHB\tNODE\t0-47\t0\t\tN/A
GPU2\tSYS\tPHB\t X \tSYS\t48-95\t1\t\tN/A
NIC0\tPXB\tNODE\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""
UUIDS = "0, GPU-aa\n1, GPU-bb\n2, GPU-cc\n"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`gpus(4)` lets the machine have four."""
    return lambda number: monkeypatch.setattr(
        machine, "accelerators", lambda: tuple(f"cuda:{i}" for i in range(number))
    )


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`probe(code)` stands for what torch would say."""
    path = tmp_path / "probe.py"
    monkeypatch.setattr(machine, "PROBE", path)
    return lambda code: path.write_text(code) and None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu", ("cpu",)),
        ("cpu,cpu", ("cpu", "cpu")),
        ("cpu*4", ("cpu",) * 4),
        (" cpu , cpu*2 ", ("cpu",) * 3),
        ("cuda", ("cuda:0",)),
        ("cuda:2,cuda:0", ("cuda:2", "cuda:0")),
        ("cuda*4", ("cuda:0", "cuda:1", "cuda:2", "cuda:3")),
        ("all", ("cuda:0", "cuda:1", "cuda:2", "cuda:3")),
        ("cuda*2,cuda:3", ("cuda:0", "cuda:1", "cuda:3")),
    ],
)
def test_devices_are_read(text: str, expected: tuple[str, ...], gpus: Callable[[int], None]) -> None:
    gpus(4)
    assert parse_devices(text) == expected


def test_all_is_the_cpu_where_there_is_no_gpu(gpus: Callable[[int], None]) -> None:
    gpus(0)
    assert parse_devices("all") == ("cpu",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cpu,cuda:0", "mix cpu and cuda; give devices of one kind"),
        ("cuda:1,cuda*2", "name cuda:1 twice; give each rank a device of its own"),
        ("cuda,cuda:0", "name cuda:0 twice"),
        ("cuda:1,cuda:4,cuda:7", "cuda:4, cuda:7 are not on this machine; it has cpu, cuda:0, cuda:1, cuda:2, cuda:3"),
        ("cuda*5", "cuda:4 is not on this machine"),
        ("mps", "mps is not on this machine"),
        ("cpu*65", "are 65 devices; give at most 64"),
        ("cpu*0", "is no device at all; give at least one"),
        ("cpu:0", "write cpu without a number"),
        ("cuda:1*2", r"write cuda\*2 for the first two GPUs"),
        ("", "'' is no device; write cpu, cuda:1 or mps"),
        ("cpu,", "'' is no device"),
        ("all,cpu", "'all' is no device"),
        ("gpu*2", r"'gpu\*2' is no device"),
        ("cuda:-1", "is no device"),
        ("cpu*٣", "is no device"),
    ],
)
def test_devices_that_cannot_be_meant_are_refused(text: str, sentence: str, gpus: Callable[[int], None]) -> None:
    gpus(4)
    with pytest.raises(ValueError, match=sentence):
        parse_devices(text)


def test_what_torch_says_here_is_read() -> None:
    import torch

    found = read_machine(timeout_s=100)
    assert found.torch is not None, found.problem
    assert found.torch.version == torch.__version__
    assert "gloo" in found.torch.backends
    assert len(found.devices) == torch.cuda.device_count()
    assert found.torch.kernels["flash"] == "" or found.devices


def test_gpus_and_links_are_read_from_the_probe(
    probe: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "read_wiring", lambda timeout_s: {frozenset("ab"): "NVLink, 18 lanes"})
    devices = [_device("cuda:0", "a"), _device("cuda:1", "b"), _device("cuda:2", "c", problem="no kernel image")]
    peers = [[False, True, True], [True, False, True], [True, False, False]]
    torch = {"version": "2.13.0", "cuda": "13.0", "hip": "", "nccl": "2.29.7", "backends": ["gloo", "nccl"]}
    probe(f"print('a library greets')\nprint({json.dumps(json.dumps({**torch, 'devices': devices, 'peers': peers}))})")
    found = read_machine(timeout_s=30, root=_driver(tmp_path))
    assert found.torch is not None and found.torch.nccl == "2.29.7"
    assert (found.driver, found.num_listed_gpus) == ("580.65.06", 4)
    assert [device.problem for device in found.devices] == ["", "", "no kernel image"]
    assert [(link.first, link.second, link.wire, link.is_direct) for link in found.links] == [
        ("cuda:0", "cuda:1", "NVLink, 18 lanes", True),
        ("cuda:0", "cuda:2", "unknown", True),
        ("cuda:1", "cuda:2", "unknown", False),
    ]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import no_such_torch", "ended with code 1: ModuleNotFoundError"),
        ("import time; time.sleep(60)", "did not end in 1 s"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with code -9: it said nothing"),
        ("print('nothing')", "Expecting value"),
        ("", "out of range"),
    ],
)
def test_a_torch_that_fails_hangs_or_dies_is_a_problem_and_no_traceback(
    code: str, problem: str, probe: Callable[[str], None]
) -> None:
    probe(code)
    found = read_machine(timeout_s=1 if "sleep" in code else 30)
    assert found.torch is None and found.devices == ()
    assert problem in found.problem


def test_modules_beside_the_probe_do_not_stand_for_those_of_python(probe: Callable[[str], None]) -> None:
    probe("import os, sys; sys.exit(f'path {os.path.dirname(__file__) in sys.path}')")
    assert "path False" in read_machine(timeout_s=30).problem


def test_one_gpu_has_no_links() -> None:
    assert links_of((Device(**_device("cuda:0", "a")),), [[False]], {}) == ()


def test_wires_between_gpus_are_read_from_nvidias_matrix() -> None:
    assert parse_matrix(MATRIX) == {
        (0, 1): "NVLink, 18 lanes",
        (0, 2): "PCIe across CPU sockets",
        (1, 2): "PCIe by way of the CPU",
    }
    assert parse_matrix("") == parse_matrix("no devices were found\n") == {}
    assert parse_uuids(UUIDS) == {0: "aa", 1: "bb", 2: "cc"}


def test_wires_are_named_by_uuid_since_torch_may_count_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    (tmp_path / "matrix").write_text(MATRIX)
    (tmp_path / "uuids").write_text(UUIDS)
    tool.write_text(f'#!/bin/sh\nif [ "$1" = topo ]; then cat {tmp_path}/matrix; else cat {tmp_path}/uuids; fi\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert read_wiring(timeout_s=10)[frozenset(("bb", "aa"))] == "NVLink, 18 lanes"
    tool.write_text("#!/bin/sh\necho driver mismatch\nexit 9\n")
    assert read_wiring(timeout_s=10) == {}


def _device(name: str, uuid: str, *, problem: str = "") -> dict[str, Any]:
    memory = {"total_bytes": 80 << 30, "free_bytes": 79 << 30}
    return {"name": name, "title": "H100", **memory, "capability": "9.0", "uuid": uuid, "problem": problem}


def _driver(root: Path) -> Path:
    """A root with NVIDIA's kernel module and four GPUs."""
    folder = root / "proc" / "driver" / "nvidia"
    for number in range(4):
        (folder / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    (folder / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\nGCC 12"
    )
    return root


def test_sockets_are_counted_from_linux_list_of_them(tmp_path: Path) -> None:
    assert num_sockets(tmp_path) == 1
    listed = tmp_path / "sys/devices/system/node/online"
    listed.parent.mkdir(parents=True)
    for text, number in (("0", 1), ("0-1", 2), ("0-1,4", 3)):
        listed.write_text(text + "\n")
        assert num_sockets(tmp_path) == number
