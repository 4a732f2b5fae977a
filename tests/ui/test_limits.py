"""The gate in front of every route: how much one address may ask, and what is not served at all."""

import asyncio
from typing import Any

import pytest

from latentloom.ui.access import gate as limits
from latentloom.ui.access.address import Door
from support.raw_requests import Asked, ask, ask_each

FORM = ("Content-Type", "application/x-www-form-urlencoded")


def test_an_address_that_asks_for_too_much_at_a_time_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy, too, whose connections have no limit."""
    monkeypatch.setattr(limits, "MAX_ASKING", 2)
    release = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def statuses() -> list[int]:
        gate = limits.Gate(slow, Door(host="127.0.0.1"), trusted=("127.0.0.1",))
        users = [("x-forwarded-for", "192.0.2.1")] * 4 + [("x-forwarded-for", "192.0.2.2")] + [("x-a", "proxy's")] * 4
        tasks = [asyncio.create_task(ask(gate, Asked(headers=(user,)))) for user in users]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        release.set()
        answers = await asyncio.gather(*tasks)
        return [answer.status for answer in (*answers, await ask(gate, Asked(headers=(users[0],))))]

    assert asyncio.run(statuses()) == [200, 200, 429, 429, *[200] * 6]


def test_a_proxy_that_is_not_named_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    gate = limits.Gate(app, Door(host="127.0.0.1"), trusted=("10.0.0.1",))
    ask_each(gate, [Asked(), *[Asked(headers=(("x-forwarded-for", "192.0.2.1"),))] * 3])
    [warning] = caplog.messages
    assert "--trusted-proxy 127.0.0.1" in warning


def test_a_login_is_small(app: Any) -> None:
    assert [limits.body_limit(path) for path in ("/login", "/login/", "/loginx")] == [16 << 10, 16 << 10, 1 << 20]
    [answer] = ask_each(app, [Asked(method="POST", target="/login", headers=(FORM,), body=b"x" * 20_000)])
    assert answer.status == 413 and "16 KiB" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/gradio_api/upload", "/upload", "/gradio_api/upload?upload_id=x"])
def test_nothing_is_sent_to_gradios_own_uploads_which_nobody_counts(app: Any, path: str) -> None:
    for other in ("/gradio_api/upload", "/upload"):
        app.add_api_route(other, lambda: "taken", methods=["POST"])
    [answer] = ask_each(app, [Asked(method="POST", target=path, body=b"x")])
    assert answer.status == 404 and "/loom/uploads" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/gradio_api/proxy=http://a/", "/proxy=http://a/b"])
def test_the_server_fetches_nothing_from_others(app: Any, path: str) -> None:
    for method in ("GET", "POST"):
        [answer] = ask_each(app, [Asked(method=method, target=path)])
        assert answer.status == 404 and "fetches nothing from others" in answer.json()["error"]


def test_a_control_character_in_a_path_is_refused_before_any_route(app: Any) -> None:
    app.add_api_route("/gradio_api/proxy={path:path}", lambda path: 1 / 0)
    for path in ("/gradio_api/proxy=%00", "/%00", "/gradio_api/file=a%00.png", "/loom/files/a%0d%0ab", "/%7f"):
        assert ask_each(app, [Asked(target=path)])[0].status == 400
