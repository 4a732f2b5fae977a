"""Apps: a workflow that others run by its settings alone, as their own, until its owner takes the link back."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.registry import SPECS
from latentloom.ui.contract.app import AppValue
from latentloom.ui.library import app_form
from latentloom.ui.library.library import Library
from latentloom.ui.store.quota import Quota
from support.checkout import ROOT
from support.toy_server import copying, png, until

Clients = Callable[[str], Any]

PARAMS: dict[str, Any] = {
    "prompt": {"type": "string", "default": "a red star", "help": "What to paint."},
    "steps": {"type": "int", "default": 2, "min": 1, "max": 4, "group": "How"},
    "seed": {"type": "int", "default": 0},
}


@pytest.fixture
def graph(first: dict[str, Any]) -> dict[str, Any]:
    """One picture of the built-in model, by its prompt, steps and seed."""
    first["params"] = json.loads(json.dumps(PARAMS))
    first["nodes"]["encode_text"]["inputs"] |= {"prompt": {"param": "prompt"}, "negative_prompt": ""}
    first["nodes"]["denoise"]["inputs"] |= {"steps": {"param": "steps"}, "seed": {"param": "seed"}}
    return first


def keep(client: Any, graph: dict[str, Any]) -> str:
    return client.post("/loom/workflows", json={"graph": graph, "name": "stars"}).json()["id"]


def publish(client: Any, graph: dict[str, Any]) -> str:
    """The token of its app."""
    answer = client.put(f"/loom/workflows/{keep(client, graph)}/app", json={"version": 1})
    assert answer.status_code == 200, answer.json()
    return answer.json()["token"]


def run(client: Any, token: str, **said: Any) -> Any:
    return client.post(f"/loom/apps/{token}/runs", json=said)


def done(client: Any, run: str) -> dict[str, Any]:
    until(lambda: client.get(f"/loom/runs/{run}").json()["state"] in ("done", "failed"))
    return client.get(f"/loom/runs/{run}").json()


def test_who_opens_an_app_is_told_its_settings_and_nothing_of_its_nodes(log_in: Clients, graph: dict[str, Any]) -> None:
    token = publish(log_in("ann"), graph)
    answer = log_in("bob").get(f"/loom/apps/{token}")
    form = answer.json()
    assert (form["name"], form["version"], form["masks"]) == ("stars", 1, {})
    assert form.keys() == {"name", "description", "version", "groups", "masks"}
    assert [(group["title"], [each["name"] for each in group["fields"]]) for group in form["groups"]] == [
        ("", ["prompt"]),
        ("How", ["steps"]),
        ("", ["seed"]),
    ]
    prompt, steps, seed = (field for group in form["groups"] for field in group["fields"])
    assert (prompt["widget"], prompt["default"], prompt["help"]) == ("multiline", "a red star", "What to paint.")
    assert (steps["min"], steps["max"], seed["widget"]) == (1, 4, "seed")
    assert [name for name in (*graph["nodes"], "LoomDenoise", "from", "nodes") if f'"{name}"' in answer.text] == []


def test_a_run_of_an_app_belongs_to_and_counts_for_who_starts_it(log_in: Clients, graph: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    token = publish(ann, graph)
    sent = run(bob, token, params={"prompt": "a blue ring", "steps": 1})
    assert sent.status_code == 201, sent.json()
    made = done(bob, sent.json()["runs"][0])
    assert (made["state"], made["overrides"]) == ("done", {"prompt": "a blue ring", "steps": 1})
    [result] = bob.get(f"/loom/apps/{token}/results?run={made['id']}").json()
    assert (result["prompt"], result["workflow_id"]) == ("a blue ring", None)
    assert bob.get("/loom/results").json() == [result]
    assert bob.get(f"/loom/files/{result['id']}").status_code == 200

    def counts(who: Any) -> dict[str, int]:
        return {kind["kind"]: kind["count"] for kind in who.get("/loom/kept").json()["kinds"]}

    assert (counts(bob)["runs"], counts(bob)["results"], counts(bob)["workflows"]) == (1, 1, 0)
    assert (counts(ann)["runs"], counts(ann)["results"], counts(ann)["workflows"]) == (0, 0, 1)
    assert (ann.get("/loom/runs").json(), ann.get("/loom/results").json()) == ([], [])
    assert ann.get(f"/loom/apps/{token}/results?run={made['id']}").status_code == 404
    # as its dialog says: what he ran is his, the workflow in it too
    assert made["graph"]["nodes"].keys() == graph["nodes"].keys()


@pytest.mark.parametrize(
    ("params", "socket", "words"),
    [
        ({"steps": 5}, "steps", "steps is 5; it takes 1 to 4"),
        ({"steps": 0}, "steps", "steps is 0; it takes 1 to 4"),
        ({"steps": "2"}, "steps", "it takes a whole number"),
        ({"steps": [2]}, "steps", "it takes a whole number"),
        ({"seed": -1}, "seed", "seed is -1"),
        ({"prompt": 3}, "prompt", "it takes text"),
        ({"promt": "x"}, "promt", "'promt' is no setting of this app; did you mean 'prompt'?"),
        ({"denoise.steps": 2}, "denoise.steps", "is no setting of this app"),
        ({"load_model.source": "/etc"}, "load_model.source", "is no setting of this app"),
    ],
)
def test_only_settings_within_their_ranges_are_taken(
    log_in: Clients, graph: dict[str, Any], params: dict[str, Any], socket: str, words: str
) -> None:
    token, bob = publish(log_in("ann"), graph), log_in("bob")
    refused = run(bob, token, params=params)
    told = refused.json()
    assert (refused.status_code, told["code"]) == (400, "bad-workflow")
    [problem] = told["problems"]
    assert words in problem["message"] and (problem["node"], problem["socket"]) == ("", socket)
    assert bob.get("/loom/runs").json() == []


@pytest.mark.parametrize(
    "more",
    [
        {"graph": {"format": 1, "name": "x", "nodes": {}}},
        {"plan": "cfg=2"},
        {"devices": "all"},
        {"force": True},
        {"targets": ["denoise"]},
        {"sweep": ["seed=1..9"]},
        {"priority": "next"},
        {"overrides": {"denoise.steps": 2}},
        {"nodes": {}},
    ],
)
def test_nothing_but_settings_may_be_said(log_in: Clients, graph: dict[str, Any], more: dict[str, Any]) -> None:
    token, bob = publish(log_in("ann"), graph), log_in("bob")
    refused = run(bob, token, params={"steps": 1}, **more)
    assert (refused.status_code, refused.json()["code"]) == (400, "bad-input")
    assert refused.json()["error"].startswith(f"{next(iter(more))} of the request is wrong")
    assert bob.get("/loom/runs").json() == []


def test_what_a_node_would_refuse_is_told_of_the_setting_that_feeds_it(log_in: Clients, graph: dict[str, Any]) -> None:
    graph["params"]["width"] = {"type": "int", "default": 96, "max": 5000}
    graph["nodes"]["empty_latents"]["inputs"]["width"] = {"param": "width"}
    token, bob = publish(log_in("ann"), graph), log_in("bob")
    [problem] = run(bob, token, params={"width": 97}).json()["problems"]
    assert (problem["node"], problem["socket"], problem["mends"], problem["kind"]) == ("", "width", [], "error")


def test_a_formula_of_a_guest_that_would_never_end_is_refused_in_a_sentence(
    log_in: Clients, graph: dict[str, Any]
) -> None:
    """A number of 900 million digits: the run fails at its node, and the server answers the next guest."""
    graph["params"]["formula"] = {"type": "string", "default": "a + 1"}
    graph["nodes"]["how_many"] = {"type": "LoomCalculate", "inputs": {"formula": {"param": "formula"}, "a": 1.0}}
    graph["nodes"]["denoise"]["inputs"]["steps"] = {"from": "how_many.whole"}
    token = publish(log_in("ann"), graph)
    bob = log_in("bob")
    sent = run(bob, token, params={"formula": "round(5, -900000000)"})
    told = sent.json() if sent.status_code != 201 else done(bob, sent.json()["runs"][0])
    assert "round" in json.dumps(told) and told.get("state") != "done"
    assert done(bob, run(bob, token, params={"steps": 1}).json()["runs"][0])["state"] == "done"


def test_what_is_only_reckoned_keeps_an_app_from_running(log_in: Clients, graph: dict[str, Any]) -> None:
    graph["nodes"]["empty_latents"]["inputs"] |= {"width": 1024, "height": 1024}
    refused = run(log_in("bob"), publish(log_in("ann"), graph), params={})
    assert (refused.status_code, [each["kind"] for each in refused.json()["problems"]]) == (400, ["estimate"])


def test_what_is_known_before_a_run_is_told_by_setting(log_in: Clients, graph: dict[str, Any]) -> None:
    for side in ("width", "height"):
        graph["params"][side] = {"type": "int", "default": 0}
        graph["nodes"]["empty_latents"]["inputs"][side] = {"param": side}
    token, bob = publish(log_in("ann"), graph), log_in("bob")
    known = bob.post(f"/loom/apps/{token}/check", json={"params": {"width": 0}, "page": "x"}).json()
    assert (known["values"]["width"], known["values"]["height"]) == (128, 128)
    assert known["shapes"].keys() == {"height"} and known["shapes"]["height"]["width"] == "width"
    counted = bob.post(f"/loom/apps/{token}/tokens", json={"params": {"prompt": "a blue ring"}}).json()["tokens"]
    assert [*counted] == ["prompt"] and counted["prompt"][0]["num_tokens"] > 2
    for route in ("check", "tokens"):
        refused = bob.post(f"/loom/apps/{token}/{route}", json={"params": {"denoise.steps": 3}})
        assert (refused.status_code, refused.json()["code"]) == (400, "bad-workflow")


def test_a_list_is_taken_whole_or_refused_by_what_it_holds(log_in: Clients, graph: dict[str, Any]) -> None:
    graph["format"] = 2
    graph["params"]["names"] = {"type": "list[string]", "default": ["one"]}
    graph["nodes"]["save"] |= {"each": {"name": {"param": "names"}}}
    graph["nodes"]["save"]["inputs"].pop("name", None)
    token, bob = publish(log_in("ann"), graph), log_in("bob")
    for wrong, words in ((["one", 2], "names is 2; it takes text"), ("one", "it takes a list")):
        [problem] = run(bob, token, params={"names": wrong}).json()["problems"]
        assert problem["socket"] == "names" and words in problem["message"]
    started = run(bob, token, params={"names": ["one", "two"]})
    assert started.status_code == 201, started.json()
    # and so of a run of the whole page
    assert bob.post("/loom/runs", json={"graph": graph, "overrides": {"names": ["three"]}}).status_code == 201
    bob.post("/loom/runs/cancel", json={"runs": None})


def test_a_setting_without_a_value_has_to_be_given(log_in: Clients, graph: dict[str, Any]) -> None:
    del graph["params"]["prompt"]["default"]
    token, bob = publish(log_in("ann"), graph), log_in("bob")
    [problem] = run(bob, token, params={}).json()["problems"]
    assert (problem["socket"], problem["code"]) == ("prompt", "missing_param")
    assert "fill it in" in problem["message"]


def test_an_app_stays_at_its_version_until_it_is_published_anew_under_the_same_link(
    log_in: Clients, graph: dict[str, Any]
) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    id = keep(ann, graph)
    token = ann.put(f"/loom/workflows/{id}/app", json={"version": 1}).json()["token"]
    later = json.loads(json.dumps(graph)) | {"name": "moons"}
    later["params"]["steps"]["max"] = 9
    ann.put(f"/loom/workflows/{id}", json={"graph": later, "base_version": 1})
    assert bob.get(f"/loom/apps/{token}").json()["name"] == "stars"
    assert run(bob, token, params={"steps": 9}).status_code == 400
    [link] = ann.get("/loom/apps").json()
    assert (link["name"], link["version"], link["newest"], link["workflow_id"]) == ("stars", 1, 2, id)
    assert ann.put(f"/loom/workflows/{id}/app", json={"version": 2}).json()["token"] == token
    assert bob.get(f"/loom/apps/{token}").json()["name"] == "moons"
    assert ann.put(f"/loom/workflows/{id}/app", json={"version": 3}).json()["code"] == "not-here"
    assert bob.get("/loom/apps").json() == []


@pytest.mark.parametrize("way", ["revoked", "deleted"])
def test_a_link_that_was_taken_back_opens_nothing(log_in: Clients, graph: dict[str, Any], way: str) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    id = keep(ann, graph)
    token = ann.put(f"/loom/workflows/{id}/app", json={"version": 1}).json()["token"]
    assert bob.delete(f"/loom/workflows/{id}/app").status_code == 404
    assert bob.put(f"/loom/workflows/{id}/app", json={"version": 1}).status_code == 404
    assert ann.delete(f"/loom/workflows/{id}{'/app' if way == 'revoked' else ''}").status_code == 204
    for refused in (
        bob.get(f"/loom/apps/{token}"),
        run(bob, token, params={}),
        bob.get(f"/loom/apps/{token}/results?run=0123456789abcdef"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (404, "not-here")
        assert refused.json()["error"].startswith("there is no app under this link any more; ask")
    assert ann.get("/loom/apps").json() == []
    if way == "revoked":  # another link, and the old one stays dead
        assert ann.put(f"/loom/workflows/{id}/app", json={"version": 1}).json()["token"] != token
        assert bob.get(f"/loom/apps/{token}").status_code == 404


@pytest.mark.parametrize("token", ["0" * 22, "x", "0123456789abcdef", "_" * 64])
def test_a_token_that_nobody_was_given_is_refused(log_in: Clients, token: str) -> None:
    assert log_in("bob").get(f"/loom/apps/{token}").json()["code"] == "not-here"


def test_a_share_is_no_app_and_an_app_no_share(log_in: Clients, graph: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    id = keep(ann, graph)
    app = ann.put(f"/loom/workflows/{id}/app", json={"version": 1}).json()["token"]
    share = ann.post(f"/loom/workflows/{id}/share", json={}).json()["token"]
    assert (bob.get(f"/loom/apps/{share}").status_code, bob.get(f"/loom/shared/{app}").status_code) == (404, 404)
    assert bob.get(f"/loom/shared/{share}").json()["name"] == "stars"


def test_without_a_login_no_app_is_opened_or_run(log_in: Clients, graph: dict[str, Any]) -> None:
    token, stranger = publish(log_in("ann"), graph), log_in("")
    for refused in (stranger.get(f"/loom/apps/{token}"), run(stranger, token, params={})):
        assert (refused.status_code, refused.json()["code"]) == (401, "not-logged-in")


@pytest.mark.parametrize("place", ["load.path", "picture"])
def test_a_file_that_only_its_owner_can_read_is_refused_when_it_is_published(
    log_in: Clients, graph: dict[str, Any], place: str
) -> None:
    ann = log_in("ann")
    path = ann.post("/loom/uploads", content=png(), headers={"X-Name": "mine.png"}).json()["path"]
    graph["params"]["picture"] = {"type": "string", "default": path if place == "picture" else "eye.png"}
    value = {"param": "picture"} if place == "picture" else path
    graph["nodes"]["load"] = {"type": "LoomLoadImage", "inputs": {"path": value}}
    id = keep(ann, graph)
    refused = ann.put(f"/loom/workflows/{id}/app", json={"version": 1})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad-input")
    assert refused.json()["error"].startswith(f"{place} names {path}, which you uploaded and nobody else can read")
    assert ann.get("/loom/apps").json() == []


def test_a_guest_brings_a_picture_of_his_own_and_cannot_name_the_owners(log_in: Clients, graph: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    of_ann = ann.post("/loom/uploads", content=png(), headers={"X-Name": "hers.png"}).json()["path"]
    of_bob = bob.post("/loom/uploads", content=png(), headers={"X-Name": "his.png"}).json()["path"]
    loaded = copying({"param": "picture"}) | {"params": {"picture": {"type": "string"}}}
    token = publish(ann, loaded)
    [group] = bob.get(f"/loom/apps/{token}").json()["groups"]
    assert group["fields"][0]["widget"] == "picture"
    [problem] = run(bob, token, params={"picture": of_ann}).json()["problems"]
    assert (problem["node"], "not on this server" in problem["message"]) == ("", True)
    started = run(bob, token, params={"picture": of_bob})
    assert done(bob, started.json()["runs"][0])["state"] == "done"
    shipped = bob.get("/loom/me").json()["template_files"][0]
    started = run(bob, token, params={"picture": shipped})
    assert done(bob, started.json()["runs"][0])["state"] == "done"


@pytest.mark.parametrize("channel", ["luminance", None, {"param": "channel"}])
def test_a_mask_that_is_a_setting_says_how_it_is_read_and_which_picture_it_lies_over(
    log_in: Clients, channel: str | dict[str, str] | None
) -> None:
    graph = json.loads((ROOT / "workflows/bobbin/inpaint.json").read_text())
    graph["params"]["channel"] = {"type": "string", "default": "red"}
    graph["nodes"]["load_mask"]["inputs"].pop("channel")
    if channel is not None:
        graph["nodes"]["load_mask"]["inputs"]["channel"] = channel
    if channel is None:
        graph["nodes"]["load_image"]["inputs"]["path"] = "picture.png"
    mask = log_in("bob").get(f"/loom/apps/{publish(log_in('ann'), graph)}").json()["masks"]["mask"]
    picture = {"setting": "", "value": "picture.png"} if channel is None else {"setting": "image", "value": ""}
    assert mask["picture"] == picture
    is_setting = isinstance(channel, dict)
    said = {"setting": "channel", "value": ""} if is_setting else {"setting": "", "value": channel or "alpha"}
    assert mask["channel"] == said


def test_a_mask_beside_no_picture_lies_over_none() -> None:
    nodes = {"mask": {"type": "LoomLoadMask", "inputs": {"path": {"param": "mask"}}}}
    graph = graph_from_plain({"format": 2, "name": "m", "params": {"mask": {"type": "string"}}, "nodes": nodes})
    assert app_form.form_of(graph, SPECS, version=1).masks["mask"].picture == AppValue()


def test_an_app_is_there_again_after_a_restart_and_counts_for_its_owner(
    log_in: Clients, server: Any, graph: dict[str, Any]
) -> None:
    before = server.quota.used("ann")["workflows"]
    token = publish(log_in("ann"), graph)
    again = Library(server.settings, server.live, quota=Quota(server.settings.data_dir))
    assert again.apps.find(token).read() == server.library.apps.find(token).read()
    kept = server.quota.used("ann")["workflows"]
    assert Quota(server.settings.data_dir).used("ann")["workflows"] == kept > before
    server.library.delete("ann", again.published("ann")[0].workflow_id)
    assert server.quota.used("ann")["workflows"] == 0
    assert [*server.settings.data_dir.glob("apps/*"), *server.settings.data_dir.glob("users/*/apps/*")] == []


def test_results_that_the_workflow_does_not_show_are_left_out() -> None:
    from support.toys import graph

    shown = graph({"save": ("Save", {})}, layout={"save": {"at": [0, 0], "shown": False}, "other": [1, 2]})
    assert [app_form.is_shown(shown, node) for node in ("save", "save/2", "other", "elsewhere")] == [
        False,
        False,
        True,
        True,
    ]
