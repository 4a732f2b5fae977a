"""Pools that nobody uses make room for others; toy pools stand for processes."""

import threading
from collections.abc import Iterator

import pytest

from latentloom.pipelines import pools
from latentloom.pipelines.pools import Pools
from latentloom.pipelines.values import Place


class ToyPool:
    def __init__(
        self, devices: tuple[str, ...], *, replicas: int, preload: list[str], spare_ranks: bool | None
    ) -> None:
        self.devices = devices
        self.spare_ranks = spare_ranks
        self.num_rests = self.restarts = 0
        self.is_closed = False

    def rest_spares(self) -> None:
        self.num_rests += 1

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pools]:
    monkeypatch.setattr(pools, "Pool", ToyPool)
    toys = Pools()
    yield toys
    toys.close()


def at(*devices: str) -> Place:
    return Place(devices=devices)


def test_a_place_keeps_its_pool(toys: Pools) -> None:
    with toys.using(at("cpu", "cpu"), list) as first:
        pass
    with toys.using(at("cpu", "cpu"), list) as second:
        assert second is first and not first.is_closed


def test_a_pool_that_ended_by_itself_is_replaced(toys: Pools) -> None:
    with toys.using(at("cpu"), list) as first:
        first.close()
    with toys.using(at("cpu"), list) as second:
        assert second is not first and not second.is_closed


def test_a_pool_in_use_is_not_closed_for_another_on_its_device(toys: Pools) -> None:
    with toys.using(at("cuda:0", "cuda:1"), list) as busy:
        with toys.using(at("cuda:0"), list) as other:
            assert not busy.is_closed
        with toys.using(at("cuda:1"), list):
            assert not busy.is_closed and not other.is_closed
    with toys.using(at("cuda:0", "cuda:2"), list):
        assert busy.is_closed and other.is_closed


def test_two_idle_pools_are_kept_the_ones_used_last(toys: Pools) -> None:
    found = []
    for number in (1, 2, 1, 3):
        with toys.using(at(*["cpu"] * number), list) as pool:
            found.append(pool)
    one, two, _, three = found
    assert [pool.is_closed for pool in (one, two, three)] == [False, True, False]


def test_a_pool_is_idle_when_its_last_user_has_left(toys: Pools) -> None:
    inside, leave = threading.Event(), threading.Event()

    def use() -> None:
        with toys.using(at("cuda:0", "cuda:1"), list):
            inside.set()
            leave.wait(10)

    user = threading.Thread(target=use)
    user.start()
    assert inside.wait(10)
    with toys.using(at("cuda:0", "cuda:1"), list) as shared:
        pass
    with toys.using(at("cuda:0"), list):
        assert not shared.is_closed
    leave.set()
    user.join(10)
    with toys.using(at("cuda:1"), list):
        assert shared.is_closed


def test_closing_ends_all(toys: Pools) -> None:
    with toys.using(at("cpu"), list) as pool:
        toys.close()
        assert pool.is_closed


@pytest.mark.parametrize(("told", "wanted"), [(None, None), ("", None), ("1", True), ("0", False)])
def test_who_starts_this_says_whether_devices_keep_a_rank_in_reserve(
    told: str | None, wanted: bool | None, toys: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LATENTLOOM_SPARE_RANKS", raising=False)
    if told is not None:
        monkeypatch.setenv("LATENTLOOM_SPARE_RANKS", told)
    with toys.using(at("cpu"), list) as pool:
        assert pool.spare_ranks is wanted  # type: ignore[attr-defined]


def test_another_word_for_it_is_refused(toys: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATENTLOOM_SPARE_RANKS", "yes")
    with pytest.raises(ValueError, match="is 'yes'; set it to 1 or 0"), toys.using(at("cpu"), list):
        pass


def test_pools_without_work_end_when_asked_and_spares_of_the_others_rest(toys: Pools) -> None:
    with toys.using(at("cpu"), list) as idle:
        pass
    with toys.using(at("cpu", "cpu"), list) as busy:
        toys.close_idle()
        assert idle.is_closed and not busy.is_closed
        assert busy.num_rests == 1  # type: ignore[attr-defined]
    toys.close_idle()
    assert busy.is_closed and not toys.open
