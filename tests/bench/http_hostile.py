"""Requests that no browser would send: each is refused, and nothing secret is told."""

import asyncio
import contextlib
import random
from collections import Counter

from http_host import Host, Tally, opened

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
