"""The watchdog: what winds it, what lets it run out, and that a stop does not."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

from latentloom.ui.watchdog import TURN_S, watched

SERVER = """
import asyncio, sys, threading
from latentloom.ui.watchdog import watched
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
with watched(loop, limit_s=0.3):
    print("up", flush=True)
    for line in sys.stdin:
        if line == "hold\\n":
            loop.call_soon_threadsafe(lambda: round(5, -300_000_000))
        print("here", flush=True)
print("through", flush=True)
sum(range(30_000_000))  # nothing is watched any more
print("end", flush=True)
"""


class Loop:
    """A loop that turns when a test says so."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_soon_threadsafe(self, turn: Any) -> None:
        self.due.append(turn)

    def call_later(self, delay_s: float, turn: Any) -> None:
        assert delay_s == TURN_S
        self.due.append(turn)

    def turn(self) -> None:
        self.due.pop(0)()


def test_each_turn_of_the_loop_winds_the_timer_and_the_end_stops_it() -> None:
    loop: Any = Loop()
    wound: list[float] = []
    with watched(loop, limit_s=5.0, wind=wound.append):
        assert wound == []
        loop.turn()
        loop.turn()
        assert wound == [5.0, 5.0]
    loop.turn()
    assert wound == [5.0, 5.0, 0] and loop.due == []


def serving() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SERVER]
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert server.stdout is not None and server.stdout.readline() == "up\n"
    return server


def test_a_server_whose_loop_is_held_up_writes_all_stacks_and_ends() -> None:
    with serving() as server:
        assert server.stdin is not None and server.stderr is not None
        try:
            print("hold", file=server.stdin, flush=True)  # and no end of its input: it would watch no more
            server.wait(60)
            stacks = server.stderr.read()
        finally:
            server.kill()
    assert server.returncode == -signal.SIGPROF
    assert stacks.count("hread 0x") >= 2 and "in <lambda>" in stacks and "in run_forever" in stacks


def test_a_server_that_was_stopped_for_longer_goes_on_and_is_not_watched_when_it_ends() -> None:
    with serving() as server:
        assert server.stdin is not None and server.stdout is not None
        server.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED)
        time.sleep(0.4)
        server.send_signal(signal.SIGCONT)
        print("on", file=server.stdin, flush=True)
        assert server.stdout.readline() == "here\n"
        said, _ = server.communicate(timeout=60)
    assert (server.returncode, said) == (0, "through\nend\n")
