"""Who may ask: the file of users, the address, Host, Origin, and a login for each of our routes."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from latentloom.ui.address import address_of
from latentloom.ui.auth import MAX_TRIES, login, read_users
from latentloom.ui.origin import Door, _own_names, is_loopback
from latentloom.ui.settings import Settings

LOCAL = Door(host="127.0.0.1")
PUBLIC = Door(host="0.0.0.0")
PROXIED = Door(host="127.0.0.1", public_netloc="media.example.org")


def users_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "users.txt"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_users_are_read_from_lines_of_name_and_password(tmp_path: Path) -> None:
    text = "# the team\nann:se:cret \n\nbob:x\n"
    assert read_users(users_file(tmp_path, text)) == {"ann": "se:cret ", "bob": "x"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no user"),
        ("ann", "line 1 .* is no name:password"),
        ("ann:", "is no name:password"),
        ("../ann:x", "is no name:password"),
        ("ann:x\nAnn:y", "names Ann again"),
    ],
)
def test_a_wrong_file_of_users_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_users(users_file(tmp_path, text))


def test_a_file_of_users_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chmod 600"):
        read_users(users_file(tmp_path, "ann:x", mode=0o644))


def test_a_missing_or_binary_file_of_users_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_users(tmp_path / "none.txt")
    (tmp_path / "users.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not text"):
        read_users(tmp_path / "users.txt")


def test_login_takes_the_right_password_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.ui.auth.WRONG_S", 0.0)
    tries = [("ann", "secret"), ("ann", "Secret"), ("ann", ""), ("eve", "secret"), ("eve", ""), ("ann", "gehe\u00fcm")]

    async def answers() -> list[bool]:
        check = login({"ann": "secret"})
        return [await check(*each) for each in tries]

    assert asyncio.run(answers()) == [True, False, False, False, False, False]


def test_who_tries_many_passwords_at_once_learns_no_more_than_who_tries_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right one among many does not stand out by its quick answer."""
    monkeypatch.setattr("latentloom.ui.auth.WRONG_S", 0.05)

    async def seconds() -> tuple[float, float]:
        check, start = login({"ann": "secret", "bob": "x"}), time.monotonic()
        guesses = [asyncio.create_task(check("ann", f"guess {number}")) for number in range(6)]
        right, other = asyncio.create_task(check("ann", "secret")), asyncio.create_task(check("bob", "x"))
        assert await other
        others = time.monotonic() - start
        assert await right and not any([await guess for guess in guesses])
        return time.monotonic() - start, others

    took, others = asyncio.run(seconds())
    assert others < 0.05 < 0.3 <= took


def test_passwords_that_wait_to_be_tried_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.ui.auth.WRONG_S", 0.0)

    async def answers() -> list[Any]:
        check = login({"ann": "secret"})
        tries = [check("ann", "guess") for _ in range(MAX_TRIES)]
        return await asyncio.gather(*tries, check("ann", "secret"), return_exceptions=True)

    *wrong, refused = asyncio.run(answers())
    assert not any(wrong)
    assert isinstance(refused, HTTPException) and refused.status_code == 429


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "media.example.org"])
def test_a_public_address_needs_a_login(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="add --auth FILE"):
        Settings(host=host, output_dir=tmp_path, data_dir=tmp_path)
    Settings(host=host, output_dir=tmp_path, data_dir=tmp_path, users={"ann": "x"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.9.1"])
def test_a_loopback_address_needs_none(tmp_path: Path, host: str) -> None:
    assert is_loopback(host)
    Settings(host=host, output_dir=tmp_path, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("peer", "hops", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7:5000"], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8:0:1::2]:5000"], "2001:db8:0:1::/64"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("2001:db8::5", [], "2001:db8::/64"),
        ("::1", [], "::1"),
        ("10.1.0.1", ["198.51.100.7"], "10.1.0.1"),
    ],
)
def test_only_a_proxy_that_the_owner_named_tells_who_asks(peer: str, hops: list[str], address: str) -> None:
    headers = [(b"x-forwarded-for", hop.encode()) for hop in hops]
    assert address_of({"client": (peer, 5000), "headers": headers}, ("10.0.0.0/16", "2001:db8:ffff::1")) == address


def test_a_proxy_that_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--trusted-proxy is 'nginx' .* such as 10.0.0.1, or a network"):
        Settings(output_dir=tmp_path, data_dir=tmp_path, trusted_proxies=("127.0.0.1", "nginx"))


def test_passwords_are_not_in_the_text_of_the_settings(tmp_path: Path) -> None:
    assert "secret" not in repr(Settings(output_dir=tmp_path, data_dir=tmp_path, users={"ann": "secret"}))


@pytest.mark.parametrize(
    ("door", "host", "is_taken"),
    [
        (LOCAL, "127.0.0.1:7860", True),
        (LOCAL, "localhost", True),
        (LOCAL, "[::1]:7860", True),
        (LOCAL, "evil.example:7860", False),
        (LOCAL, "localhost.evil.example", False),
        (LOCAL, "127.0.0.1.evil.example", False),
        (LOCAL, "192.168.1.5", False),
        (LOCAL, "", False),
        (LOCAL, "localhost@evil.example", False),
        (LOCAL, "[::1", False),
        (PUBLIC, "192.168.1.5:7860", True),
        (PUBLIC, "evil.example", False),
        (PROXIED, "media.example.org", True),
        (PROXIED, "evil.example", False),
    ],
)
def test_a_host_is_taken_when_it_is_this_server(door: Door, host: str, is_taken: bool) -> None:
    assert door.takes_host(host) is is_taken


def test_the_name_server_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("socket.getfqdn", lambda: asked.append("fqdn") or "Box.example.org")
    _own_names.cache_clear()
    assert PUBLIC.takes_host("192.168.1.5") and asked == []
    assert [PUBLIC.takes_host(name) for name in ("box.example.org:7860", "evil.example")] == [True, False]
    assert asked == ["fqdn"]
    _own_names.cache_clear()


@pytest.mark.parametrize(
    ("door", "origin", "is_taken"),
    [
        (LOCAL, "http://127.0.0.1:7860", True),
        (LOCAL, "http://127.0.0.1:3000", False),
        (LOCAL, "http://localhost:7860", False),
        (LOCAL, "https://evil.example", False),
        (LOCAL, "null", False),
        (LOCAL, "http://[", False),
        (LOCAL, "", False),
        (LOCAL, "file://127.0.0.1:7860", False),
        (PROXIED, "https://media.example.org", True),
    ],
)
def test_an_origin_is_taken_when_it_is_the_page_itself(door: Door, origin: str, is_taken: bool) -> None:
    assert door.takes_origin(origin, host="127.0.0.1:7860") is is_taken


def test_nothing_of_ours_is_told_without_a_login(app: Any, log_in: Any) -> None:
    stranger = log_in("")
    for path in ("me", "catalog", "runs", "static/loom.js", "openapi.json", "files/0123456789abcdef", "nothing"):
        answer = stranger.get(f"/loom/{path}")
        assert answer.status_code == 401, path
        assert "log in" in answer.json()["error"]
    assert stranger.post("/loom/check", content=b"{" * 99, headers={"Content-Type": "text/plain"}).status_code == 401


def test_the_login_of_gradio_is_ours(log_in: Any) -> None:
    assert log_in("ann").get("/loom/me").json()["user"] == "ann"
    stranger = log_in("")
    stranger.cookies.set("access-token-unsecure-test", "invented")
    assert stranger.get("/loom/me").status_code == 401
