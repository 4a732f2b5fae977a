"""The picker's list of LoRAs over the API: which fit comes first, why others do not, and their pictures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latentloom.pipelines.models.loras.installed import InstalledLoras
from latentloom.ui.views import installed
from latentloom.ui.views.newest import Latest
from support.lora_files import write_pair


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def changes(models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A server of a folder with four LoRAs, of which nothing is remembered."""
    monkeypatch.setattr(installed, "_LOOK", Latest())
    write_pair(models / "loras" / "fits.safetensors", metadata={"modelspec.trigger_phrase": "<b>glz</b>"})
    write_pair(models / "another.safetensors", shape=(8, 8))
    write_pair(models / "foreign.safetensors", "lora_unet_double_blocks_0_img")
    write_pair(models / "likely.safetensors", "lora_unet_a", metadata={"ss_base_model_version": "flux1"})
    yield {"models_dirs": (models,)}


def rows(client: Any, **query: str) -> list[dict[str, Any]]:
    return client.get("/loom/loras", params=query).json()["loras"]


def test_those_that_fit_the_model_come_first_and_others_say_why(client: Any, models: Path) -> None:
    found = rows(client, model="builtin:bobbin")
    assert [(row["name"], row["verdict"]) for row in found] == [
        ("fits", "fits"),
        ("likely", "likely"),
        ("foreign", "unknown"),
        ("another", "other"),
    ]
    assert found[0]["folder"] == "loras" and found[0]["path"] == str(models / "loras" / "fits.safetensors")
    assert found[0]["triggers"] == ["<b>glz</b>"] and found[0]["rank"] == 4
    assert found[3]["why"].endswith("one of 8 x 8, and the model's is 192 x 192")


def test_without_a_model_or_with_a_wrong_one_nobody_knows_which_fit(client: Any) -> None:
    assert {row["verdict"] for row in rows(client)} == {"unknown"}
    answer = client.get("/loom/loras", params={"model": "/etc"}).json()
    assert {row["verdict"] for row in answer["loras"]} == {"unknown"}
    assert "outside the allowed folders" in answer["problem"]


def test_a_new_lora_is_seen_when_asked_to_look_again(client: Any, models: Path) -> None:
    assert len(rows(client)) == 4
    write_pair(models / "new.safetensors")
    assert len(rows(client)) == 4
    assert len(rows(client, refresh="true")) == 5


def test_the_picture_beside_a_lora_is_sent_small_and_nothing_else_is(client: Any, models: Path) -> None:
    Image.new("RGB", (900, 600), "teal").save(models / "another.png")
    (models / "likely.png").write_text("no picture")
    found = {row["name"]: row for row in rows(client)}
    assert [found[name]["has_picture"] for name in ("another", "likely", "foreign")] == [True, True, False]
    good = client.get(f"/loom/loras/{found['another']['id']}/thumb")
    assert (good.status_code, good.headers["content-type"]) == (200, "image/webp")
    assert len(good.content) < 20_000
    bad = client.get(f"/loom/loras/{found['likely']['id']}/thumb")
    assert bad.status_code == 400 and "likely.png" in bad.json()["error"]
    for id in (found["foreign"]["id"], "0" * 16):
        assert client.get(f"/loom/loras/{id}/thumb").status_code == 404


def test_pictures_are_those_of_the_last_look_and_cost_no_other_one(
    client: Any, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (90, 60), "teal").save(models / "another.png")
    monkeypatch.setattr("latentloom.pipelines.models.loras.installed.MOST_LORAS", 2)
    looks: list[bool] = []
    real = installed.installed_loras
    monkeypatch.setattr(installed, "installed_loras", lambda *args, **more: looks.append(True) or real(*args, **more))
    answer = client.get("/loom/loras").json()
    assert (len(answer["loras"]), answer["is_whole"], len(looks)) == (2, False, 1)
    id = next(row["id"] for row in answer["loras"] if row["has_picture"])
    monkeypatch.setattr(installed, "FRESH_S", -1.0)
    for _ in range(3):
        assert client.get(f"/loom/loras/{id}/thumb").status_code == 200
    assert len(looks) == 1
    assert client.get(f"/loom/loras/{'0' * 16}/thumb").status_code == 404


def test_a_look_that_ended_for_want_of_time_is_followed_by_another(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seconds = installed.installed_loras, iter([0.0])

    def late(*args: Any, **more: Any) -> InstalledLoras:
        return real(*args, **more, reading_s=next(seconds, 8.0))

    monkeypatch.setattr(installed, "installed_loras", late)
    first, second = (client.get("/loom/loras").json() for _ in range(2))
    assert (first["is_whole"], second["is_whole"], len(second["loras"])) == (False, True, 4)


@pytest.mark.parametrize("query", ["model=" + "x" * 5000, "modell=a", "refresh=maybe"])
def test_a_question_that_is_none_is_refused(client: Any, query: str) -> None:
    assert client.get(f"/loom/loras?{query}").status_code in (400, 422)
