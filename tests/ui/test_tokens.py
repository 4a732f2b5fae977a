"""Bearer tokens: made, read again when their file changes, and what each may do; and passwords that are hashed."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from latentloom.__main__ import main
from latentloom.ui.access.auth import hashed, is_password, read_users
from latentloom.ui.access.tokens import Tokens, new_token
from latentloom.ui.api import following
from latentloom.ui.errors import NotLoggedIn, OutOfScope
from support.toy_server import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def written(file: Path, *lines: str, mode: int = 0o444) -> Path:
    file.unlink(missing_ok=True)
    file.write_text("\n".join(lines))
    file.chmod(mode)
    return file


@pytest.mark.parametrize("mode", [0o600, 0o440, 0o444])
def test_a_token_is_known_by_its_hash_in_a_file_that_others_may_read(file: Path, mode: int) -> None:
    token, line = new_token("farm", "run,read")
    tokens = Tokens(written(file, "# those of the farm", "", line, mode=mode))
    assert token not in line
    assert [tokens.user_of(token, wants=scope) for scope in ("run", "read")] == ["farm", "farm"]
    for wrong in ("", "x", token[:-1], token + "x", "\udc80"):
        with pytest.raises(NotLoggedIn, match="does not know the token"):
            tokens.user_of(wrong, wants="read")


def test_a_token_may_do_what_its_scopes_say(file: Path) -> None:
    (reads, first), (runs, second) = new_token("grafana", "read"), new_token("farm", "run")
    tokens = Tokens(written(file, first, second))
    assert tokens.user_of(reads, wants="read") == "grafana" and tokens.user_of(runs, wants="run") == "farm"
    with pytest.raises(OutOfScope, match="this token may read, and this needs run"):
        tokens.user_of(reads, wants="run")
    with pytest.raises(OutOfScope, match="needs read"):
        tokens.user_of(runs, wants="read")


def test_a_line_that_is_deleted_takes_its_token_back_and_a_new_one_lets_in(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (old, first), (new, second) = new_token("farm", "run,read"), new_token("farm", "run,read")
    tokens = Tokens(written(file, first))
    written(file, first, second)
    assert [tokens.user_of(each, wants="run") for each in (old, new)] == ["farm", "farm"]
    written(file, second, "no token")
    with pytest.raises(NotLoggedIn):
        tokens.user_of(old, wants="run")
    assert tokens.user_of(new, wants="run") == "farm" and "line 2 of --tokens" in caplog.text
    file.unlink()
    for _ in range(2):
        with pytest.raises(NotLoggedIn):
            tokens.user_of(new, wants="run")
    assert caplog.text.count("cannot be read") == 1
    written(file, second)
    assert tokens.user_of(new, wants="run") == "farm"


def test_a_token_of_the_environment_stands_beside_the_file(file: Path) -> None:
    token, line = new_token("farm", "read")
    tokens = Tokens(written(file, line), "chosen-by-somebody")
    assert tokens.user_of("chosen-by-somebody", wants="run") == "env" and tokens.user_of(token, wants="read") == "farm"
    assert Tokens(None, "chosen-by-somebody").user_of("chosen-by-somebody", wants="read") == "env"
    with pytest.raises(ValueError, match="LATENTLOOM_TOKEN has fewer than 16 characters"):
        Tokens(None, "secret")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "names no token"),
        ("farm run", "line 1 of --tokens .* is no token; a line is: name, scopes and sha256"),
        ("farm run,read " + "g" * 64, "is no token"),
        ("a/b run " + "a" * 64, "is no token"),
        ("farm write " + "a" * 64, "has the scopes 'write'; give run, read, or run,read"),
    ],
)
def test_a_file_that_is_none_is_refused_at_the_start(file: Path, line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tokens(written(file, line))


def test_the_command_prints_a_token_and_its_line(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert main(["token", "farm", "--scopes", "read"]) == 0
    token, line = capsys.readouterr().out.splitlines()
    assert Tokens(written(file, line)).user_of(token, wants="read") == "farm"
    assert main(["token", "a b"]) == 2 and "'a b' is no name" in capsys.readouterr().err
    assert main(["token", "farm", "--scopes", "all"]) == 2 and "give run, read" in capsys.readouterr().err


def test_a_password_is_hashed_for_a_file_that_others_may_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    assert main(["token", "--login", "ann"]) == 0
    line = capsys.readouterr().out.strip()
    users = read_users(written(file, line, mode=0o644))
    assert "secret" not in line and is_password(users["ann"], "secret")
    assert not is_password(users["ann"], "Secret") and not is_password(users["ann"], users["ann"])
    if os.name == "posix":
        with pytest.raises(ValueError, match=r"can be read by other users .*latentloom token --login NAME"):
            read_users(written(file, line, "bob:plain", mode=0o644))
    assert is_password(read_users(written(file, line, "bob:plain", mode=0o600))["bob"], "plain")


@pytest.mark.parametrize("changes", [{"users": {"ann": hashed("secret")}}])
def test_who_has_a_hashed_password_logs_in(app: Any, client: Any) -> None:
    app.auth = {"ann": ""}
    wrong = client.post("/login", data={"username": "ann", "password": "wrong"})
    assert (wrong.status_code, wrong.json()["error"][:25]) == (400, "name and password do not ")
    assert client.post("/login", data={"username": "ann", "password": "secret"}).status_code == 200
    assert client.get("/loom/me").json()["user"] == "ann"


@pytest.fixture
def bearer(app: Any, client: Any, file: Path) -> Callable[[str], dict[str, str]]:
    """`bearer("read")` is the header of a token of farm's with these scopes; everybody needs one, or a login."""
    made = {scopes: new_token("farm", scopes) for scopes in ("run", "read", "run,read")}
    app.auth = {}
    app.state.tokens = Tokens(written(file, *(line for _, line in made.values())))
    return lambda scopes: {"Authorization": f"Bearer {made[scopes][0] if scopes in made else scopes}"}


def test_a_token_s_name_is_the_user_of_its_runs(
    client: Any, bearer: Callable[[str], dict[str, str]], first: dict[str, Any]
) -> None:
    both, reads = bearer("run,read"), bearer("read")
    assert client.get("/loom/me", headers=both).json()["user"] == "farm"
    run = client.post("/loom/runs", headers=bearer("run"), json={"graph": first}).json()["runs"][0]
    assert client.get(f"/loom/runs/{run}", headers=reads).json()["id"] == run
    client.post(f"/loom/runs/{run}/cancel", headers=both, json={})


def test_a_scope_that_is_missing_and_a_token_that_is_not_known_are_told(
    client: Any, bearer: Callable[[str], dict[str, str]]
) -> None:
    refused = client.post("/loom/runs/cancel", headers=bearer("read"), json={"runs": None})
    assert (refused.status_code, refused.json()["code"]) == (403, "out-of-scope")
    assert client.get("/loom/runs", headers=bearer("run")).status_code == 403
    for headers in ({}, bearer("wrong"), {"Authorization": "Basic YTpi"}):
        unknown = client.get("/loom/runs", headers=headers)
        assert (unknown.status_code, unknown.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_page_s_socket_is_opened_by_a_token_that_may_read(
    client: Any, bearer: Callable[[str], dict[str, str]]
) -> None:
    from starlette.testclient import WebSocketDenialResponse

    with client.websocket_connect("ws://127.0.0.1:7860/loom/live", headers=bearer("read")) as socket:
        assert socket.receive_json()["full"]
    with (
        pytest.raises(WebSocketDenialResponse) as denied,
        client.websocket_connect("ws://127.0.0.1:7860/loom/live", headers=bearer("run")),
    ):
        pass
    assert denied.value.status_code == 403


@pytest.mark.parametrize("changes", [{"most_waiting": 3, "most_points": 2}])
def test_so_many_runs_may_wait_and_be_asked_for_at_once(client: Any, server: Any, first: dict[str, Any]) -> None:
    many = client.post("/loom/runs", json={"graph": first, "sweep": ["seed=1..3"]})
    assert many.status_code == 400 and "asks for 3 runs; at most 2" in many.json()["error"]
    with server.runs.idle():  # so that all of them wait
        asked = {"graph": first, "sweep": ["seed=1..2"]}
        assert client.post("/loom/runs", json=asked).status_code == 201
        late = client.post("/loom/runs", json=asked)
        assert (late.status_code, late.json()["code"], late.headers["Retry-After"]) == (429, "too-many", "10")
        client.post("/loom/runs/cancel", json={"runs": None})


def test_a_token_in_two_lines_is_the_user_s_that_may(file: Path) -> None:
    token, line = new_token("ann", "read")
    tokens = Tokens(written(file, line, line.replace("ann read", "bob run")))
    assert [tokens.user_of(token, wants=scope) for scope in ("read", "run")] == ["ann", "bob"]


def test_who_waits_for_a_run_is_told_nothing_once_the_token_is_taken_back(
    client: Any,
    bearer: Callable[[str], dict[str, str]],
    first: dict[str, Any],
    server: Any,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "BEAT_S", 0.05)
    headers, found = bearer("run,read"), list[Any]()
    with server.runs.idle():
        run = client.post("/loom/runs", json={"graph": first}, headers=headers).json()["runs"][0]
        waiting = Thread(target=lambda: found.append(client.get(f"/loom/runs/{run}?wait=60", headers=headers)))
        waiting.start()
        until(lambda: len(server.live._watchers) > 0)
        written(file, new_token("ann", "run,read")[1])
        waiting.join(30)
        assert [answer.status_code for answer in found] == [401]
        server.runs.book.cancel("farm")
