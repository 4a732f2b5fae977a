"""The WebSocket: who may listen, what it tells first and then, and that it stays quick beside a slow reader."""

import time
from dataclasses import asdict
from typing import Any

import pytest
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from latentloom.parallel.machine.now import DeviceNow
from latentloom.ui.api import live_socket
from latentloom.ui.contract.run import QueuePlace
from latentloom.ui.views import devices as device_watch

LIVE = "ws://127.0.0.1:7860/loom/live"
ORIGIN = {"Origin": "http://127.0.0.1:7860"}
CPU = DeviceNow(name="cpu", title="a CPU", total_bytes=2, used_bytes=1, load=None)


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> list[DeviceNow]:
    """What the machine tells of its devices."""
    found: list[DeviceNow] = []
    monkeypatch.setattr(device_watch, "devices_now", lambda: list(found))
    monkeypatch.setattr(device_watch, "GAP_S", 0.05)
    return found


def test_what_the_devices_do_is_told(client: Any, devices: list[DeviceNow]) -> None:
    with client.websocket_connect(LIVE) as socket:
        assert socket.receive_json()["devices"] == []
        devices.append(CPU)
        assert socket.receive_json()["devices"] == [asdict(CPU)]


def test_the_page_that_comes_right_after_the_last_one_is_told_too(
    client: Any, devices: list[DeviceNow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a reload, while the look for the page before is still under way."""
    monkeypatch.setattr(device_watch, "devices_now", lambda: time.sleep(0.3) or list(devices))
    with client.websocket_connect(LIVE) as socket:
        socket.receive_json()
    with client.websocket_connect(LIVE) as socket:
        socket.receive_json()
        devices.append(CPU)
        assert socket.receive_json()["devices"] == [asdict(CPU)]


def test_a_socket_that_cannot_tell_any_more_is_closed(
    client: Any, server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with client.websocket_connect(LIVE) as socket:
        socket.receive_json()
        monkeypatch.setattr(server.live, "changes", lambda user, seen: 1 / 0)
        server.live.count("local", "library")
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
    assert ended.value.code == live_socket.FAILED
    assert "told nothing any more" in caplog.text


def test_only_what_changed_is_told_afterwards(client: Any, server: Any) -> None:
    with client.websocket_connect(LIVE, headers=ORIGIN) as socket:
        first = socket.receive_json()
        assert first["full"] is True
        assert set(first) >= {"seq", "t", "server", "runs", "removed", "library", "results"}
        server.live.put_queue([("ann", QueuePlace(id="0" * 16, is_mine=True, state="waiting", name="hers"))])
        second = socket.receive_json()
    assert second["full"] is False
    assert second["seq"] > first["seq"]
    place = {"id": None, "is_mine": False, "state": "waiting", "name": "", "priority": "normal"}
    assert second["queue"] == [{**place, "left_s": None, "left_at": 0.0}]


def test_a_page_is_told_at_most_twelve_times_a_second(client: Any, server: Any) -> None:
    with client.websocket_connect(LIVE) as socket:
        socket.receive_json()
        start, num_changes = time.monotonic(), 0
        while time.monotonic() < start + 1.0:
            server.live.count("local", "library")
            num_changes += 1
            time.sleep(0.005)
        told = [socket.receive_json()]
        while told[-1]["library"] < num_changes:
            told.append(socket.receive_json())
        seconds = time.monotonic() - start
    assert num_changes > 3 * len(told)
    assert len(told) <= 12 * seconds + 1


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}])
def test_a_foreign_page_gets_no_socket(client: Any, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(LIVE, headers=headers):
        pass


def test_a_stranger_gets_no_socket(log_in: Any) -> None:
    with pytest.raises(WebSocketDenialResponse) as refused, log_in("").websocket_connect(LIVE):
        pass
    assert refused.value.status_code == 401


def test_who_logs_out_is_told_no_more(app: Any, log_in: Any, server: Any) -> None:
    with log_in("ann").websocket_connect(LIVE) as socket:
        socket.receive_json()
        app.tokens.clear()
        server.live.count("ann", "library")
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
    assert ended.value.code == live_socket.POLICY


def test_a_long_message_closes_the_socket_and_a_ping_does_not(client: Any, server: Any) -> None:
    with client.websocket_connect(LIVE) as socket:
        socket.receive_json()
        socket.send_text("ping")
        server.live.count("local", "library")
        assert socket.receive_json()["library"] == 1
        socket.send_text("x" * 10_000)
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
    assert ended.value.code == live_socket.TOO_BIG


def test_sockets_of_a_user_are_bounded(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "MAX_SOCKETS", 1)
    with (
        client.websocket_connect(LIVE),
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect(LIVE),
    ):
        pass
    assert refused.value.status_code == 429
    with client.websocket_connect(LIVE) as socket:
        assert socket.receive_json()["full"]
