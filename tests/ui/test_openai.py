"""The OpenAI-style API: models, pictures, edits and videos over runs; what is absent is refused in OpenAI's form."""

import base64
import io
import json
from collections.abc import Callable
from contextlib import closing
from threading import Thread
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from latentloom.pipelines.values import Place
from latentloom.ui.access.gate import JSON_BYTES
from latentloom.ui.access.tokens import Tokens, new_token
from latentloom.ui.api import following
from latentloom.ui.api.openai import images as image_routes
from latentloom.ui.service.app import make_app
from latentloom.ui.service.health import Health
from support.toy_server import png, until

Clients = Callable[[str], Any]
FAST = {"denoise.steps": 1}
MODEL = "first_picture"


def generate(client: Any, key: str = "", **said: Any) -> Any:
    body = {"model": MODEL, "prompt": "a red star", "size": "64x48", "params": FAST, **said}
    headers = {"Idempotency-Key": key} if key else {}
    return client.post("/v1/images/generations", json=body, headers=headers)


def pictures(answer: Any) -> list[Image.Image]:
    assert answer.status_code == 200, answer.json()
    return [Image.open(io.BytesIO(base64.b64decode(row["b64_json"]))) for row in answer.json()["data"]]


def wrong(answer: Any, status: int, param: str | None, words: str = "") -> str:
    """The code of what was refused."""
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param), error
    assert words in error["message"] and error.keys() == {"message", "type", "param", "code"}
    return error["code"]


def publish(client: Any, graph: dict[str, Any], name: str) -> str:
    """The token of its app."""
    kept = client.post("/loom/workflows", json={"graph": graph, "name": name}).json()["id"]
    answer = client.put(f"/loom/workflows/{kept}/app", json={"version": 1})
    assert answer.status_code == 200, answer.json()
    return answer.json()["token"]


def clip(path: str = "clip.mp4", **more: Any) -> dict[str, Any]:
    """A workflow that makes a video without a model: frames of one that is there."""
    nodes = {
        "note": {"type": "LoomNote", "inputs": {"text": {"param": "prompt"}}},
        "load": {"type": "LoomLoadVideo", "inputs": {"path": path, "frames": {"param": "frames"}}},
        "save": {"type": "LoomSaveVideo", "inputs": {"video": {"from": "load.video"}, "fps": 8.0}},
    }
    params = {"prompt": {"type": "string", "default": ""}, "frames": {"type": "int", "default": 2}}
    return {"format": 1, "name": "clip", "params": params, "nodes": nodes, **more}


LENGTH = {"meta": {"openai": {"prompt": "prompt", "frames": "frames", "fps": 8}}}


@pytest.fixture
def video(client: Any) -> str:
    publish(client, clip(**LENGTH), "a clip")
    return "a clip"


def created(client: Any, model: str, **said: Any) -> Any:
    return client.post("/v1/videos", data={"model": model, "prompt": "waves", **said})


def completed(client: Any, id: str) -> dict[str, Any]:
    until(lambda: client.get(f"/v1/videos/{id}").json()["status"] in ("completed", "failed"))
    return client.get(f"/v1/videos/{id}").json()


def test_apps_and_templates_that_run_here_are_models(client: Any, first: dict[str, Any], video: str) -> None:
    publish(client, first, "stars")
    newer = publish(client, first, "stars")
    rows = {row["id"]: row for row in client.get("/v1/models").json()["data"]}
    assert {"stars", video, MODEL, "image_to_image"} <= rows.keys() and "flux_2" not in rows
    assert rows[MODEL]["takes"] == ["prompt", "size", "seed", "n"] and rows[MODEL]["makes"] == "image"
    assert rows["inpaint"]["takes"] == ["prompt", "size", "seed", "n", "image", "mask"]
    assert (rows["stars"]["takes"], rows["stars"]["owned_by"]) == (["prompt", "seed", "n"], "local")
    assert (rows[video]["makes"], rows[video]["takes"]) == ("video", ["prompt", "seconds"])
    assert client.get(f"/v1/models/{MODEL}").json() == rows[MODEL]
    assert client.get(f"/v1/models/{newer}").json()["id"] == newer
    assert wrong(client.get("/v1/models/gpt-image-9"), 404, "model") == "model_not_found"


def test_pictures_are_generated_with_seeds_one_after_the_other(client: Any) -> None:
    answer = generate(client, n=2, seed=4)
    found = pictures(answer)
    assert [(each.format, each.size) for each in found] == [("PNG", (64, 48))] * 2
    rows = answer.json()["data"]
    assert [row["seed"] for row in rows] == [4, 5] and answer.json()["size"] == "64x48"
    assert found[0].tobytes() != found[1].tobytes()
    made = client.get(f"/loom/runs/{rows[1]['run']}").json()
    assert made["overrides"] == {"prompt": "a red star", "seed": 5, **FAST, "empty_latents.width": 64} | {
        "empty_latents.height": 48
    }
    assert pictures(generate(client, seed=5))[0].tobytes() == found[1].tobytes()


def test_a_seed_that_is_not_given_is_drawn_within_its_range_and_told(client: Any, first: dict[str, Any]) -> None:
    rows = [row for _ in range(2) for row in generate(client, n=2).json()["data"]]
    seeds = [row["seed"] for row in rows]
    assert len({*seeds}) == 4 and (seeds[1] - seeds[0], seeds[3] - seeds[2]) == (1, 1)
    first["params"]["seed"] |= {"min": 3, "max": 4}
    publish(client, first, "narrow")
    rows = generate(client, model="narrow", n=2, size="auto", params={}).json()["data"]
    assert [row["seed"] for row in rows] == [3, 4]


@pytest.mark.parametrize(("format", "kind"), [("png", "PNG"), ("jpeg", "JPEG"), ("webp", "WEBP")])
def test_pictures_come_in_the_format_that_is_asked_for(client: Any, format: str, kind: str) -> None:
    [found] = pictures(generate(client, output_format=format, output_compression=80))
    assert (found.format, found.size) == (kind, (64, 48))


def test_a_url_is_answered_to_the_same_login(client: Any) -> None:
    [row] = generate(client, response_format="url").json()["data"]
    assert row["b64_json"] is None and row["url"].startswith("http://127.0.0.1:7860/loom/files/")
    assert client.get(row["url"]).headers["content-type"] == "image/png"
    wrong(generate(client, response_format="url", output_format="webp"), 400, "output_format")


@pytest.mark.parametrize(
    ("said", "status", "param", "words"),
    [
        ({"model": "gpt-image-1"}, 404, "model", "there is nothing called 'gpt-image-1'"),
        ({"model": "prompt_grid_"}, 404, "model", "did you mean prompt_grid?"),
        ({"model": None}, 400, "model", "missing"),
        ({"size": "100x100"}, 400, "size", "multiples of 16"),
        ({"size": "large"}, 400, "size", "got 'large'"),
        ({"size": "4096x4096"}, 400, "size", "trained on pictures of up to"),
        ({"n": 11}, 400, "n", "less than or equal to 10"),
        ({"quality": "hd"}, 400, "quality", "it takes auto"),
        ({"seed": -1}, 400, "seed", ""),
        ({"stream": True}, 400, "stream", ""),
        ({"partial_images": 2}, 400, "partial_images", ""),
        ({"style": "vivid"}, 400, "style", ""),
        ({"background": "transparent"}, 400, "background", ""),
        ({"params": {"denoise.stepz": 2}}, 400, "params", "steps"),
        ({"params": {"denoise.steps": -1}}, 400, "params", "steps is -1"),
        ({"rounding": "some"}, 400, "rounding", ""),
    ],
)
def test_what_is_absent_or_wrong_is_refused_by_its_name(
    client: Any, said: dict[str, Any], status: int, param: str, words: str
) -> None:
    wrong(generate(client, **said), status, param, words)
    assert client.get("/loom/runs").json() == []


def test_what_says_nothing_is_taken(client: Any) -> None:
    nothing = dict.fromkeys(("n", "quality", "style", "stream", "response_format"))
    assert len(pictures(generate(client, **nothing, user="me", moderation="low", background="opaque"))) == 1


def test_who_has_no_login_is_told_so_in_openai_s_form(log_in: Clients) -> None:
    stranger = log_in("")
    for answer in (stranger.get("/v1/models"), generate(stranger), created(stranger, "x"), stranger.get("/v1/none")):
        assert wrong(answer, 401, None) == "invalid_api_key"
    wrong(log_in("ann").get("/v1/chat/completions"), 404, None, "there is no GET /v1/chat/completions")


@pytest.mark.parametrize("changes", [{"tokens": Tokens(None, "a-token-of-this-test")}])
def test_a_service_asks_for_its_token(server: Any, tmp_path: Any) -> None:
    (file := tmp_path / "tokens").write_text((reads := new_token("grafana", "read"))[1])
    app = make_app(server, Health(server, lambda: False))
    app.state.tokens = Tokens(file, "a-token-of-this-test")
    with TestClient(app, base_url="http://127.0.0.1:7860") as client:
        client.headers["Authorization"] = "Bearer a-token-of-this-test"
        assert len(pictures(generate(client))) == 1 and client.get("/v1/models").status_code == 200
        client.headers["Authorization"] = f"Bearer {reads[0]}"
        assert client.get("/v1/models").status_code == 200 and wrong(generate(client), 403, None) == "out-of-scope"
        for sent in ("Bearer another", "Basic x", ""):
            client.headers["Authorization"] = sent
            for answer in (client.get("/v1/models"), generate(client), client.get("/v1/nothing")):
                assert wrong(answer, 401, None) == "invalid_api_key"
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("changes", [{"most_waiting": 1, "most_points": 2}])
def test_too_much_at_a_time_is_refused_as_a_rate(client: Any, server: Any, video: str) -> None:
    with server.runs.idle():
        assert created(client, video).status_code == 200
        late = created(client, video)
        assert wrong(late, 429, None, "at most 1 may") == "rate_limit_exceeded" and late.headers["retry-after"] == "10"
    wrong(generate(client, n=3), 400, "n", "at most 2 are made at once")


def test_what_the_gate_refuses_has_openai_s_form(client: Any) -> None:
    wrong(client.get("/v1/models", headers={"Host": "evil.example"}), 403, None, "not called")
    wrong(client.post("/v1/images/generations", content=b"x" * (2 << 20)), 413, None, "larger than")
    wrong(client.post("/v1/images/generations", content=b"{"), 415, None)


def test_a_request_that_comes_again_with_its_key_is_answered_by_the_same_runs(client: Any, video: str) -> None:
    first, again = (generate(client, key="k", n=2).json()["data"] for _ in range(2))
    assert first == again and len(client.get("/loom/runs").json()) == 2
    assert wrong(generate(client, key="k", n=1), 422, None) == "key-taken"
    rows = [
        client.post("/v1/videos", data={"model": video, "prompt": "a"}, headers={"Idempotency-Key": "v"}).json()["id"]
        for _ in range(2)
    ]
    assert rows[0] == rows[1]


def edit(client: Any, *files: tuple[str, bytes], model: str = "image_to_image", **said: Any) -> Any:
    data = {"model": model, "prompt": "a blue star", "params[denoise.steps]": "2", "size": "64x48", **said}
    return client.post("/v1/images/edits", data=data, files=[(name, (f"{name}.png", data)) for name, data in files])


def test_a_picture_is_edited(client: Any) -> None:
    given = {"seed": "3", "params[strength]": "0.5"}
    [found] = pictures(edit(client, ("image", png(64, 48)), n="1", **given))
    assert found.size == (64, 48)
    [other] = pictures(edit(client, ("image[]", png(64, 48, "red")), **given))
    assert found.tobytes() != other.tobytes()
    wrong(edit(client, ("image", png(64, 48)), seed="3", **{"params[strength]": "much"}), 400, "params", "strength")


def test_what_a_mask_keeps_stays_to_the_byte(client: Any) -> None:
    given = Image.new("RGB", (64, 64), (10, 120, 200))
    mask = Image.new("RGBA", (64, 64), (0, 0, 0, 255))
    mask.paste((0, 0, 0, 0), (0, 0, 64, 24))  # transparent: painted anew
    bright = Image.new("L", (64, 64), 0)
    bright.paste(255, (0, 0, 64, 24))

    def data(picture: Image.Image) -> bytes:
        picture.save(file := io.BytesIO(), "PNG")
        return file.getvalue()

    sent = ("image", data(given))
    found = [
        pictures(
            edit(client, sent, ("mask", data(each)), model="inpaint", size="auto", **{"params[blur]": "0", "seed": "1"})
        )[0]
        for each in (mask, bright)
    ]
    kept = given.crop((0, 32, 64, 64)).tobytes()
    assert [each.convert("RGB").crop((0, 32, 64, 64)).tobytes() for each in found] == [kept, kept]
    assert found[0].tobytes() == found[1].tobytes() and found[0].tobytes() != given.tobytes()


def test_edits_that_cannot_be_are_refused(client: Any) -> None:
    wrong(edit(client), 400, "image", "no picture came")
    wrong(edit(client, ("image", b"no picture")), 400, None, "is not a picture")
    wrong(edit(client, ("image", png()), ("image", png())), 400, "image", "takes 1 pictures, and 2 came")
    wrong(edit(client, ("image", png(64, 48)), ("mask", png(64, 48))), 400, "mask", "no input that is its mask")
    wrong(edit(client, ("image", png()), model=MODEL), 400, "image", "takes 0 pictures")
    wrong(edit(client, ("picture", png())), 400, "picture")
    wrong(client.post("/v1/images/edits", content=b"x", headers={"Content-Type": "text/plain"}), 415, None)


def test_an_app_takes_its_settings_and_what_its_owner_declares(log_in: Clients, first: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    plain = publish(ann, first, "plain")
    said = {"size": ["empty_latents.width", "empty_latents.height"], "quality": {"low": {"denoise.steps": 1}}}
    declared = publish(ann, first | {"meta": {"openai": said}}, "declared")
    wrong(generate(bob, model=plain, params={}), 400, "size", "has no input that is its size")
    wrong(generate(bob, model=declared), 400, "params", "is no setting of this app")
    wrong(generate(bob, model="declared", params={}), 404, "model")  # a name is its owner's
    answer = generate(bob, model=declared, params={}, quality="low")
    assert pictures(answer)[0].size == (64, 48)
    run = bob.get(f"/loom/runs/{answer.json()['data'][0]['run']}").json()
    assert run["overrides"]["denoise.steps"] == 1
    wrong(generate(bob, model=declared, params={}, size="100x64"), 400, "size", "multiples of 16")
    assert ann.get("/loom/runs").json() == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"colour": "x"}, "meta.openai.colour of the workflow is wrong"),
        ({"size": ["empty_latents.width"]}, "meta.openai.size"),
        ({"seed": "denoise.sed"}, "names denoise.sed, which is no input that may be set"),
    ],
)
def test_a_wrong_declaration_is_told(client: Any, first: dict[str, Any], said: Any, words: str) -> None:
    publish(client, first | {"meta": {"openai": said}}, "wrong")
    wrong(generate(client, model="wrong"), 400, None, words)
    assert "wrong" not in {row["id"] for row in client.get("/v1/models").json()["data"]}


CACHE = {"approximate": {"denoise.step_cache": "first_block"}, "allowed": {"load_model.engine": "inductor"}}


@pytest.mark.parametrize(
    ("inputs", "looser"),
    [
        ({"denoise": {"step_cache": "first_block"}}, "approximate"),
        ({"load_model": {"quantization": "int8"}}, "approximate"),
        ({"load_model": {"engine": "inductor"}}, "allowed"),
        ({"load_model": {"text_encoder": "cpu"}}, "allowed"),
        ({"denoise": {"steps": 1}}, "none"),
    ],
)
def test_a_workflow_of_a_looser_rounding_than_asked_for_is_refused(
    client: Any, server: Any, first: dict[str, Any], monkeypatch: pytest.MonkeyPatch, inputs: Any, looser: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(server.runs, "submit", lambda *args, **named: asked.append(named) or 1 / 0)
    for node, more in inputs.items():
        first["nodes"][node]["inputs"] |= more
    publish(client, first, "loose")
    order = ("none", "allowed", "approximate")
    for rounding in order:
        answer = generate(client, model="loose", size="auto", params={}, rounding=rounding)
        if order.index(rounding) < order.index(looser):
            assert wrong(answer, 400, "rounding", f"send rounding {looser}") == "rounding"
        else:
            assert answer.status_code == 500
    assert len(asked) == 3 - order.index(looser)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"place": Place(devices=("cpu", "cpu"), plan="ring=2")}, 400),
        ({"place": Place(devices=("cpu", "cpu"), plan="auto,compiled")}, 400),
        ({"place": Place(devices=("cpu", "cpu"), plan="ulysses=2")}, 500),
        ({"place": Place(devices=("cpu", "cpu"), plan="auto")}, 500),
    ],
)
def test_the_server_s_own_plan_counts(client: Any, server: Any, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(server.runs, "submit", lambda *args, **named: 1 / 0)
    assert generate(client).status_code == status


def test_rounding_takes_what_the_owner_named_for_it(
    client: Any, server: Any, first: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(server.runs, "submit", lambda *args, **named: asked.append(named["overrides"]) or 1 / 0)
    publish(client, first | {"meta": {"openai": {"rounding": CACHE}}}, "both")
    for rounding in ("none", "allowed", "approximate"):
        assert generate(client, model="both", size="auto", params={}, rounding=rounding).status_code == 500
    found = [{name: value for name, value in each.items() if "." in name} for each in asked]
    assert found == [{}, CACHE["allowed"], CACHE["approximate"]]


def test_a_video_is_made_looked_at_fetched_listed_and_deleted(client: Any, video: str) -> None:
    row = created(client, video, seconds="0.5").json()
    assert (row["object"], row["model"], row["prompt"], row["seconds"]) == ("video", video, "waves", "0.5")
    done = completed(client, row["id"])
    assert (done["status"], done["progress"], done["error"], done["seconds"]) == ("completed", 100, None, "0.5")
    content = client.get(f"/v1/videos/{row['id']}/content")
    assert content.headers["content-type"] == "video/mp4" and content.content[4:8] == b"ftyp"
    assert client.get(f"/v1/videos/{row['id']}/content?variant=thumbnail").headers["content-type"] == "image/webp"
    wrong(client.get(f"/v1/videos/{row['id']}/content?variant=spritesheet"), 400, "variant")
    more = [created(client, video).json()["id"] for _ in range(2)]
    listed = client.get("/v1/videos?limit=2").json()
    assert ([each["id"] for each in listed["data"]], listed["has_more"]) == ([more[1], more[0]], True)
    rest = client.get(f"/v1/videos?after={listed['last_id']}").json()
    assert ([each["id"] for each in rest["data"]], rest["has_more"]) == ([row["id"]], False)
    assert client.get("/v1/videos?order=asc").json()["data"][0]["id"] == row["id"]
    for id in (row["id"], *more):
        assert client.delete(f"/v1/videos/{id}").json() == {"id": id, "object": "video.deleted", "deleted": True}
        wrong(client.get(f"/v1/videos/{id}"), 404, "id")
    assert client.get("/loom/results").json() == []


def test_videos_that_cannot_be_are_refused(client: Any, video: str) -> None:
    wrong(created(client, MODEL), 400, "model", "first_picture makes no video")
    wrong(created(client, video, seconds="long"), 400, "seconds")
    wrong(created(client, video, size="64x64"), 400, "size", "has no input that is its size")
    wrong(generate(client, model=video), 400, "model", "a clip makes no image")
    publish(client, clip("gone.mp4", **LENGTH), "gone")
    wrong(created(client, "gone"), 400, None, "gone.mp4")  # an app tells nothing of nodes
    [picture] = generate(client).json()["data"]
    wrong(client.get(f"/v1/videos/{picture['run']}"), 404, "id")


def test_a_video_that_waits_has_no_content_and_is_ended_when_it_is_deleted(
    client: Any, server: Any, video: str
) -> None:
    with server.runs.idle():
        id = created(client, video).json()["id"]
        assert client.get(f"/v1/videos/{id}").json()["status"] == "queued"
        assert wrong(client.get(f"/v1/videos/{id}/content"), 400, "id", "is queued") == "not_ready"
        assert client.delete(f"/v1/videos/{id}").status_code == 200
    assert client.get("/loom/runs").json() == []


def test_a_video_survives_a_restart(client: Any, server: Any, settings: Any, video: str) -> None:
    from latentloom.ui.api.openai.videos import _row
    from latentloom.ui.live.live import Live
    from latentloom.ui.runs.runs import Runs

    row = completed(client, created(client, video, seconds="0.5").json()["id"])
    with closing(Runs(settings, Live())) as again:
        assert json.loads(_row(again.book.get("local", row["id"])).model_dump_json()) == row


def test_who_goes_away_or_waits_too_long_wants_it_no_more(
    client: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_routes, "MOST_S", 0.05)
    with server.runs.idle():
        assert wrong(generate(client), 503, None, "it was not made in") == "timeout"
        assert [run["state"] for run in client.get("/loom/runs").json()] == ["cancelled"]
        assert generate(client, key="k").status_code == 503  # it will be asked for again
        assert [run["state"] for run in client.get("/loom/runs").json()] == ["waiting", "cancelled"]


def test_who_waits_for_pictures_that_a_server_will_not_begin_is_sent_to_another(
    client: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BEAT_S", 0.05)
    found: list[Any] = []
    with server.runs.idle():
        asking = Thread(target=lambda: found.append(generate(client)))
        asking.start()
        until(lambda: client.get("/loom/runs").json())
        server.runs.drain(0)
        asking.join(30)
    assert wrong(found[0], 503, None, "about to end") == "draining" and found[0].headers["retry-after"] == "5"
    assert [run["state"] for run in client.get("/loom/runs").json()] == ["cancelled"]


def test_a_run_that_fails_is_an_error_of_its_kind(client: Any, server: Any) -> None:
    found: list[Any] = []
    with server.runs.idle():
        asking = Thread(target=lambda: found.append(edit(client, ("image", png(64, 48)))))
        asking.start()
        until(lambda: client.get("/loom/runs").json())
        client.delete(f"/loom/uploads/{client.get('/loom/uploads').json()[0]['path']}")
    asking.join(60)
    wrong(found[0], 400, None, "is not on this server")
    assert found[0].headers["x-should-retry"] == "false"


def test_json_of_a_route_that_takes_files_is_as_small_as_elsewhere(client: Any) -> None:
    for path in ("images/edits", "videos"):
        answer = client.post(f"/v1/{path}", json={"model": MODEL, "prompt": "x" * JSON_BYTES})
        wrong(answer, 413, None, "larger than 8 MiB")
