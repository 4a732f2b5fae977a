"""The processes behind a pool's ranks, as the kernel knows them."""

import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

WAIT_S = 60.0


def server_of(pool: Any) -> int:
    """The pid of the fork server, the parent of the ranks; waits until all are there."""
    found = [""]

    def is_there() -> bool:
        states = pool.states()
        found[0] = field(states[0].pid, "PPid")  # "" where it has died, and that was not heard of
        return bool(found[0]) and all(state.is_ready for state in states)

    wait_until(is_there)
    return int(found[0])


def spare_of(pool: Any) -> int:
    """The pid of the server's spare; waits until it has said that it is ready and sleeps: only then it does not die
    with its server any more.
    """
    spares = set[int]()

    def is_there() -> bool:
        spare = pool._supervisor._crew._spare._process
        if spare is not None and spare.pid and field(spare.pid, "State")[:1] == "S":
            spares.update({spare.pid} & children_of(server_of(pool)))
        return bool(spares)

    wait_until(is_there)
    return spares.pop()


def children_of(pid: int) -> set[int]:
    """Also the dead that nobody has buried."""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return {each for each in pids if field(each, "PPid") == str(pid)}


def field(pid: int, name: str) -> str:
    """A line of what the kernel says of a process; "" where there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")


def alive_with(words: str) -> list[int]:
    """Processes that were started with these words in their environment, or whose parents were."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and words.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if not is_gone(pid)]


def is_gone(pid: int) -> bool:
    """Whether it has ended; somebody may yet have to bury it."""
    return field(pid, "State")[:1] in ("", "Z")


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, f"not so after {WAIT_S:g} s"
        time.sleep(0.01)


def be(program: str, environment: dict[str, str], told: Connection) -> None:
    """In a forked process: this program, with nothing but this environment; it says numbers."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = environment["TMPDIR"]
    exec(program, {"say": lambda *numbers: told.send(numbers)})  # noqa: S102 - it is a test's
