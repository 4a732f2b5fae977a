"""Without a login, and without a connection: the page says so, and goes on when it can."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.browser import MODEL_MS, Watch, card, log_in, say, tab, toolbar, visit
from support.first_picture import FIRST


def test_without_a_login_there_is_only_the_login_page(
    guarded: Any, new_profile: Callable[..., BrowserContext], watch: Watch
) -> None:
    watch.foresee("401|400")
    page = new_profile().new_page()
    log_in(page, guarded.url, "ann", "a guess")
    expect(page.get_by_role("button", name="Login")).to_be_visible()
    expect(page.get_by_test_id("canvas")).to_have_count(0)
    assert page.request.get(f"{guarded.url}loom/workflows").status == 401
    log_in(page, guarded.url, "ann", "secret-of-ann")
    expect(page.get_by_test_id("canvas")).to_be_visible(timeout=MODEL_MS)


def test_who_logs_out_sees_the_login_page_and_his_other_browser_goes_on(
    guarded: Any, new_profile: Callable[..., BrowserContext], watch: Watch
) -> None:
    watch.foresee("401")
    desk, phone = new_profile().new_page(), new_profile().new_page()
    for page in (desk, phone):
        log_in(page, guarded.url, "bob", "secret-of-bob")
        expect(page.get_by_test_id("canvas")).to_be_visible(timeout=MODEL_MS)
    assert desk.request.get(f"{guarded.url}logout").status == 405
    toolbar(desk).get_by_role("button", name="File").click()
    desk.get_by_role("menuitem", name="Log out (bob)").click()
    expect(desk.get_by_role("button", name="Login")).to_be_visible()
    assert desk.request.get(f"{guarded.url}loom/me").status == 401
    assert phone.request.get(f"{guarded.url}loom/me").json()["user"] == "bob"


def test_gradio_begins_also_where_our_script_does_not(
    page_server: Any, new_profile: Callable[..., BrowserContext], watch: Watch
) -> None:
    watch.foresee("loom.js")
    page = new_profile().pages[-1]
    page.route("**/static/loom.js*", lambda route: route.abort())
    page.goto(page_server.url)
    expect(tab(page, "Gallery")).to_be_visible(timeout=MODEL_MS)
    expect(page.get_by_test_id("canvas")).to_have_count(0)


# What lies over each other in the middle of the window, whenever anything changes once the canvas is there.
STACKS = """(() => {
  window.stacks = [];
  const look = () => {
    const host = [...document.querySelectorAll(".loom-host")].find((host) => host.shadowRoot?.querySelector(".ll-box"));
    if (host) stacks.push(document.elementsFromPoint(innerWidth / 2, innerHeight / 2).map((thing) => thing.localName));
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true, attributes: true });
})()"""


def test_what_gradio_shows_while_it_begins_takes_no_press(
    page_server: Any, new_profile: Callable[..., BrowserContext]
) -> None:
    page = new_profile().new_page()
    page.add_init_script(f"gradioBegins = true; {STACKS}")
    visit(page, page_server.url)
    expect(tab(page, "Gallery")).to_be_visible()
    stacks = page.evaluate("stacks")
    assert any("svg" in stack for stack in stacks)  # Gradio's sign that it loads
    assert {stack[0] for stack in stacks} == {"div"}


INJECT = """() => {
  const script = document.createElement("script");
  script.textContent = "window.injected = 'a script'";
  document.body.append(script);
  const foreign = document.createElement("script");
  foreign.src = "http://127.0.0.1:1/x.js";
  document.body.append(foreign);
  document.body.insertAdjacentHTML("beforeend", `<img src="data:," onerror="window.injected = 'a handler'">`);
  const link = document.createElement("a");
  link.href = "javascript:window.injected = 'a link'";
  document.body.append(link);
  link.click();
  const base = document.createElement("base");
  base.href = "http://127.0.0.1:1/";
  document.head.append(base);
}"""


def test_a_script_that_is_injected_does_not_run(page_server: Any, show: Callable[..., Page], watch: Watch) -> None:
    page = show()
    for view in ("Simple", "Gallery", "Models", "Build"):
        tab(page, view).click()
    assert watch.unforeseen() == []  # the page itself breaks no rule
    watch.foresee("Content Security Policy|Content-Security-Policy")
    with page.expect_console_message(lambda message: "base" in message.text):
        page.evaluate(INJECT)
    assert page.evaluate("() => window.injected ?? null") is None
    assert page.evaluate("() => document.baseURI") == page_server.url


def test_a_login_that_ended_is_told_and_nothing_is_lost(
    guarded: Any, new_profile: Callable[..., BrowserContext], watch: Watch
) -> None:
    watch.foresee("401", "WebSocket", "ERR_")
    profile = new_profile()
    page = profile.new_page()
    log_in(page, guarded.url, "ann", "secret-of-ann")
    expect(page.get_by_test_id("canvas")).to_be_visible(timeout=MODEL_MS)
    profile.clear_cookies()
    name = toolbar(page).get_by_role("textbox", name="Name")
    name.fill("typed without a login")
    name.press("Enter")
    expect(say(page, "You are not logged in any more")).to_be_visible()
    page.get_by_role("region", name="Messages").get_by_role("button", name="Reload").click()
    log_in(page, guarded.url, "ann", "secret-of-ann")
    expect(name).to_have_value("typed without a login", timeout=MODEL_MS)


def test_a_dead_connection_is_told_and_comes_back(show: Callable[..., Page], watch: Watch) -> None:
    watch.foresee("WebSocket", "ERR_")
    page = show(graph=FIRST)
    expect(card(page, "denoise")).to_be_visible()
    page.context.set_offline(True)
    toolbar(page).get_by_role("textbox", name="Name").fill("typed while offline")
    toolbar(page).get_by_role("textbox", name="Name").press("Enter")
    expect(say(page, "The server does not answer")).to_be_visible()
    page.context.set_offline(False)
    expect(say(page, "The server answers again")).to_be_visible()
    page.reload()
    expect(toolbar(page).get_by_role("textbox", name="Name")).to_have_value("typed while offline")


def test_a_socket_that_does_not_get_through_is_told(
    page_server: Any, new_profile: Callable[..., BrowserContext], watch: Watch
) -> None:
    """As behind a proxy that knows no WebSockets: requests work, what goes on is not heard."""
    watch.foresee("WebSocket")
    page = new_profile().new_page()
    page.route_web_socket("**/loom/live", lambda socket: socket.close())
    visit(page, page_server.url)
    expect(say(page, "connection")).to_be_visible()


@pytest.mark.parametrize("turn", [1, 2])
def test_no_test_in_a_browser_finds_what_another_one_left(
    page_server: Any, new_profile: Callable[..., BrowserContext], turn: int
) -> None:
    page = new_profile().new_page()
    page.goto(f"{page_server.url}loom/me")
    assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
    page.evaluate("() => { localStorage.left = document.cookie = 'left=1'; }")
    assert page.evaluate("() => [localStorage.length, document.cookie]") == [1, "left=1"]
