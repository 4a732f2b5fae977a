"""The devices as the page shows them: asked once for all who watch."""

from collections.abc import Iterator

import pytest

from latentloom.parallel.machine import now
from latentloom.parallel.machine.now import DeviceNow
from latentloom.ui.views import devices
from latentloom.ui.views.newest import Latest


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Grows with every look at the machine."""
    looks: list[int] = []

    def look() -> tuple[DeviceNow, ...]:
        looks.append(1)
        return (DeviceNow(name="cpu", title="a CPU", total_bytes=100, used_bytes=len(looks), load=0.5),)

    monkeypatch.setattr(now, "devices_now", look)
    monkeypatch.setattr(devices, "_LATEST", Latest())
    yield looks


def test_a_device_has_what_the_page_needs(looks: list[int]) -> None:
    cpu = DeviceNow(name="cpu", title="a CPU", total_bytes=100, used_bytes=1, load=0.5)
    devices.devices_now().clear()
    assert devices.devices_now() == [cpu], "what a caller changes is its own"


def test_the_machine_is_asked_at_most_once_a_second(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        devices.devices_now()
    assert len(looks) == 1
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    assert devices.devices_now()[0].used_bytes == 2
