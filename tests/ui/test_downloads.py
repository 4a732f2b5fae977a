"""Models that the page's server fetches from a hub: asked for, counted, cancelled, gone on with, found again."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from latentloom.pipelines.hub.child import looked_at
from latentloom.pipelines.hub.look import HubModel, NotFetched
from latentloom.pipelines.models.source import BUILTINS, NotPulled, home_of, resolve_source
from latentloom.ui.contract.kept import Download
from latentloom.ui.downloads import downloads as module
from latentloom.ui.downloads import records
from latentloom.ui.downloads.downloads import Downloads
from latentloom.ui.downloads.records import Pace
from latentloom.ui.errors import Conflict, NoRoom, NotHere
from latentloom.ui.live.live import Live, PageSeen
from latentloom.ui.store.quota import Quota
from support.fake_hub import COMMIT, FakeHub, hub_in, look_here
from support.toy_server import settings_in, until


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    origin = Path(shutil.copytree(BUILTINS["bobbin"], tmp_path / "origin"))
    (origin / "LICENSE.md").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr(records, "looked_at", lambda model_id, revision, timeout_s: look_here(model_id, revision))
    (tmp_path / "data").mkdir(exist_ok=True)
    with hub_in(origin, tmp_path / "cache", monkeypatch) as hub:
        yield hub


class Stage:
    """Downloads with what they stand on."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        silent_s = changes.pop("silent_s", 60.0)
        settings = settings_in(folder, allows_downloads=True, **changes)
        self.live = Live()
        self.quota = Quota(settings.data_dir, user_bytes=settings.user_bytes, counts_results=settings.has_auth)
        self.downloads = Downloads(settings, self.live, quota=self.quota, silent_s=silent_s)

    def start(self, user: str = "ada") -> Download:
        return self.downloads.start(user, "org/name", commit=self.downloads.look(user, "org/name").commit)

    def the(self, user: str = "ada") -> Download:
        (download,) = self.downloads.list(user)
        return download

    def ends(self, state: str, user: str = "ada") -> Download:
        until(lambda: self.the(user).state not in ("waiting", "fetching"))
        assert self.the(user).state == state, self.the(user).error
        return self.the(user)

    def close(self) -> None:
        self.downloads.close()


USERS = {"ada": "secret", "bob": "secret"}


def test_a_download_is_cancelled_in_the_middle_and_goes_on_with_the_rest(hub: FakeHub, tmp_path: Path) -> None:
    hub.stop_at = "LICENSE.md"
    with closing(Stage(tmp_path, users=USERS)) as stage:
        shown = stage.downloads.look("ada", "org/name")
        assert shown.num_bytes > 1 << 20 and not shown.problem and shown.had_bytes == 0
        begun = stage.start()
        assert (begun.state, begun.model, begun.total_bytes) == ("waiting", "org/name", shown.num_bytes)
        until(lambda: stage.the().done_bytes > 1 << 18)
        assert stage.the().state == "fetching" and stage.quota.used("ada")["models"] == shown.num_bytes
        stage.downloads.cancel("ada", begun.id)
        stopped = stage.the()
        assert stopped.state == "cancelled" and 1 << 18 < stopped.done_bytes < 1 << 20
        assert stage.quota.used("ada")["models"] == stopped.done_bytes
        hub.go_on.set()
        hub.sent.clear()
        assert stage.downloads.resume("ada", begun.id).state == "waiting"
        done = stage.ends("done")
        assert done.done_bytes == done.total_bytes and done.done_files == done.total_files
        assert sum(hub.sent.values()) == done.total_bytes - stopped.done_bytes
        assert stage.downloads.look("ada", "org/name").had_bytes == done.total_bytes
        with pytest.raises(Conflict, match="is there, for all users"):
            stage.downloads.delete("ada", begun.id)
    assert "hf_secret" not in "".join(path.read_text() for path in (tmp_path / "data").rglob("*.json"))


def test_a_hub_that_hangs_is_given_up(hub: FakeHub, tmp_path: Path) -> None:
    hub.stop_at = "LICENSE.md"
    with closing(Stage(tmp_path, silent_s=4.0)) as stage:
        id = stage.start().id
        failed = stage.ends("failed")
        assert "nothing came from the hub for 4 s; try again" in failed.error and failed.code == "not-fetched"
        with pytest.raises(NotHere):
            stage.downloads.resume("bob", id)
        stage.downloads.delete("ada", id)
        assert stage.downloads.list("ada") == [] and stage.quota.used("ada").get("models", 0) == 0
        assert not list((tmp_path / "cache").rglob("*.part"))
    assert looked_at("org/name", "").commit == COMMIT
    hub.is_silent = True
    with pytest.raises(NotFetched, match="nothing came from the hub for 1 s"):
        looked_at("org/name", "", timeout_s=1.0)


class Fetch:
    """Stands in for the process that fetches: does what a test says, when it says."""

    under_way: list[str]

    def __init__(self, model: Any, cache: Path) -> None:
        self.model, self.is_closed = model, False
        Fetch.under_way.append(model.commit)

    def events(self, *, silent_s: float) -> Iterator[dict[str, Any]]:
        yield {"bytes": 1000, "files": 1}
        until(lambda: Fetch.may_end or Fetch.fails or self.is_closed)
        if Fetch.fails or self.is_closed:
            raise module.NoRoom("ended")
        yield {"folder": ""}

    def close(self) -> None:
        self.is_closed = True

    may_end = fails = False


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch) -> type[Fetch]:
    Fetch.under_way, Fetch.may_end, Fetch.fails = [], False, False
    monkeypatch.setattr(module, "fetching", Fetch)
    monkeypatch.setattr(module, "is_whole", lambda home, model: True)
    return Fetch


def test_two_who_ask_for_the_same_have_one_download(hub: FakeHub, fetch: type[Fetch], tmp_path: Path) -> None:
    with closing(Stage(tmp_path, users=USERS)) as stage:
        one, two = stage.start("ada"), stage.start("bob")
        assert one.id == two.id
        until(lambda: stage.the("bob").done_bytes == 1000)
        assert stage.quota.used("bob")["models"] == 0 and stage.quota.used("ada")["models"] == one.total_bytes
        stage.downloads.cancel("ada", one.id)
        assert stage.downloads.list("ada") == [] and stage.the("bob").state == "fetching"
        assert stage.quota.used("ada")["models"] == 0 and stage.quota.used("bob")["models"] == one.total_bytes
        fetch.may_end = True
        stage.ends("done", "bob")
        assert len(fetch.under_way) == 1


def test_who_joins_a_download_needs_the_room_that_it_takes_and_inherits_it_only_with_it(
    hub: FakeHub, fetch: type[Fetch], tmp_path: Path
) -> None:
    with closing(Stage(tmp_path, users={**USERS, "cid": "secret"}, user_bytes=24 << 20)) as stage:
        stage.quota.add("bob", "models", num_bytes=23 << 20)
        one = stage.start("ada")
        assert stage.downloads.look("ada", "org/name").problem == ""  # it counts already
        assert stage.downloads.look("bob", "org/name").code == "no-room"
        with pytest.raises(NoRoom, match=r"and you may keep 1\.0 MiB more"):
            stage.start("bob")
        stage.quota.add("bob", "models", num_bytes=-23 << 20)
        stage.start("bob")
        stage.quota.add("bob", "models", num_bytes=23 << 20)  # he fetched another meanwhile
        stage.start("cid")
        stage.downloads.cancel("ada", one.id)
        assert (stage.the("bob").state, stage.quota.used("cid")["models"]) == ("fetching", one.total_bytes)
        stage.downloads.cancel("cid", one.id)
        assert stage.the("bob").state == stage.the("cid").state == "cancelled"
        assert stage.quota.used("bob")["models"] == 23 << 20
        stage.downloads.delete("cid", one.id)
        assert stage.quota.used("cid")["models"] == 0 and stage.quota.used("bob")["models"] == 23 << 20


@pytest.mark.parametrize("when", ["meanwhile", "afterwards"])
def test_what_is_there_is_had_by_each_revision_that_was_asked_for(hub: FakeHub, tmp_path: Path, when: str) -> None:
    hub.stop_at = "LICENSE.md"
    with closing(Stage(tmp_path)) as stage:
        stage.start()
        if when == "afterwards":
            hub.go_on.set()
            stage.ends("done")
        with pytest.raises(NotPulled):
            resolve_source("org/name", revision="v2")
        shown = stage.downloads.look("ada", "org/name", "v2")
        stage.downloads.start("ada", "org/name", "v2", commit=shown.commit)
        hub.go_on.set()
        stage.ends("done")
        assert resolve_source("org/name", revision="v2").folder == resolve_source("org/name").folder
        assert len(stage.downloads.list("ada")) == 1


def test_what_is_deleted_spares_the_blobs_of_another_commit_that_is_not_a_model_yet(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.stop_at = "LICENSE.md"
    with closing(Stage(tmp_path, users=USERS)) as stage:
        one = stage.start("ada")
        until(lambda: stage.the().done_bytes > 1 << 18)
        stage.downloads.cancel("ada", one.id)
        monkeypatch.setattr("support.fake_hub.COMMIT", "d" * 40)
        two = stage.start("bob")
        until(lambda: stage.the("bob").state == "fetching")
        stage.downloads.cancel("bob", two.id)
        left = stage.quota.used("bob")["models"]
        stage.downloads.delete("ada", one.id)
        assert stage.quota.used("ada")["models"] == 0 and stage.quota.used("bob")["models"] >= left > 1 << 18
        hub.go_on.set()
        stage.downloads.resume("bob", two.id)
        done = stage.ends("done", "bob")
        assert (done.commit, done.id) == ("d" * 40, two.id)


def test_what_stays_for_another_download_counts_as_its_own(
    hub: FakeHub, fetch: type[Fetch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Stage(tmp_path, users=USERS)) as stage:
        one = stage.start("ada")
        until(lambda: stage.the().done_bytes == 1000)
        monkeypatch.setattr("support.fake_hub.COMMIT", "d" * 40)
        two = stage.start("bob")
        stage.downloads.cancel("bob", two.id)  # before anything of it came
        stage.downloads.cancel("ada", one.id)
        home = home_of(tmp_path / "cache", "org/name")
        (home / "blobs").mkdir(parents=True)
        weights = next(file for file in look_here("org/name", "").files if file.name == "LICENSE.md")
        shutil.copyfile(hub.folder / "LICENSE.md", home / "blobs" / weights.hash)
        assert stage.quota.used("bob")["models"] == 0
        stage.downloads.delete("ada", one.id)
        assert stage.quota.used("bob")["models"] == stage.the("bob").done_bytes == weights.num_bytes
        stage.downloads.delete("bob", two.id)
        assert stage.quota.used("bob")["models"] == 0 and not list((home / "blobs").iterdir())


def test_nobody_is_charged_for_what_they_gave_up(hub: FakeHub, fetch: type[Fetch], tmp_path: Path) -> None:
    with closing(Stage(tmp_path, users=USERS)) as stage:
        one = stage.start("ada")
        stage.downloads.cancel("ada", one.id)
        assert stage.start("bob").id == one.id
        stage.downloads.cancel("bob", one.id)
        assert stage.the("bob").state == "cancelled" and stage.downloads.list("ada") == []
        assert stage.quota.used("ada")["models"] == 0


def test_a_revision_is_not_taken_back_by_who_asks_for_an_older_one_of_the_same_commit(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Stage(tmp_path, users=USERS)) as stage:
        shown = stage.downloads.look("ada", "org/name", "v1")
        stage.downloads.start("ada", "org/name", "v1", commit=shown.commit)
        stage.start("ada")
        stage.ends("done")
        monkeypatch.setattr("support.fake_hub.COMMIT", "d" * 40)
        stage.start("bob")
        stage.ends("done", "bob")
        stage.downloads.start("ada", "org/name", "v1", commit=shown.commit)
        assert resolve_source("org/name").revision == "d" * 40
        assert resolve_source("org/name", revision="v1").revision == shown.commit


def test_a_hub_that_drips_is_given_up(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.0)
    monkeypatch.setattr(module, "SLOW_BYTES", 1 << 40)
    with closing(Stage(tmp_path)) as stage:
        stage.start()
        assert "org/name came too slowly to wait for it; try again" in stage.ends("failed").error


def test_no_user_looks_away_what_another_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "looked_at", lambda model_id, revision, timeout_s: HubModel(
        id=model_id, revision=revision, commit="a" * 40, licence="", licence_url="", is_gated=False
    ))  # fmt: skip
    seen = records.Looks()
    seen.look("ada", "org/name", "")
    for number in range(records.MOST_KEPT + 2):
        seen.look("bob", "org/name", f"v{number}")
    assert seen.seen("ada", "org/name", "", commit="a" * 40).id == "org/name"
    with pytest.raises(Conflict, match="look at org/name first"):
        seen.seen("bob", "org/name", "v0", commit="a" * 40)


def test_a_user_asks_the_hub_for_one_thing_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = records.Looks()
    monkeypatch.setattr(records, "looked_at", lambda *_, **__: looks.look("ada", "org/other", ""))
    with pytest.raises(Conflict, match="the hub is being asked already; wait for its answer, then look again"):
        looks.look("ada", "org/name", "")


def test_a_model_that_is_refused_when_it_is_there_leaves_nothing(hub: FakeHub, tmp_path: Path) -> None:
    weights = next(hub.folder.rglob("vae/*.safetensors"))
    weights.write_bytes(b"x" * 100_000)
    with closing(Stage(tmp_path, users=USERS)) as stage:
        id = stage.start().id
        assert stage.ends("failed").error
        home = home_of(tmp_path / "cache", "org/name")
        assert not [path for path in home.rglob("*") if path.is_symlink()] and not (home / "refs").exists()
        assert stage.quota.used("ada")["models"] == stage.the().done_bytes > 0
        stage.downloads.delete("ada", id)
        assert not list((home / "blobs").iterdir())


def test_one_who_deletes_a_download_takes_it_from_no_one_else(
    hub: FakeHub, fetch: type[Fetch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(module, "remove", lambda home, model, spared: removed.append(model.id))
    with closing(Stage(tmp_path, users=USERS)) as stage:
        one = stage.start("ada")
        stage.start("bob")
        fetch.fails = True
        stage.ends("failed", "bob")
        stage.downloads.delete("bob", one.id)
        assert removed == [] and stage.downloads.list("bob") == [] and stage.the("ada").state == "failed"
        stage.downloads.delete("ada", one.id)
        assert removed == ["org/name"] and stage.downloads.list("ada") == []


def test_a_second_model_waits_for_the_first_and_a_restart_keeps_both(
    hub: FakeHub, fetch: type[Fetch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Stage(tmp_path, users=USERS)) as stage:
        first = stage.start("ada")
        until(lambda: stage.the().state == "fetching")
        monkeypatch.setattr("support.fake_hub.COMMIT", "d" * 40)
        second = stage.start("bob")
        assert second.id != first.id
        assert (stage.the("bob").state, stage.the("bob").num_before) == ("waiting", 1)
    fetch.may_end = True
    with closing(Stage(tmp_path, users=USERS)) as stage:
        stage.ends("done", "ada")
        stage.ends("done", "bob")
        assert fetch.under_way == [COMMIT, COMMIT, "d" * 40]
        assert stage.quota.used("bob")["models"] == second.total_bytes
    monkeypatch.setattr(module, "is_whole", lambda home, model: False)
    with closing(Stage(tmp_path, users=USERS)) as stage:  # somebody removed the models meanwhile
        assert stage.downloads.list("ada") == [] and stage.quota.used("ada")["models"] == 0


def test_only_what_a_user_was_shown_is_fetched(hub: FakeHub, fetch: type[Fetch], tmp_path: Path) -> None:
    with closing(Stage(tmp_path)) as stage:
        with pytest.raises(Conflict, match="look at org/name first"):
            stage.downloads.start("ada", "org/name", commit=COMMIT)
        stage.downloads.look("ada", "org/name")
        with pytest.raises(Conflict, match="look at org/name first"):
            stage.downloads.start("ada", "org/name", commit="e" * 40)
        hub.has_access = False
        assert stage.downloads.look("ada", "org/name").code == "gated"
        with pytest.raises(ValueError, match="accept its terms at https://huggingface"):
            stage.downloads.start("ada", "org/name", commit=COMMIT)
        assert fetch.under_way == []


def test_no_more_than_a_user_may_keep_and_the_disk_takes(
    hub: FakeHub, fetch: type[Fetch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Stage(tmp_path, users=USERS, user_bytes=1000)) as stage:
        shown = stage.downloads.look("ada", "org/name")
        assert shown.room_bytes == 1000 and shown.code == "no-room"
        with pytest.raises(NoRoom, match=r"org/name takes .* MiB, and you may keep 0\.0 MiB more"):
            stage.start()
    with closing(Stage(tmp_path, user_bytes=1000)) as stage:  # without a login the disk is the user's own
        assert stage.downloads.look("ada", "org/name").room_bytes is None
        with monkeypatch.context() as full:
            full.setattr(records, "free_bytes", lambda cache: 300 << 20)
            hub.listed["transformer/huge.safetensors"] = 1 << 30
            with pytest.raises(NoRoom, match=r"the server's disk has 300\.0 MiB left"):
                stage.start()
            hub.listed.clear()
        stage.start()
        until(lambda: stage.the().done_bytes == 1000)
        stage.downloads.cancel("ada", stage.the().id)
        with monkeypatch.context() as full:
            looked = iter([1 << 40, 1 << 40])
            full.setattr(records, "free_bytes", lambda cache: next(looked, 0))
            stage.downloads.resume("ada", stage.the().id)
            error = stage.ends("failed").error
            assert "the server's disk has 0.0 MiB left" in error and not error.startswith("0.0 MiB of")


def test_a_page_is_told_of_each_change(hub: FakeHub, fetch: type[Fetch], tmp_path: Path) -> None:
    with closing(Stage(tmp_path)) as stage:
        seen = PageSeen()

        def count(user: str = "ada") -> int:
            message = stage.live.changes(user, PageSeen())
            assert message is not None
            return message.downloads

        assert count() == 0
        stage.start()
        until(lambda: stage.the().done_bytes == 1000)
        assert count() >= 3 and count("bob") == 0
        fetch.may_end = True
        stage.ends("done")
        assert stage.live.changes("ada", seen)


def test_the_pace_is_that_of_late() -> None:
    now = 0.0
    pace = Pace(clock=lambda: now)
    assert pace.bytes_per_s is None
    for now in range(30):
        pace.add(100 * now if now < 15 else 1500 + 1000 * (now - 15))
    assert pace.bytes_per_s == pytest.approx(1000)


@pytest.mark.parametrize("changes", [{"allows_downloads": False}])
def test_without_the_option_every_route_refuses(client: Any) -> None:
    assert client.get("/loom/me").json()["allows_downloads"] is False
    asked = [
        client.post("/loom/hub", json={"id": "org/name"}),
        client.get("/loom/downloads"),
        client.post("/loom/downloads", json={"id": "org/name", "commit": COMMIT}),
        client.post(f"/loom/downloads/{'0' * 16}/cancel", json={}),
        client.post(f"/loom/downloads/{'0' * 16}/resume", json={}),
        client.delete(f"/loom/downloads/{'0' * 16}"),
    ]
    assert [answer.status_code for answer in asked] == [403] * 6
    assert {answer.json()["code"] for answer in asked} == {"downloads-off"}
    assert "--allow-downloads" in asked[0].json()["error"]


@pytest.mark.parametrize("changes", [{"allows_downloads": True}])
def test_the_routes_look_start_list_and_cancel(client: Any, hub: FakeHub, fetch: type[Fetch]) -> None:
    shown = client.post("/loom/hub", json={"id": "org/name"}).json()
    assert (shown["licence"], shown["is_gated"], shown["problem"]) == ("apache-2.0", False, "")
    begun = client.post("/loom/downloads", json={"id": "org/name", "commit": shown["commit"]})
    assert begun.status_code == 201
    assert [row["id"] for row in client.get("/loom/downloads").json()] == [begun.json()["id"]]
    assert client.post(f"/loom/downloads/{begun.json()['id']}/cancel", json={}).status_code == 204
    assert client.get("/loom/downloads").json()[0]["state"] == "cancelled"
    assert client.delete(f"/loom/downloads/{begun.json()['id']}").status_code == 204
    assert client.get("/loom/downloads").json() == []
    assert client.post("/loom/hub", json={"id": "../x"}).json()["error"].startswith("'../x' is no hub id")
    assert json.loads(client.post("/loom/downloads", json={"id": "org/name", "commit": "main"}).text)["code"]
