"""Chromium on the real page, for tests: nothing leaves the machine, and no complaint of the console goes unseen.

playwright is imported where a browser is used: the tests that need none are collected, and run, without it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

# Debian's Chromium without windows: the same engine for a fifth less processor time.
SHELL = Path("/usr/bin/chromium-headless-shell")
CHROMIUM = Path(os.environ.get("CHROMIUM") or (SHELL if SHELL.exists() else "/usr/bin/chromium"))
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--disable-dev-shm-usage",  # where drills look for what a killed pool leaves
    "--disable-background-networking",
    "--disable-component-update",
    # every name and address but our own ends nowhere
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
DESKTOP: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
USUAL: dict[str, Any] = {"locale": "en-US", "accept_downloads": True, **DESKTOP}
WAIT_MS = 20_000  # how long a check waits: much longer than anything takes, for machines that are busy
MODEL_MS = 60_000  # the same for what loads the model first
# Ends when the canvas has not moved for a while.
STILL = """async (viewport) => {
  const pause = () => new Promise((resolve) => setTimeout(resolve, 25));
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  for (let last = "", same = 0; same < 9; same = viewport.style.transform === last ? same + 1 : 0) {
    last = viewport.style.transform;
    // what was just asked for begins with a frame, which may be late; more of them cost too much
    await (same < 7 ? pause() : frame());
  }
}"""
# The middle of a thing that has not moved between two frames.
STANDS = """async (thing, longest) => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const end = performance.now() + longest;
  for (let last = null; performance.now() < end; await frame()) {
    const { x, y, width, height } = thing.getBoundingClientRect();
    const now = [x + width / 2, y + height / 2];
    if (last && width && height && now.every((place, axis) => place === last[axis])) return now;
    last = now;
  }
  throw new Error("it does not come to rest, or is not to be seen");
}"""
# What could be pressed, were it not for a message over it.
UNDER = """region => {
  const root = region.getRootNode();
  const pressable = "button, a[href], input, select, textarea, [role=tab], .react-flow__handle, .react-flow__node";
  return [...root.querySelectorAll(pressable)].filter((each) => !region.contains(each)).flatMap((each) => {
    const { x, y, width, height } = each.getBoundingClientRect();
    const under = root.elementFromPoint(x + width / 2, y + height / 2);
    return width && height && under && region.contains(under) ? [each.outerHTML.slice(0, 200)] : [];
  });
}"""
# Gradio, whose start is half of what it takes to open the page, begins when a test asks for one of its tabs; and as it
# does for users where `gradioBegins` is set.
GRADIO_WAITS = """(() => {
  let isWanted = false, held = [];
  addEventListener("loom-rests", (event) => {
    if (isWanted || window.gradioBegins) return;
    event.stopImmediatePropagation();
    held = [...document.querySelectorAll('script[type="loom/held"]')];
    for (const script of held) script.remove();
  });
  window.beginGradio = () => {
    const waiting = held;
    [isWanted, held] = [true, []];
    document.head.append(...waiting);
    if (waiting.length) dispatchEvent(new Event("loom-rests"));
  };
})()"""
STORED = "cookies,file_systems,indexeddb,local_storage,service_workers,cache_storage"
LOOPBACK = ("127.0.0.1", "localhost", "")


def need(is_there: bool, reason: str) -> None:
    """Skip where a tool is missing; CI has all of them, so there it is a failure."""
    if is_there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass
class Watch:
    """What went wrong in a browser profile while a test used it, but for what the test foresees."""

    troubles: list[str] = field(default_factory=list)
    foreseen: list[str] = field(default_factory=list)

    def foresee(self, *patterns: str) -> None:
        """Complaints of the console that belong to the test, such as a request that is refused."""
        self.foreseen += patterns

    @contextmanager
    def listening(self, context: BrowserContext) -> Iterator[None]:
        def socket(opened: Any) -> None:
            self._request(opened.url)

        heard: dict[Any, Callable[[Any], Any]] = {
            "request": lambda request: self._request(request.url),
            "console": lambda message: message.type == "error" and self._console(message),
            "weberror": lambda error: self.troubles.append(f"page error: {error.error}"),
            "page": lambda page: page.on("websocket", socket),
        }
        before = context.pages
        for event, told in heard.items():
            context.on(event, told)
        for page in before:
            page.on("websocket", socket)
        yield
        for event, told in heard.items():
            context.remove_listener(event, told)
        for page in before:
            page.remove_listener("websocket", socket)

    def unforeseen(self) -> list[str]:
        return [trouble for trouble in self.troubles if not any(re.search(known, trouble) for known in self.foreseen)]

    def _request(self, url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).hostname not in LOOPBACK:
            self.troubles.append(f"request that leaves the machine: {url}")

    def _console(self, message: Any) -> None:
        self.troubles.append(f"console: {message.text} ({(message.location or {}).get('url', '')})")


@pytest.fixture(scope="session")
def profile_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Chromium keeps the page's scripts as it compiled them: a third of what it takes to open the page."""
    return tmp_path_factory.mktemp("chromium")


class KeptBrowser:
    """One browser with its own profile, for all tests of the page in a row: to begin takes seconds of a processor."""

    def __init__(self, folder: Path) -> None:
        from playwright.sync_api import sync_playwright

        with ExitStack() as stack:
            playwright = stack.enter_context(sync_playwright())
            self.profile = playwright.chromium.launch_persistent_context(
                folder, executable_path=str(CHROMIUM), args=list(FLAGS), timeout=MODEL_MS, **USUAL
            )
            stack.callback(self.profile.close)
            self.profile.add_init_script(GRADIO_WAITS)
            self.profile.new_page()
            self.close = stack.pop_all().close


KEPT = pytest.StashKey[KeptBrowser]()


def close_unless_next_is_a_page(session: pytest.Session, nextitem: pytest.Item | None) -> None:
    """Playwright keeps the event loop of its thread, which other tests want."""
    is_page = nextitem is not None and nextitem.path.name.startswith("test_page_")
    if KEPT in session.stash and not is_page:
        session.stash[KEPT].close()
        del session.stash[KEPT]


@pytest.fixture
def kept_profile(request: pytest.FixtureRequest, profile_folder: Path) -> BrowserContext:
    """The one browser's own profile: of a test that is over, its cache alone is left."""
    need(CHROMIUM.exists(), f"needs Chromium: there is none at {CHROMIUM}; install it, or set CHROMIUM=/path/to/it")
    stash = request.session.stash
    if KEPT not in stash:
        stash[KEPT] = KeptBrowser(profile_folder)
    return stash[KEPT].profile


@pytest.fixture
def chromium(kept_profile: BrowserContext) -> Browser:
    assert kept_profile.browser is not None
    return kept_profile.browser


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def new_profile(
    chromium: Browser, kept_profile: BrowserContext, watch: Watch, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., BrowserContext]]:
    """`new_profile(**options)` is a browser without a past; its tabs share cookies and storage."""
    from playwright.sync_api import expect

    expect.set_options(timeout=WAIT_MS)
    before = request.session.testsfailed
    made: list[BrowserContext] = []
    with ExitStack() as stack:

        def make(**options: Any) -> BrowserContext:
            is_kept = not (made or options)
            context = kept_profile if is_kept else chromium.new_context(**{**USUAL, **options})
            if not is_kept:
                context.add_init_script(GRADIO_WAITS)
            made.append(context)
            context.set_default_timeout(WAIT_MS)
            stack.enter_context(watch.listening(context))  # until after all else, for what is told late
            stack.enter_context(_forgotten(context) if is_kept else closing(context))
            return context

        yield make
        if request.session.testsfailed > before:
            _keep_pictures(chromium, tmp_path)
            kept_profile.pages[-1].close()  # the keys and buttons that were left pressed are with its mouse
            kept_profile.new_page()  # it has two, also where the test did not use them
    assert watch.unforeseen() == []


@contextmanager
def _forgotten(context: BrowserContext) -> Iterator[None]:
    """Afterwards all is gone that a site could know the browser by, and every tab but two that are blank, the second of
    which is for the next page: a new tab takes nearly twice as long.
    """
    origins: set[str] = set()
    blank, work = context.pages
    context.on("request", note := lambda request: origins.add("{0.scheme}://{0.netloc}".format(urlsplit(request.url))))
    try:
        yield
    finally:
        context.remove_listener("request", note)
        for each in context.pages:
            if each not in (blank, work):
                each.close()
        if work.is_closed():
            context.new_page()
        else:
            work.unroute_all()
            if work.viewport_size != DESKTOP["viewport"]:
                work.set_viewport_size(DESKTOP["viewport"])
            if work.url.startswith("http"):
                work.evaluate("sessionStorage.clear()")
            work.mouse.move(0, 0)
            work.goto("about:blank")
        devtools = context.new_cdp_session(blank)
        for origin in origins:
            devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": STORED})
        devtools.detach()
        context.unroute_all()
        context.clear_cookies()
        context.clear_permissions()
        context.set_offline(False)


@pytest.fixture
def open_page(new_profile: Callable[..., BrowserContext]) -> Callable[..., Page]:
    """`open_page(url, graph=None)` shows the page in a new profile, with that workflow or an empty canvas."""

    def show(url: str, *, graph: dict[str, Any] | None = None, query: str = "", **options: Any) -> Page:
        forget_drafts(url)
        if graph is not None:
            put_draft(url, graph)
        profile = new_profile(**options)
        page = profile.pages[-1] if profile.pages else profile.new_page()
        visit(page, url + query)
        return page

    return show


def visit(page: Page, url: str) -> None:
    """Go to the page and wait until the Build view is there and shows all of the workflow."""
    from playwright.sync_api import expect

    page.goto(url)
    expect(page.get_by_test_id("canvas")).to_be_visible(timeout=MODEL_MS)
    rest(page)


def begin_gradio(page: Page) -> None:
    """What is behind the other tabs than Build begins with it."""
    page.evaluate("window.beginGradio()")


def rest(page: Page) -> None:
    """Wait until the canvas has come to rest."""
    page.locator(".react-flow__viewport").evaluate(STILL)


def _keep_pictures(chromium: Browser, folder: Path) -> None:
    pages = [page for context in chromium.contexts for page in context.pages]
    for number, page in enumerate(pages, 1):
        path = folder / f"failed-{number}.png"
        page.screenshot(path=path)
        print(f"the page when the test failed: {path}")


# --- the server's API, for what a test is not about ---


def call(url: str, path: str, body: Any = None, method: str = "") -> Any:
    """One request to the API as a tool makes it; a refusal raises with its sentence."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data is not None else {}
    method = method or ("GET" if data is None else "POST")
    asked = urllib.request.Request(f"{url}loom/{path}", data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None


def log_in(page: Page, url: str, name: str, password: str) -> None:
    page.goto(url)
    page.get_by_label("username").fill(name)
    page.get_by_label("password").fill(password)
    page.get_by_role("button", name="Login").click()


def forget_drafts(url: str) -> None:
    for draft in call(url, "drafts"):
        call(url, f"drafts/{draft['key']}", method="DELETE")


def put_draft(url: str, graph: dict[str, Any]) -> None:
    """What a browser without a past opens: the newest draft of its user."""
    call(url, "drafts/start", {"graph": graph, "workflow_id": None, "base_version": None}, method="PUT")


# --- hands ---


def card(page: Page, name: str) -> Locator:
    """A node on the canvas, by its name in the file."""
    return page.get_by_test_id(f"node-{name}")


def on_canvas(page: Page, name: str) -> Locator:
    """What has the focus when a node has it."""
    return page.locator(f'[data-id="n:{name}"]')


def socket(page: Page, node: str, side: str, name: str) -> Locator:
    """`side` is Input or Output; the name is in words."""
    return card(page, node).get_by_role("button", name=f"{side} {name} (")


def drag(page: Page, start: Locator, end: Locator | tuple[float, float]) -> None:
    """Press on one thing, go to the other or to a place in a few moves as a hand does, and let go."""
    x, y = middle(start)
    page.mouse.move(x, y)
    page.mouse.down()
    to_x, to_y = end if isinstance(end, tuple) else middle(end)
    page.mouse.move((x + to_x) / 2, (y + to_y) / 2, steps=3)
    page.mouse.move(to_x, to_y, steps=3)
    page.mouse.up()


def middle(thing: Locator) -> tuple[float, float]:
    """Where to press, once it stands still: what was done before may yet move it."""
    x, y = thing.evaluate(STANDS, WAIT_MS)
    return x, y


def enter(page: Page, words: str, *, down: int = 0) -> None:
    """Type into the list that just opened, and take its first hit or one further down."""
    from playwright.sync_api import expect

    expect(page.get_by_role("combobox", expanded=True)).to_be_focused()
    page.keyboard.type(words)
    for _ in range(down):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def choose(page: Page, menu: str, item: str) -> None:
    """An entry of a menu that a button opens."""
    page.get_by_role("button", name=menu, exact=True).click()
    page.get_by_role("menu", name=menu).get_by_role("menuitem", name=item).click()


def file_text(page: Page) -> str:
    """The workflow as the page writes it to the disk."""
    with page.expect_download() as download:
        choose(page, "File", "Save to disk")
    return Path(download.value.path()).read_text(encoding="utf-8")


def file_graph(page: Page) -> dict[str, Any]:
    return json.loads(file_text(page))


def drop_file(page: Page, target: Locator, *, name: str, content: bytes, media_type: str) -> None:
    """Let go of a file from the disk over something."""
    transfer = page.evaluate_handle(
        """([name, bytes, type]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name, { type }));
          return transfer;
        }""",
        [name, base64.b64encode(content).decode(), media_type],
    )
    for event in ("dragenter", "dragover", "drop"):
        target.dispatch_event(event, {"dataTransfer": transfer})


def toolbar(page: Page) -> Locator:
    """The row above the canvas."""
    return page.get_by_role("group", name="Workflow", exact=True)


def tab(page: Page, name: str) -> Locator:
    """One of Gradio's tabs: Build, Simple, Gallery, Models."""
    begin_gradio(page)
    return page.get_by_role("tab", name=name, exact=True)


def say(page: Page, text: str | re.Pattern[str]) -> Locator:
    """A message in the corner of the page."""
    return page.get_by_role("region", name="Messages").get_by_text(text)


def made(url: str, graph: dict[str, Any], **overrides: Any) -> str:
    """The result of a run of the workflow, made before the page is opened; its id."""
    run = call(url, "runs", {"graph": graph, "overrides": overrides})["runs"][0]
    pause, end = threading.Event(), time.monotonic() + MODEL_MS / 1000
    while (state := call(url, f"runs/{run}")["state"]) in ("waiting", "running"):
        assert time.monotonic() < end, f"run {run} does not end"
        pause.wait(0.05)
    assert state == "done", call(url, f"runs/{run}")
    return next(result["id"] for result in call(url, "results") if result["run"] == run)
