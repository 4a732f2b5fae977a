"""`latentloom ui`: what it refuses to start with, what it says, how it ends, and what the next start finds; and who
has to log in for which of its routes."""

import asyncio
import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from latentloom.__main__ import main
from latentloom.ui.access.crowd import Patience
from latentloom.ui.settings import Settings
from support.page_processes import Forked, Nursery
from support.ports import free_port
from support.toy_server import settings_in, until


def get(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "0.0.0.0"], "add --auth FILE"),
        (["--auth", "none.txt"], "--auth none.txt cannot be read"),
        (["--port", "0"], "--port is 0; give a number from 1 to 65535"),
        (["--models-dir", "nowhere"], "--models-dir nowhere is not a folder"),
        (["--root-path", "studio"], "--root-path is 'studio'"),
        (["--root-path", "/loom"], "choose another"),
        (["--devices", "tpu"], "tpu"),
        *((["--user-quota", gib], "give GiB above 0, such as 20") for gib in ("inf", "nan", "1e308", "0", "-1")),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert main(["ui", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("latentloom: ")
    assert error.count("\n") == 1
    assert says in error
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told() -> None:
    from latentloom.ui.listening import check_port

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ValueError, match="end the other program, or give another --port"):
            check_port("127.0.0.1", other.getsockname()[1])


def test_a_page_that_does_not_answer_in_time_is_ended_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from latentloom.ui import app
    from latentloom.ui.access import connections

    ended, free = [], threading.Event()
    loop = asyncio.new_event_loop()
    loop.call_soon(free.wait, 60)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = uvicorn.Server(uvicorn.Config(app.launch))
    server.servers = [SimpleNamespace(get_loop=lambda: loop)]  # type: ignore[list-item]
    monkeypatch.setattr(connections, "START_S", 0.05)
    page: Any = SimpleNamespace(server=server, close=lambda verbose: ended.append(verbose))
    try:
        with pytest.raises(ValueError, match=r"nothing answered on 127.0.0.1, port 7860 .* start it again"):
            app.guard_page(page, Settings(output_dir=tmp_path, data_dir=tmp_path))
        assert ended == [False]
    finally:
        free.set()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), loop).result(30)  # so that what was called off can end
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@pytest.mark.parametrize("proxies", [(), ("10.0.0.1",)])
def test_a_proxy_that_nobody_named_is_told_of_at_the_start(
    proxies: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from latentloom.ui import app, listening

    monkeypatch.setattr(listening, "guard", lambda server, patience, grace_s: None)
    parts: Any = {"output_dir": tmp_path, "data_dir": tmp_path, "users": {"ann": "x"}, "trusted_proxies": proxies}
    page: Any = SimpleNamespace(server=None)
    app.guard_page(page, Settings(root_path="https://media.example.org", **parts))
    assert [("--trusted-proxy" in message) for message in caplog.messages] == [True] * (not proxies)
    app.guard_page(page, Settings(**parts))
    assert len(caplog.messages) == (not proxies)


def test_the_page_is_served_with_its_own_files_only(page_server: Any) -> None:
    status, page = get(page_server.url)
    assert status == 200
    for foreign in (b"fonts.googleapis", b"cdnjs", b"huggingface.co/api"):
        assert foreign not in page
    assert get(page_server.url + "loom/static/loom.js")[0] == 200
    assert get(page_server.url + "loom/catalog")[0] == 200
    assert get(page_server.url + "loom/nothing")[0] == 404


def test_gradios_routes_are_guarded_as_ours_are(page_server: Any) -> None:
    assert get(page_server.url, Host="evil.example")[0] == 403
    assert get(page_server.url + "config", Host="evil.example")[0] == 403
    for path in ("gradio_api/token", "config", "loom/me"):  # the first one tells the cookie that is the login
        assert get(page_server.url + path, Origin="https://evil.example")[0] == 403
        assert get(page_server.url + path, Origin=page_server.url.rstrip("/"))[0] == 200
    call = urllib.request.Request(
        page_server.url + "gradio_api/run/predict",
        data=b'{"data": []}',
        headers={"Origin": "https://evil.example", "Content-Type": "text/plain"},
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(call, timeout=30)


NODES = '''
"""A node that works until it is cancelled, and imports nothing for it."""
import time
from pathlib import Path

from latentloom.nodes.graph.signature import read_spec
from latentloom.parallel.progress import Progress


def work(folder: str, progress: Progress) -> int:
    """Tells by a file that it has begun."""
    Path(folder, "begun").touch()
    while True:
        progress.check()
        time.sleep(0.01)


NODES = {"odd_Work": read_spec(work, title="Work", category="odd", is_output=True, is_kept=False)}
'''


def test_it_ends_in_order_and_the_next_start_finds_everything(
    start_page: Callable[..., Any], tmp_path: Path, first: dict[str, Any]
) -> None:
    (tmp_path / "nodes").mkdir(mode=0o700)
    (tmp_path / "nodes" / "odd.py").write_text(NODES)
    page = start_page("--nodes", str(tmp_path / "nodes"), folder=tmp_path, is_forked=False)
    work = {"type": "odd_Work", "version": 1, "inputs": {"folder": str(tmp_path)}}
    long = {"format": 1, "name": "long", "nodes": {"work": work}}
    runs = [post(page, "runs", {"graph": long})["runs"][0] for _ in range(3)]
    put = {"graph": first, "workflow_id": None, "base_version": None}
    post(page, "drafts/mine", put, method="PUT")
    until((tmp_path / "begun").exists)
    page.process.send_signal(signal.SIGINT)
    assert page.process.wait(60) == 0
    assert not (page.data_dir / "loom-scratch").exists()
    again = start_page("--nodes", str(tmp_path / "nodes"), folder=tmp_path)
    found = json.loads(get(again.url + "loom/runs")[1])
    assert {run["id"]: run["state"] for run in found}.keys() == set(runs)
    assert {run["state"] for run in found} <= {"waiting", "running"}
    assert json.loads(get(again.url + "loom/drafts/mine")[1])["graph"] == first
    for run in runs:
        post(again, f"runs/{run}/cancel", {})
    assert "Traceback" not in page.log.read_text()


def post(page: Any, path: str, body: dict[str, Any], method: str = "POST") -> Any:
    request = urllib.request.Request(
        f"{page.url}loom/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def test_behind_a_proxy_the_page_is_found_under_its_path(start_page: Callable[..., Any]) -> None:
    page = start_page("--root-path", "/studio")
    assert get(page.url + "loom/me")[0] == 200
    assert get(page.url + "studio/loom/me")[0] == 200


def test_behind_a_proxy_with_a_name_the_name_is_taken(start_page: Callable[..., Any]) -> None:
    page = start_page("--root-path", "https://media.example.org/studio")
    own = {"Host": "media.example.org", "Origin": "https://media.example.org"}
    assert get(page.url + "loom/me", **own)[0] == 200
    assert get(page.url + "loom/me", Origin="https://media.example.org")[0] == 200
    assert get(page.url + "loom/me", **(own | {"Origin": "https://evil.example"}))[0] == 403
    assert b"https://media.example.org/studio" in get(page.url + "config", **own)[1]


def test_the_page_holds_no_more_half_sent_requests_of_an_address_than_it_may(page_server: Any) -> None:
    port = int(page_server.url.rstrip("/").rpartition(":")[2])
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.9", 0)))
            for _ in range(Patience().per_address + 1)
        ]
        for each in held:
            with suppress(OSError):  # the first one is cut by now
                each.sendall(b"GET /loom/me HTTP/1.1\r\nX-A: ")
        with suppress(ConnectionResetError):
            assert held[0].recv(100) == b""
        assert httpx.get(f"{page_server.url}loom/me", timeout=60).status_code == 200


BUSY = """
import gradio.networking
from latentloom.ui import listening
gradio.networking.url_ok = lambda url: False
"""


def start_busy(nursery: Nursery, folder: Path, how: str) -> Forked:
    """The page on a machine where Gradio's one look at itself comes to nothing."""
    command = ["ui", "--port", str(free_port()), "--output-dir", str(folder / "output")]
    where: Any = {"cwd": folder, "env": os.environ, "log": folder / "log.txt"}
    return nursery.start(*command, "--data-dir", str(folder / "data"), **where, before=BUSY + how)


@pytest.mark.by_hand
def test_a_machine_too_busy_for_gradios_look_at_itself_gets_its_page(nursery: Nursery, tmp_path: Path) -> None:
    late = "real, looks = listening.answers, []\n"
    late += "listening.answers = lambda *to: looks.append(to) or looks[3:] and real(*to)"
    with start_busy(nursery, tmp_path, late) as process:
        assert " is at http" in process.stdout.readline(), (tmp_path / "log.txt").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_signal_ends_the_page_whatever_lock_its_main_thread_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for an event holds its lock for moments, and the handler, in the same thread, sets that event."""
    from latentloom.ui import command, listening

    class Held(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise AssertionError("a signal in here would wait for ever")

    server = SimpleNamespace(servers=[SimpleNamespace(get_loop=lambda: None)])
    page = SimpleNamespace(server=server, close=lambda **_: None)
    app = SimpleNamespace(launch=lambda *_: page)
    monkeypatch.setattr(listening, "check_port", lambda *_: None)
    monkeypatch.setattr(command, "watched", lambda _: nullcontext())
    monkeypatch.setattr(command, "_app", lambda: app)
    monkeypatch.setattr(command, "WorkerProcess", lambda _: SimpleNamespace(start=lambda: None))
    monkeypatch.setattr(command, "Server", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(command, "threading", SimpleNamespace(Event=Held))
    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=lambda _: signal.raise_signal(signal.SIGINT)))
    command.serve(settings_in(tmp_path), opens_browser=False)


def test_a_page_that_never_answers_is_told_in_our_words(nursery: Nursery, tmp_path: Path) -> None:
    with start_busy(nursery, tmp_path, "listening.START_S, listening.answers = 0.0, lambda *to: False") as process:
        said = process.stdout.read()
        assert process.wait(60) == 2
    error = (tmp_path / "log.txt").read_text()
    assert (said, error.count("\n")) == ("", 1)
    assert error.startswith("latentloom: nothing answered on 127.0.0.1, port ")
    assert "share" not in error and "give another --host or --port" in error


def test_a_server_that_says_nothing_does_not_answer() -> None:
    from latentloom.ui.listening import answers

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        assert not answers("127.0.0.1", silent.getsockname()[1], 0.1)  # nobody listens
        silent.listen()
        assert not answers("127.0.0.1", silent.getsockname()[1], 0.1)  # nobody accepts


# The login page and its POST, the files that it loads, and whether the server is up.
WITHOUT_A_LOGIN = {
    *("GET /", "HEAD /", "POST /login", "POST /login/"),
    *("GET /assets/{path:path}", "GET /static/{path:path}", "GET /theme.css", "GET /favicon.ico", "GET /manifest.json"),
    *("GET /health", "HEAD /health"),
}


WALK = """
import pathlib, sys
from support.walk_routes import tell
tell(pathlib.Path.cwd())
sys.exit()
"""


@pytest.fixture(scope="module")
def walked(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What each route of the whole app, Gradio's own included, answers to a stranger, and some of them to Ann."""
    folder = tmp_path_factory.mktemp("walk")
    with nursery.start(cwd=folder, env=os.environ, log=folder / "log.txt", before=WALK) as process:
        told = process.stdout.read()
        assert process.wait(60) == 0, (folder / "log.txt").read_text()
    return json.loads(told.splitlines()[-1])


def test_every_route_but_those_of_the_login_page_needs_a_login(walked: Any) -> None:
    told = walked["stranger"]
    assert len(told) > 100 and {"GET /loom/me", "GET /openapi.json", "GET /gradio_api/heartbeat/{session_hash}"} < set(
        told
    )
    assert {route for route, status in told.items() if status != 401} == WITHOUT_A_LOGIN
    assert told["GET /"] == told["GET /health"] == 200 and walked["health"] == ""
    assert walked["late"] == 401  # Gradio asks for its start-up events once, before there is a user


def test_a_program_comes_in_beside_users_by_its_token(walked: Any) -> None:
    assert walked["named"] == [[200, "env"], [401, None]]


def test_who_has_logged_in_gets_what_gradio_needs_and_not_what_it_would_end_fetch_or_tell(walked: Any) -> None:
    told = walked["ann"]
    assert walked["login"] == 200
    assert [told[path] for path in ("config", "gradio_api/info", "loom/me", "openapi.json")] == [200] * 4
    assert told["logout"] == 405
    assert [told[path] for path in told if "%00" in path or "proxy=" in path] == [400, 404, 404, 400, 400]
    assert walked["token"] is None  # or a script could read the login, whose cookie is closed to scripts


def test_a_page_that_nobody_calls_sleeps(walked: Any) -> None:
    """Gradio's own pause is a millisecond, which takes a twentieth of a core."""
    assert walked["pause"] >= 0.02


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("call/run_workflow", {"data": []}, 404),
        ("run/run_workflow", {"data": []}, 404),
        ("api/predict", {"data": []}, 404),
        ("queue/join", {"data": [], "fn_index": 0, "session_hash": "x"}, 404),
        ("run/predict", {"data": []}, 400),
        ("run/predict", {"data": [], "fn_index": 99}, 400),
        ("run/predict", {"data": {"a": 1}, "fn_index": 0}, 422),
    ],
)
def test_a_call_that_is_not_the_page_s_is_refused_in_a_sentence(
    page_server: Any, path: str, body: dict[str, Any], status: int
) -> None:
    answer = httpx.post(f"{page_server.url}gradio_api/{path}", json=body, timeout=30)
    assert answer.status_code == status
    assert status == 422 or "POST /loom/workflows/NAME/runs" in answer.json()["error"]
