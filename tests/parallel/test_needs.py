import os
import socket
import sys
from pathlib import Path

import pytest

from latentloom.parallel.machine.needs import NEEDS, loopback_interface, memory_file, process_descriptor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks run on Linux")


@pytest.mark.parametrize("name", NEEDS)
def test_this_system_has_what_ranks_need_and_trying_leaves_nothing_open(name: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    NEEDS[name]()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_a_system_lacks_is_an_oserror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "eth0")])
    for trial in (memory_file, process_descriptor, loopback_interface):
        with pytest.raises(OSError, match=r"there is no interface called lo|this system has no"):
            trial()
