"""Attack the page as strangers and as one of its users, and print what held.

python tests/bench/http_drill.py --seed 3 --slow-seconds 120       also --only slowloris,quotas; nothing leaves loopback
"""

import argparse
import asyncio
import base64
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from http_host import Host, copy_of, hosting, picture

HALF, BODIES, SOCKETS, POLLERS = 900, 100, 1000, 50
SLOW_S = 10.0
"""A user's request that takes longer is lost."""
LONGEST_S = 32
"""For what should be cut after 10 s: the attacker looks every 3 s, and shares the cores."""
MIB = 1 << 20
READ_ROUTES = ("/loom/me", "/loom/workflows", "/loom/runs", "/loom/drafts", "/loom/results", "/loom/uploads")
NAMED_ROUTES = (
    "/loom/workflows/{}", "/loom/runs/{}", "/loom/files/{}", "/loom/files/{}/thumb", "/loom/uploads/{}/thumb",
    "/loom/drafts/{}", "/loom/shared/{}", "/loom/static/{}", "/gradio_api/file={}", "/file={}", "/static/{}",
    "/assets/{}", "/gradio_api/proxy={}", "/theme.css/{}", "/custom_component/{}/client/x/y",
)  # fmt: skip
TRICKS = (
    "../secret.txt", "..%2fsecret.txt", "%2e%2e%2fsecret.txt", "%252e%252e%252fsecret.txt", "..%5csecret.txt",
    "..%c0%afsecret.txt", "....//secret.txt", "/etc/passwd", "%2fetc%2fpasswd", "file:%2f%2f%2fetc%2fpasswd", "%00",
    "a%00.png", "~root", "%ff%fe", "%e2%80%ae", "users.txt", "../users.txt", "../../../../../../etc/passwd",
)  # fmt: skip
STRANGERS = ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "169.254.169.254", "[::", "a b", "")
ORIGINS = ("https://evil.example", "null", "http://127.0.0.1:3000", "http://[", "file://", "http://localhost:1")
SECRETS = (b"root:x:0", b"ann-secret", b"bob-secret")


@dataclass
class Tally:
    """What became of one attack."""

    attempts: int = 0
    held: int = 0
    lost: list[str] = field(default_factory=list)
    note: str = ""

    def count(self, is_held: bool, why: str) -> None:
        self.attempts += 1
        self.held += is_held
        if not is_held:
            self.lost.append(why)


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
            except (OSError, EOFError) as error:
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


async def opened(port: int, source: str, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)), 20)
    writer.write(data)
    return reader, writer


async def slow(port: int, source: str, is_body: bool, until: float, seen: Counter[str]) -> None:
    """One attacker: sends a byte every few seconds, and comes again when it is cut."""
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n" + (b"Content-Length: 100000\r\n\r\n" if is_body else b"X-A: ")
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
                writer.write(b"a")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), 3)
        seen["oldest"] = max(seen["oldest"], int(time.monotonic() - start))
        seen["now"] -= 1
        writer.close()


def slowloris(host: Host, chance: random.Random, seconds: float) -> Tally:
    """Half of the headers come from the user's own address."""
    tally, seen = Tally(), Counter[str]()

    async def all_of_them() -> None:
        until = time.monotonic() + seconds
        sources = ["127.0.0.1" if n % 2 else f"127.0.0.{chance.randrange(2, 30)}" for n in range(HALF + BODIES)]
        await asyncio.gather(*(slow(host.port, s, n >= HALF, until, seen) for n, s in enumerate(sources)))

    with Watch(host).working(tally):
        asyncio.run(all_of_them())
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
                while host.ask("bob", "GET", f"/loom/runs/{row['id']}").json()["state"] == "running":
                    time.sleep(0.05)
            host.ask("bob", "DELETE", f"/loom/{path}/{row[key]}")


def traversals(host: Host, chance: random.Random, seconds: float) -> Tally:
    asked = [
        (method, route.format(trick)) for route in NAMED_ROUTES for trick in TRICKS for method in ("GET", "DELETE")
    ]
    return refusals(host, [raw(host, method, path) for method, path in chance.sample(asked, 400)])


def hosts(host: Host, chance: random.Random, seconds: float) -> Tally:
    paths = ("/", "/loom/me", "/loom/workflows", "/config", "/gradio_api/queue/join", "/login")
    asked = [raw(host, m, path, host_name=name) for m in ("GET", "POST") for path in paths for name in STRANGERS]
    asked += [raw(host, m, path, f"Origin: {o}\r\n") for m in ("GET", "POST") for path in paths for o in ORIGINS]
    return refusals(host, asked, may_pass=False)


def malformed(host: Host, chance: random.Random, seconds: float) -> Tally:
    """Rubbish in each part of a request, NUL bytes, and bodies that are or claim to be giant."""
    routes = ("/loom/runs", "/loom/workflows", "/loom/check", "/loom/open", "/gradio_api/queue/join", "/login")
    bodies = [b"", b"{", b"[" * 100_000, b'{"graph": NaN}', b'"\xed\xa0\x80"', b'{"graph": "\\ud800"}', b"\0" * 1000]
    bodies += [chance.randbytes(chance.randrange(5000)) for _ in range(20)]
    asked = [raw(host, "POST", path, "Content-Type: application/json\r\n", body) for path in routes for body in bodies]
    parts = (b"\0", b"\r\n", b"\xff\xfe", b" ", b"A" * 100_000, b"%00", b"\x7f")
    asked += [b"GET /loom/" + part + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" for part in parts]
    asked += [b"GET /loom/me HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: " + part + b"\r\n\r\n" for part in parts[:5]]
    asked += [raw(host, "GET", path) for path in ("/loom/me?a=%00", "/loom/files/%00", "/gradio_api/file=%00")]
    asked += [raw(host, "GET", f"/gradio_api/proxy=http://{name}/") for name in ("%00", "127.0.0.1", "[::1", "a%00b")]
    for length in ("10000000000", "-1", "0x10", "1e9", "9" * 40):
        asked += [raw(host, "POST", path, f"Content-Length: {length}\r\n", b"x", is_sized=False) for path in routes]
    chunk = b"100000\r\n" + b"[" * (1 << 20) + b"\r\n"
    for path in routes[:3]:
        asked.append(
            raw(host, "POST", path, "Transfer-Encoding: chunked\r\n", chunk * 30 + b"0\r\n\r\n", is_sized=False)
        )
    return refusals(host, asked)


def refusals(host: Host, asked: list[bytes], *, may_pass: bool = True) -> Tally:
    """Each is answered with neither a failure of the server nor anything secret, or its connection is closed."""
    tally, statuses = Tally(), Counter[str]()

    async def one(data: bytes) -> bytes:
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await opened(host.port, "127.0.0.1", data)
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(writer.drain(), 20)
            answer = b""
            with contextlib.suppress(OSError, TimeoutError):
                answer = await asyncio.wait_for(reader.read(1 << 16), 20)
            writer.close()
            return answer
        return b""

    async def all_of_them() -> list[bytes]:
        limit = asyncio.Semaphore(20)

        async def turn(data: bytes) -> bytes:
            async with limit:
                return await one(data)

        return await asyncio.gather(*(turn(data) for data in asked))

    for data, answer in zip(asked, asyncio.run(all_of_them()), strict=True):
        status = answer[9:12].decode("latin-1") or "closed"
        statuses[status] += 1
        is_fair = status == "closed" or status[0] == "4" or (may_pass and status[0] in "23")
        is_held = is_fair and not any(secret in answer for secret in SECRETS)
        tally.count(is_held, f"{data[:80]!r} is answered {answer[:120]!r}")
    tally.note = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items()))
    return tally


def raw(host: Host, method: str, path: str, headers: str = "", body: bytes = b"", **how: str | bool) -> bytes:
    """A request of Bob's exactly as it is written; for another `host_name`, or with no length (`is_sized`)."""
    name = how.get("host_name", f"127.0.0.1:{host.port}")
    sized = f"Content-Length: {len(body)}\r\n" if how.get("is_sized", True) else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: {name}\r\nCookie: {host.cookies['bob']}\r\n"
    return (head + headers + sized + "Connection: close\r\n\r\n").encode("latin-1", "replace") + body


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
            except OSError as error:
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
FEW = ("slowloris", "flood")
"""Once more against a server with 256 descriptors."""


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
