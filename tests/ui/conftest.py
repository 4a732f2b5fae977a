"""The server of the page in tests: its API in this process, and the real page in a process of its own."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.browser import (  # noqa: F401  (fixtures of the tests in a browser)
    chromium,
    close_unless_next_is_a_page,
    kept_profile,
    need,
    new_profile,
    open_page,
    profile_folder,
    watch,
)
from support.first_picture import small
from support.page_processes import Forked, Nursery
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
# CI has playwright; elsewhere its absence takes the tests of the page away, and no other
if importlib.util.find_spec("playwright") is None and os.environ.get("CI") != "true":
    collect_ignore_glob = ["test_page_*.py"]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    close_unless_next_is_a_page(item.session, nextitem)


@pytest.fixture
def changes() -> dict[str, Any]:
    """Settings of the server that a test asks for, by its own parametrize."""
    return {}


@pytest.fixture
def settings(tmp_path: Path, changes: dict[str, Any]) -> Any:
    from latentloom.ui.settings import Settings

    return Settings(**{"output_dir": tmp_path / "output", "data_dir": tmp_path / "data", "port": 7860, **changes})


@pytest.fixture
def server(settings: Any) -> Iterator[Any]:
    """Everything behind the page, with the real nodes."""
    from latentloom.ui.server import Server

    with closing(Server(settings)) as server:
        yield server


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Any]:
    """Of toy nodes."""
    from support.toy_server import reset, runs_in

    reset()
    with runs_in(tmp_path) as runs:
        yield runs


class Standing:
    """Stands in for what only a test has, and for what hangs on it, while routes are made; then each is found there."""

    def __init__(self, found: Callable[[], Any]) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        whole = self._found()
        return Standing(lambda: _part(self._found(), name)) if whole is None else getattr(whole, name)


def _part(whole: Any, name: str) -> Any:
    return None if whole is None else getattr(whole, name)


@pytest.fixture(scope="session")
def plain_routes(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], list[Any]]:
    """All routes but the WebSocket's, and a list that takes the one server they are over: FastAPI needs as long to make
    them as most tests take."""
    from starlette.routing import WebSocketRoute

    from latentloom.ui.api.router import make_router
    from latentloom.ui.bundle import read_bundle

    current: list[Any] = []
    standing: Any = Standing(lambda: current[0] if current else None)
    router = make_router(standing, read_bundle(small_static(tmp_path_factory.mktemp("static"))))
    return [route for route in router.routes if not isinstance(route, WebSocketRoute)], current


def small_static(folder: Path) -> Path:
    (folder / "loom.js").write_text("export const mount = () => {};")
    (folder / "loom.css").write_text("")
    (folder / "loom.help.0A1B2C3D.js").write_text("")
    return folder


@pytest.fixture
def app(server: Any, tmp_path: Path, plain_routes: tuple[list[Any], list[Any]]) -> Iterator[Any]:
    """Our routes behind our gate, in an app that stands in for Gradio's. Users of the settings need to log in."""
    from fastapi import APIRouter, FastAPI
    from fastapi.middleware import Middleware

    from latentloom.ui.access.address import Door
    from latentloom.ui.access.gate import PREFIX, Gate
    from latentloom.ui.access.login import Guard, login_routes
    from latentloom.ui.access.policy import Policy
    from latentloom.ui.api import live_socket

    static = tmp_path / "static"
    static.mkdir()
    small_static(static)
    sockets = APIRouter(prefix=PREFIX)  # they remember who is there
    live_socket.add_routes(sockets, server)
    routes, current = plain_routes
    current[:] = [server]
    app = FastAPI(
        routes=[*sockets.routes, *routes, *login_routes(server.settings)],
        middleware=[Middleware(Policy), Middleware(Guard), Middleware(Gate, door=Door(host=server.settings.host))],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.__dict__.update(auth=server.settings.users or None, tokens={}, cookie_id="test")
    yield app
    current.clear()


@pytest.fixture
def client(app: Any) -> Iterator[Any]:
    """The user "local"."""
    from starlette.testclient import TestClient

    with TestClient(app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def log_in(app: Any) -> Iterator[Callable[[str], Any]]:
    """`log_in("ann")` is Ann's client; from then on everybody needs a login."""
    from starlette.testclient import TestClient

    app.auth = {"ann": "secret", "bob": "secret"}

    def client(name: str, session: str = "") -> Any:
        token = f"token-of-{name}{session}"
        app.tokens[token] = name
        cookies = {"access-token-unsecure-test": token} if name else {}
        return TestClient(app, base_url="http://127.0.0.1:7860", cookies=cookies, raise_server_exceptions=False)

    yield client


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the page's sources with the locked packages, beside the workflows that its tests read."""
    npm = shutil.which("npm")
    need(npm is not None, "needs node and npm")
    root = tmp_path_factory.mktemp("web")
    folder = root / "ui/web"
    shutil.copytree(ROOT / "ui/web", folder, ignore=shutil.ignore_patterns("node_modules", "build"))
    shutil.copytree(ROOT / "workflows", root / "workflows")
    install = [str(npm), "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
    ended = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    need(ended.returncode == 0, f"needs the packages of the page, which npm could not get: {ended.stderr[-300:]}")
    return folder


@pytest.fixture
def first() -> dict[str, Any]:
    """The workflow that makes one picture with the built-in model, in few steps."""
    return small()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page that is served by `latentloom ui` in a process of its own."""

    url: str
    process: subprocess.Popen[str] | Forked
    output_dir: Path
    data_dir: Path
    log: Path


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Forks commands from one process that has imported what they need."""
    with closing(Nursery(environment(tmp_path_factory.mktemp("nursery")))) as nursery:
        yield nursery


STARTED = pytest.StashKey[list[Page]]()


@pytest.fixture(autouse=True)
def _ends_its_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test by itself started has no runs left that go on beside the tests after it."""
    before = len(request.session.stash.setdefault(STARTED, []))
    yield
    for page in request.session.stash[STARTED][before:]:
        page.process.terminate()


@pytest.fixture(scope="session")
def start_page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, nursery: Nursery
) -> Iterator[Callable[..., Page]]:
    """`start_page(*arguments, folder=None)` starts `latentloom ui`; a folder that was used before is opened again.

    Each is a process of its own, and with `is_forked=False` one that imports all by itself.
    """
    started = request.session.stash.setdefault(STARTED, [])

    def start(*arguments: str, folder: Path | None = None, port: int = 0, is_forked: bool = True) -> Page:
        where = folder or tmp_path_factory.mktemp("page")
        started.append(_start(where, port or free_port(), arguments, nursery if is_forked else None))
        return started[-1]

    yield start
    for page in started:  # all at one time
        page.process.terminate()
    for page in started:
        stop(page)


@pytest.fixture(scope="session")
def page_server(start_page: Callable[..., Page]) -> Page:
    """The real page without a login, shared by the tests of this session."""
    return start_page()


@pytest.fixture
def show(page_server: Page, open_page: Callable[..., Any]) -> Callable[..., Any]:  # noqa: F811
    """`show(graph=None)` opens that page in a new profile, with a workflow or an empty canvas."""
    return partial(open_page, page_server.url)


@pytest.fixture(scope="session")
def guarded(start_page: Callable[..., Page], tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The real page whose users, ann and bob, log in."""
    users = tmp_path_factory.mktemp("users") / "users.txt"
    users.write_text("ann:secret-of-ann\nbob:secret-of-bob\n", encoding="utf-8")
    users.chmod(0o600)
    return start_page("--auth", str(users))


def stop(page: Page) -> int:
    """End it as Ctrl-C does; the exit code."""
    with page.process as process:  # closes its pipe, too
        process.terminate()
        try:
            return process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _start(folder: Path, port: int, arguments: tuple[str, ...], nursery: Nursery | None) -> Page:
    log = folder / "log.txt"
    command = ["ui", "--port", str(port), "--output-dir", str(folder / "output"), "--data-dir", str(folder / "data")]
    command += arguments
    env = environment(folder)
    if nursery is not None:
        process = nursery.start(*command, cwd=folder, env=env, log=log)
    else:
        process = _run(command, cwd=folder, env=env, log=log)
    assert process.stdout is not None
    line = process.stdout.readline()  # the command ends by itself where it cannot start
    if " is at http" not in line:
        with process:
            process.kill()
        raise AssertionError(f"the page did not start: {line}{log.read_text()}")
    url = f"http://127.0.0.1:{port}/"
    return Page(url=url, process=process, output_dir=folder / "output", data_dir=folder / "data", log=log)


def _run(arguments: list[str], *, cwd: Path, env: dict[str, str], log: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "latentloom", *arguments]
    with log.open("a") as errors:
        return subprocess.Popen(
            command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
        )


def environment(folder: Path) -> dict[str, str]:
    """No proxy, hence no world outside, and a cache of its own."""
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"), "http://127.0.0.1:9")
    return os.environ | nowhere | {"XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
