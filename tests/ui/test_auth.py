"""Who may ask: the file of users, the address, Host, Origin, and a login for each of our routes."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from latentloom.ui.access.address import Door, _own_names, asker_of, is_loopback
from latentloom.ui.access.auth import read_users
from latentloom.ui.access.login import KEY_FILE, KNOWN_S, Browsers, read_key
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


def test_a_browser_is_known_to_one_user_for_a_while_and_until_the_password_changes() -> None:
    now = [1e9]
    browsers = Browsers({"ann": "secret", "bob": "secret"}, b"k" * 32, lambda: now[0])
    key, value = browsers.cookie("ann")
    id = browsers.known("ann", {key: value})
    assert id and browsers.cookie("ann", id)[1] == value
    other, _ = browsers.cookie("bob")
    assert browsers.known("bob", {other: value}) == "" == browsers.known("eve", {key: value})
    for wrong in ("", "a", "..", value[:-1] + "x", "x" + value, f"{id}.\u0661.x", f"{id}.2000000000.{value[-64:]}"):
        assert browsers.known("ann", {key: wrong}) == ""
    assert Browsers({"ann": "new"}, b"k" * 32, lambda: now[0]).known("ann", {key: value}) == ""
    now[0] += KNOWN_S
    assert browsers.known("ann", {key: value}) == ""


def test_what_signs_is_made_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    key = read_key(tmp_path)
    assert len(key) == 32 and read_key(tmp_path) == key
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o077 == 0
    (tmp_path / KEY_FILE).write_bytes(b"cut")
    assert len(read_key(tmp_path)) == 32


PROXY = "10.9.9.9"
TEAM = {"users": {"ann": "secret", **{f"user{n}": f"p{n}" for n in range(40)}}, "trusted_proxies": (PROXY,)}
with_team = pytest.mark.parametrize("changes", [TEAM])


async def ask_to_log_in(app: Any, name: str, password: str, *, peer: str = PROXY, forwarded: str = "") -> Any:
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    transport = ASGITransport(app, client=(peer, 5000))
    async with AsyncClient(transport=transport, base_url="http://127.0.0.1:7860", headers=headers) as client:
        return await client.post("/login", data={"username": name, "password": password})


@with_team
def test_login_takes_the_right_password_only(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.ui.access.throttle.WRONG_S", 0.0)
    wrong = [("ann", "Secret"), ("ann", ""), ("eve", "secret"), ("", ""), ("ann", "gehe\u00fcm"), ("ann", "x" * 5000)]
    for name, password in wrong:
        answer = asyncio.run(ask_to_log_in(app, name, password))
        assert answer.status_code in (400, 422) and not answer.cookies, name
    answer = asyncio.run(ask_to_log_in(app, " ann ", "secret"))
    assert answer.json() == {"success": True} and list(app.tokens.values()) == ["ann"]
    assert all("HttpOnly" in cookie for cookie in answer.headers.get_list("set-cookie"))


@with_team
def test_to_log_out_takes_a_request_of_the_page_itself_and_ends_one_session(app: Any, log_in: Any) -> None:
    phone, desk, bob = log_in("ann", "phone"), log_in("ann", "desk"), log_in("bob")
    assert desk.get("/logout").status_code == 405
    assert desk.post("/loom/logout", json={}, headers={"Origin": "https://evil.example"}).status_code == 403
    assert desk.get("/loom/me").status_code == 200
    answer = desk.post("/loom/logout", json={}, headers={"Origin": "http://127.0.0.1:7860"})
    assert answer.status_code == 204 and "access-token-unsecure-test" in answer.headers["set-cookie"]
    assert [each.get("/loom/me").status_code for each in (desk, phone, bob)] == [401, 200, 200]


@with_team
def test_a_browser_that_has_to_wait_is_answered_as_gradios_page_understands(app: Any) -> None:
    async def statuses(**headers: str) -> list[tuple[int, str | None]]:
        transport = ASGITransport(app, client=(PROXY, 5000))
        async with AsyncClient(transport=transport, base_url="http://127.0.0.1:7860", headers=headers) as client:
            answers = [await client.post("/login", data={"username": "ann", "password": "x"})]
        return [(answer.status_code, answer.headers.get("retry-after")) for answer in answers]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latentloom.ui.access.throttle.MAX_TRIES", 0)
        assert asyncio.run(statuses()) == [(429, "30")]
        assert asyncio.run(statuses(**{"Sec-Fetch-Mode": "cors"})) == [(400, "30")]


@with_team
def test_sessions_begin_and_end_in_one_thread(app: Any) -> None:
    """Or one that begins would look through sessions while another ends."""
    threads = set[int]()

    class Watched(dict[str, str]):
        def pop(self, *key: Any) -> Any:
            threads.add(threading.get_ident())
            return super().pop(*key)

    app.tokens = Watched(token="ann")

    async def log_out() -> int:
        cookies = {"access-token-unsecure-test": "token"}
        async with AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1:7860", cookies=cookies) as ann:
            return (await ann.post("/loom/logout", json={})).status_code

    assert asyncio.run(log_out()) == 204 and threads == {threading.get_ident()}


@with_team
def test_the_oldest_session_ends_where_there_are_too_many(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.ui.access.login.MAX_SESSIONS", 3)
    app.tokens["bobs"] = "bob"
    for _ in range(5):
        assert asyncio.run(ask_to_log_in(app, "ann", "secret")).status_code == 200
    assert list(app.tokens.values()) == ["bob", "ann", "ann", "ann"]


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
    assert (
        asker_of({"client": (peer, 5000), "headers": headers}, ("10.0.0.0/16", "2001:db8:ffff::1")).address == address
    )


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
    assert [stranger.get(path).status_code for path in ("/config", "/gradio_api/info", "/health/x")] == [401] * 3
    assert stranger.post("/loom/check", content=b"{" * 99, headers={"Content-Type": "text/plain"}).status_code == 401


def test_the_login_of_gradio_is_ours(log_in: Any) -> None:
    assert log_in("ann").get("/loom/me").json()["user"] == "ann"
    stranger = log_in("")
    stranger.cookies.set("access-token-unsecure-test", "invented")
    assert stranger.get("/loom/me").status_code == 401
