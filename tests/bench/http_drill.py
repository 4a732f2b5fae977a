"""Attack the page as strangers and as one of its users, and print what held.

python tests/bench/http_drill.py --seed 3 --slow-seconds 120       also --only slowloris,quotas; nothing leaves loopback
"""

import argparse
import asyncio
import base64
import contextlib
import http.client
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from http_host import Host, Tally, copy_of, hosting, opened, picture
from http_hostile import hosts, malformed, raw, traversals

HALF, BODIES, STEADY, SOCKETS, POLLERS = 900, 100, 100, 1000, 50
SLOW_S = 10.0  # a user's request that takes longer is lost
LONGEST_S = 32  # for what should be cut after 10 s: the attacker looks every 3 s, and shares the cores
MIB = 1 << 20
READ_ROUTES = ("/loom/me", "/loom/workflows", "/loom/runs", "/loom/drafts", "/loom/results", "/loom/uploads")


class Watch:
    """A user who works meanwhile: a request on a connection of its own, four times a second."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.seconds: list[float] = []
        self.failed: list[str] = []
        self.is_over = False

    def work(self) -> None:
        number = 0
        while not self.is_over:
            number += 1
            start = time.monotonic()
            try:
                if number % 10:
                    answer = self.host.ask("ann", "GET", READ_ROUTES[number % len(READ_ROUTES)], timeout=SLOW_S)
                else:
                    data = {"graph": {"note": number}}
                    answer = self.host.send_json("ann", "PUT", "/loom/drafts/other", data)
                if answer.status != 200:
                    self.failed.append(f"{answer.status} {answer.data[:80]!r}")
            except (OSError, EOFError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
            self.seconds.append(time.monotonic() - start)
            time.sleep(0.25)

    @contextlib.contextmanager
    def working(self, tally: Tally) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self.work)
            try:
                yield
            finally:
                self.is_over = True
                done.result()
        tally.attempts += len(self.seconds)
        tally.held += len(self.seconds) - len(self.failed)
        tally.lost += [f"a user's request while it went on: {why}" for why in self.failed]
        tally.note += f"; the user's {len(self.seconds)} requests took {spread(self.seconds)}"


@dataclass(frozen=True)
class Trickle:
    """What a slow attacker sends after the first lines, a piece every so many seconds."""

    begin: bytes
    piece: bytes = b"a"
    every_s: float = 3.0


FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
HEADER = Trickle(b"X-A: ")
BODY = Trickle(FORM + b"Content-Length: 16000\r\n\r\n")
# At 1.1 KiB a second, which is just enough not to be cut.
STEADY_BODY = Trickle(FORM + b"Content-Length: 16000\r\n\r\n", b"a" * 1127, 1.0)


async def slow(port: int, source: str, sent: Trickle, until: float, seen: Counter[str]) -> None:
    """One attacker, who comes again when it is cut."""
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n" + sent.begin
    while time.monotonic() < until:
        try:
            reader, writer = await opened(port, source, head)
        except (OSError, TimeoutError):
            await asyncio.sleep(0.5)
            continue
        seen["opened"] += 1
        seen["now"] += 1
        seen["most"] = max(seen["most"], seen["now"])
        start = time.monotonic()
        with contextlib.suppress(OSError):
            while not reader.at_eof() and time.monotonic() < until:
                writer.write(sent.piece)
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), sent.every_s)
        seen["oldest"] = max(seen["oldest"], int(time.monotonic() - start))
        seen["now"] -= 1
        writer.close()


def slowloris(host: Host, chance: random.Random, seconds: float) -> Tally:
    """Half of the headers come from the user's own address; bodies come from one other, and fill its share."""
    tally, seen = Tally(), Counter[str]()

    async def all_of_them() -> None:
        until = time.monotonic() + seconds
        sources = ["127.0.0.1" if n % 2 else f"127.0.0.{chance.randrange(2, 30)}" for n in range(HALF)]
        attackers = [slow(host.port, source, HEADER, until, seen) for source in sources]
        attackers += [slow(host.port, "127.0.0.77", BODY, until, seen) for _ in range(BODIES)]
        attackers += [slow(host.port, "127.0.0.77", STEADY_BODY, until, seen) for _ in range(STEADY)]
        await asyncio.gather(*attackers)

    with Watch(host).working(tally):
        asyncio.run(all_of_them())
    tally.count(seen["opened"] >= HALF + BODIES, f"only {seen['opened']} slow requests came through")
    tally.count(seen["oldest"] <= LONGEST_S, f"a half sent request was held for {seen['oldest']} s")
    made = f"{seen['opened']} slow requests, at most {seen['most']} at a time"
    tally.note = f"{made}, the longest lived {seen['oldest']} s{tally.note}"
    return tally


def flood(host: Host, chance: random.Random, seconds: float) -> Tally:
    """Connections that come as fast as they can, and say nothing or rubbish."""
    tally, made = Tally(), Counter[str]()

    async def one(number: int) -> None:
        try:
            data = chance.choice([b"", b"\0" * 50, b"GET / HTTP/1.1\r\n", chance.randbytes(200)])
            _, writer = await opened(host.port, f"127.0.0.{number % 40 + 1}", data)
            made["made"] += 1
            await asyncio.sleep(chance.random())
            writer.close()
        except (OSError, TimeoutError):
            made["refused"] += 1

    async def all_of_them() -> None:
        for _ in range(5):
            await asyncio.gather(*(one(number) for number in range(1000)))

    with Watch(host).working(tally):
        asyncio.run(all_of_them())
    tally.count(made["made"] >= 1000, f"only {made['made']} connections came through")
    tally.note = f"{made['made']} connections, {made['refused']} refused" + tally.note
    return tally


def quotas(host: Host, chance: random.Random, seconds: float) -> Tally:
    """Bob fills what can be filled until he is refused, with a quota of 48 MiB."""
    tally, counts = Tally(), list[str]()
    big = {"format": 1, "name": "big", "description": "x" * (3 * MIB), "nodes": {}}
    upload = host.ask("bob", "POST", "/loom/uploads", picture(1), X_Name="b.png").json()["path"]
    long_run = copy_of(upload) | {"description": "x" * (3 * MIB)}
    ways: dict[str, Callable[[int], object]] = {
        "uploads": lambda n: host.ask("bob", "POST", "/loom/uploads", picture(n + 2, 1200), X_Name=f"{n}.png"),
        "drafts": lambda n: host.send_json("bob", "PUT", f"/loom/drafts/d{n}", {"graph": big}),
        "workflows": lambda n: host.send_json("bob", "POST", "/loom/workflows", {"graph": big}),
        "runs": lambda n: host.send_json("bob", "POST", "/loom/runs", {"graph": long_run}),
        "gradio": lambda n: host.ask("bob", "POST", "/gradio_api/upload", b"x" * MIB, Content_Type="text/plain"),
    }
    for kind, way in ways.items():
        answers = []
        while len(answers) < 60 and (not answers or answers[-1].status in (200, 201)):
            answers.append(way(len(answers)))
        last = answers[-1]
        is_told = last.status == 507 and "delete some" in last.json()["error"]
        is_held = last.status in (404, 413) if kind == "gradio" else is_told
        tally.count(is_held, f"{kind}: {len(answers)} were taken, then {last.status} {last.data[:100]!r}")
        counts.append(f"{kind} {len(answers) - 1}")
        empty(host)
        if kind != "uploads":
            continue
        upload = host.ask("bob", "POST", "/loom/uploads", picture(1), X_Name="b.png").json()["path"]
        long_run = copy_of(upload) | {"description": "x" * (3 * MIB)}
    tally.note = "taken before the refusal: " + ", ".join(counts)
    return tally


def empty(host: Host) -> None:
    """Bob deletes all that he has, as he is told to."""
    for path, key in (("workflows", "id"), ("drafts", "key"), ("runs", "id"), ("uploads", "path")):
        for row in host.ask("bob", "GET", f"/loom/{path}?limit=1000").json():
            if path == "uploads" and row["bytes"] < MIB:
                continue
            if path == "runs":
                host.send_json("bob", "POST", f"/loom/runs/{row['id']}/cancel", {})
                host.wait_for("bob", row["id"])
            host.ask("bob", "DELETE", f"/loom/{path}/{row[key]}")


def websockets(host: Host, chance: random.Random, seconds: float) -> Tally:
    """A thousand of one user, while another works."""
    tally, statuses = Tally(), Counter[str]()

    async def one(number: int, gate: asyncio.Event) -> None:
        key = base64.b64encode(chance.randbytes(16)).decode()
        head = raw(host, "GET", "/loom/live", f"Upgrade: websocket\r\nSec-WebSocket-Key: {key}\r\n")[:-2]
        head = head.replace(b"Connection: close", b"Connection: Upgrade") + b"Sec-WebSocket-Version: 13\r\n\r\n"
        try:
            reader, writer = await opened(host.port, f"127.0.0.{number % 20 + 1}", head)
            statuses[(await asyncio.wait_for(reader.read(1000), 60))[9:12].decode() or "closed"] += 1
            await gate.wait()
            writer.close()
        except (OSError, TimeoutError) as error:
            statuses[type(error).__name__] += 1

    async def all_of_them() -> None:
        gate = asyncio.Event()
        tasks = [asyncio.create_task(one(number, gate)) for number in range(SOCKETS)]
        await asyncio.sleep(15)
        gate.set()
        await asyncio.gather(*tasks)

    with Watch(host).working(tally):
        asyncio.run(all_of_them())
    tally.count(0 < statuses["101"] <= 64, f"{statuses['101']} of one user's websockets are open")
    tally.note = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items())) + tally.note
    return tally


def pollers(host: Host, chance: random.Random, seconds: float) -> Tally:
    """Fifty read long lists all the time."""
    tally, took = Tally(), list[float]()
    long = {"format": 1, "name": "long", "description": "x" * MIB, "nodes": {}}
    for _ in range(12):
        host.send_json("bob", "POST", "/loom/workflows", {"graph": long})
    end = time.monotonic() + 10

    def poll() -> None:
        while time.monotonic() < end:
            start = time.monotonic()
            try:
                answer = host.ask("bob", "GET", chance.choice(READ_ROUTES))
                tally.count(
                    answer.status == 200 and len(answer.data) < MIB, f"{answer.status}, {len(answer.data)} bytes"
                )
            except (OSError, http.client.HTTPException) as error:
                tally.count(False, repr(error))
            took.append(time.monotonic() - start)

    with ThreadPoolExecutor(POLLERS) as pool:
        for done in [pool.submit(poll) for _ in range(POLLERS)]:
            done.result()
    tally.note = f"{len(took)} lists took {spread(took)}"
    empty(host)
    return tally


def spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    at = [statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]]
    return "median {:.3f}, p99 {:.3f}, most {:.3f} s".format(*at)


ATTACKS: dict[str, Callable[[Host, random.Random, float], Tally]] = {
    "slowloris": slowloris,
    "flood": flood,
    "quotas": quotas,
    "traversals": traversals,
    "hosts": hosts,
    "malformed": malformed,
    "websockets": websockets,
    "pollers": pollers,
}
FEW = ("slowloris", "flood")  # once more against a server with 256 descriptors


def attacked(names: list[str], seed: int, seconds: float, descriptors: int) -> bool:
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "secret.txt").write_text("root:x:0")
        with hosting(Path(folder), "--user-quota", str(48 / 1024), descriptors=descriptors) as host:
            for name in names:
                start = time.monotonic()
                tally = ATTACKS[name](host, random.Random(f"{seed} {name}"), seconds)
                lost = [*tally.lost, *host.losses()]
                label = f"{name} ({descriptors} descriptors)" if descriptors else name
                row = f"{label:<28} {tally.attempts:>8} {tally.held:>8} {len(lost):>6}"
                print(f"{row}  {tally.note} ({time.monotonic() - start:.0f} s)", flush=True)
                for why, number in Counter(lost).most_common(5):
                    print(f"    lost {number} x: {why}", flush=True)
                is_good = is_good and not lost
    return is_good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow-seconds", type=float, default=120.0)
    parser.add_argument("--only", default=",".join(ATTACKS), help="some of " + ",".join(ATTACKS))
    asked = parser.parse_args()
    names = [name for name in asked.only.split(",") if name]
    if unknown := sorted(set(names) - set(ATTACKS)):
        parser.error(f"there is no attack {', '.join(unknown)}; name some of {', '.join(ATTACKS)}")
    print(f"{'attack':<28} {'attempts':>8} {'held':>8} {'lost':>6}", flush=True)
    is_good = attacked(names, asked.seed, asked.slow_seconds, 0)
    if few := [name for name in names if name in FEW]:
        is_good = attacked(few, asked.seed, asked.slow_seconds / 4, 256) and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
