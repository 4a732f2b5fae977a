"""The HTTP API, one test for each thing the page does: what goes in, what comes out, what is said of mistakes."""

import io
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import TypeAdapter

from latentloom.nodes.execution.preflight import Foretold
from latentloom.nodes.files.audio_files import write_audio
from latentloom.nodes.registry import SPECS
from latentloom.parallel.progress import Setting
from latentloom.pipelines.costs.ran import Ran
from latentloom.ui.api import graphs
from latentloom.ui.contract.shown import ErrorAnswer
from support.toy_server import DEADLINE_S, copying, ended, png

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def copied(client: Any) -> dict[str, Any]:
    """A run of `copying` that is over."""
    path = client.post("/loom/uploads", content=png(32, 24), headers={"X-Name": "sea%20view.png"}).json()["path"]
    [run] = client.post("/loom/runs", json={"graph": copying(path)}).json()["runs"]
    return ended(client, run)


def test_the_catalog_lists_every_node_and_may_be_kept(client: Any) -> None:
    answer = client.get("/loom/catalog")
    catalog = answer.json()
    assert {node["id"] for node in catalog["nodes"]} == set(SPECS)
    assert {"Model", "Latents", "Image", "int"} <= set(catalog["types"])
    again = client.get("/loom/catalog", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_node_has_the_sockets_of_what_is_chosen(client: Any, tmp_path: Path) -> None:
    asked = {"type": "LoomRunPipeline", "values": {"source": "builtin:bobbin", "pipeline": "WanPipeline"}}
    node = client.post("/loom/sockets", json=asked).json()
    assert "num_frames" in {each["name"] for each in node["inputs"]} and node["chosen_by"] == []
    assert [each["name"] for each in node["outputs"]] == ["video"]
    own = client.post("/loom/sockets", json={**asked, "values": {"source": "builtin:bobbin"}}).json()
    assert "true_cfg_scale" in {each["name"] for each in own["inputs"]}
    for values, words in (
        ({"pipeline": "WanPipelin"}, "did you mean WanPipeline?"),
        ({"source": str(tmp_path)}, "outside the allowed folders"),
    ):
        refused = client.post("/loom/sockets", json={**asked, "values": values})
        assert refused.status_code == 400 and words in refused.json()["error"]


def test_the_page_is_told_who_asks_and_what_is_allowed(client: Any) -> None:
    me = client.get("/loom/me").json()
    assert me == {
        "user": "local",
        "has_auth": False,
        "version": me["version"],
        "output_dir_name": "output",
        "max_upload_bytes": 64 * 2**20,
        "most_waiting": 1000,
        "allows_downloads": False,
        "template_files": ["image_to_image.png", "inpaint.png", "middle.png", "picture.png", "tone.flac"],
    }


def test_files_of_the_page_may_be_kept_for_ever_with_their_version(client: Any, tmp_path: Path) -> None:
    from latentloom.ui.bundle import read_bundle

    version = read_bundle(tmp_path / "static").version
    for query, keeping in (("", "no-cache"), ("?v=old", "no-cache"), (f"?v={version}", "immutable")):
        assert keeping in client.get(f"/loom/static/loom.js{query}").headers["cache-control"]
    assert "immutable" in client.get("/loom/static/loom.help.0A1B2C3D.js").headers["cache-control"]
    assert client.get("/loom/static/secret.js").status_code == 404
    with pytest.raises(ValueError, match="npm run build"):
        read_bundle(Path("/nowhere"))


def test_templates_are_sound_workflows(client: Any) -> None:
    found = client.get("/loom/templates").json()
    assert found[0]["id"] == "first_picture"
    for template in found:
        answer = client.post("/loom/text", json={"graph": template["graph"]})
        assert answer.status_code == 200, answer.text


def test_a_workflow_is_saved_opened_renamed_and_deleted(client: Any, first: dict[str, Any]) -> None:
    made = client.post("/loom/workflows", json={"graph": first, "name": "mine", "folder": "tests"})
    assert made.status_code == 201
    id = made.json()["id"]
    saved = client.put(
        f"/loom/workflows/{id}", json={"graph": first | {"description": "new"}, "base_version": 1}
    ).json()
    assert saved["version"] == 2
    late = client.put(f"/loom/workflows/{id}", json={"graph": first | {"description": "two"}, "base_version": 1})
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    assert client.get(f"/loom/workflows/{id}?version=1").json()["graph"].get("description", "") != "new"
    assert client.patch(f"/loom/workflows/{id}", json={"name": "yours"}).json()["name"] == "yours"
    assert [each["version"] for each in client.get(f"/loom/workflows/{id}/versions").json()] == [2, 1]
    copy = client.post(f"/loom/workflows/{id}/duplicate", json={}).json()
    assert {each["id"] for each in client.get("/loom/workflows").json()} == {id, copy["id"]}
    assert client.delete(f"/loom/workflows/{id}").status_code == 204
    assert client.get(f"/loom/workflows/{id}").status_code == 404


def test_a_workflow_comes_as_a_file_that_opens_again(client: Any, first: dict[str, Any]) -> None:
    id = client.post("/loom/workflows", json={"graph": first, "name": "über/<b>"}).json()["id"]
    file = client.get(f"/loom/workflows/{id}/file")
    assert file.headers["content-disposition"].startswith("attachment; filename*=utf-8''%C3%BCber%2F%3Cb%3E")
    opened = client.post("/loom/open", content=file.content, headers={"X-Name": "x.json"}).json()
    assert opened["graph"]["nodes"] == first["nodes"]


def test_a_thumbnail_is_written_anew(client: Any, first: dict[str, Any]) -> None:
    id = client.post("/loom/workflows", json={"graph": first}).json()["id"]
    assert client.put(f"/loom/workflows/{id}/thumb", content=png(900, 300)).status_code == 204
    thumb = client.get(f"/loom/workflows/{id}/thumb")
    assert thumb.headers["content-type"] == "image/png"
    assert thumb.headers["content-security-policy"].startswith("default-src 'none'")
    assert Image.open(io.BytesIO(thumb.content)).width == 512
    assert client.put(f"/loom/workflows/{id}/thumb", content=b"GIF89a").status_code == 400


def test_a_draft_is_kept_as_it_is(client: Any) -> None:
    draft = {"graph": {"half": ["done", {"x": None}]}, "workflow_id": None, "base_version": None}
    assert client.put("/loom/drafts/new-1", json=draft).status_code == 200
    assert [each["key"] for each in client.get("/loom/drafts").json()] == ["new-1"]
    assert client.get("/loom/drafts/new-1").json()["graph"] == draft["graph"]
    start = client.get("/loom/start").json()
    assert (start["me"], start["drafts"]) == (client.get("/loom/me").json(), client.get("/loom/drafts").json())
    assert start["newest"] == client.get("/loom/drafts/new-1").json()
    assert client.delete("/loom/drafts/new-1").status_code == 204
    assert client.get("/loom/drafts/new-1").status_code == 404
    assert client.get("/loom/start").json()["newest"] is None


def test_a_wrong_workflow_is_refused_with_all_its_problems(client: Any, first: dict[str, Any]) -> None:
    first["nodes"]["denoise"]["inputs"] |= {"steps": "many", "latents": {"from": "load_model.model"}}
    told = client.post("/loom/check", json={"graph": first}).json()
    problems = told["problems"]
    assert {(each["node"], each["socket"]) for each in problems} == {("denoise", "steps"), ("denoise", "latents")}
    assert {each["message"] for each in problems} <= told["said"].keys()
    assert told["values"]["empty_latents"] == {"width": 128, "height": 128, "frames": 1}  # known all the same
    assert told["sizes"]["empty_latents"].items() >= {"width": 128, "height": 128, "multiple": 16}.items()
    refused = client.post("/loom/runs", json={"graph": first})
    assert refused.status_code == 400
    assert refused.json()["problems"] == problems
    assert client.get("/loom/runs").json() == []


def test_what_is_reckoned_is_refused_unless_it_is_forced_and_errors_always_are(
    client: Any, first: dict[str, Any]
) -> None:
    sides = {"empty_latents.width": 1024, "empty_latents.height": 1024}
    refused = client.post("/loom/runs", json={"graph": first, "overrides": sides})
    [problem] = refused.json()["problems"]
    assert (refused.status_code, problem["kind"], "--force" in problem["message"]) == (400, "estimate", False)
    started = client.post("/loom/runs", json={"graph": first, "overrides": sides, "force": True})
    assert started.status_code == 201
    client.post(f"/loom/runs/{started.json()['runs'][0]}/cancel", json={})
    wrong = {"graph": first, "overrides": {"load_model.source": "nobody/has-it"}, "force": True}
    [problem] = client.post("/loom/runs", json=wrong).json()["problems"]
    assert (problem["node"], problem["kind"]) == ("load_model", "error") and "latentloom" not in problem["message"]


def test_the_bad_points_of_a_sweep_are_told_and_not_begun(client: Any, first: dict[str, Any]) -> None:
    sent = client.post("/loom/runs", json={"graph": first, "sweep": ["empty_latents.width=96,100"]}).json()
    assert len(sent["runs"]) == 1
    [left] = sent["left_out"]
    assert sent["num_left_out"] == 1 and not sent["shared_out"]
    assert left["varied"] == {"empty_latents.width": 100} and left["problems"][0]["mends"]
    client.post(f"/loom/runs/{sent['runs'][0]}/cancel", json={})
    assert client.post("/loom/runs", json={"graph": first, "sweep": ["empty_latents.width=77,100"]}).status_code == 400
    sides = {"overrides": {"empty_latents.height": 1024}, "sweep": ["empty_latents.width=77,1024"]}
    refused = client.post("/loom/runs", json={"graph": first, **sides}).json()
    assert [each["kind"] for each in refused["problems"]] == ["estimate"]  # what can be forced is asked about


def test_a_newer_check_of_the_same_page_ends_the_older_and_nobody_waits_for_it(
    client: Any, first: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    def slow(*given: Any, go_on: Callable[[], None], **named: Any) -> Foretold:
        is_first = not began.is_set()
        began.set()
        while is_first:
            go_on()
            time.sleep(0.005)
        return Foretold(problems=[])

    monkeypatch.setattr(graphs, "foretell", slow)
    asked = {"graph": first, "page": "p"}
    with ThreadPoolExecutor(1) as threads:
        older = threads.submit(client.post, "/loom/check", json=asked)
        assert began.wait(DEADLINE_S) and client.get("/loom/me").status_code == 200
        assert client.post("/loom/check", json=asked).json() == {"problems": [], "values": {}, "sizes": {}}
        assert (older.result().status_code, older.result().json()["code"]) == (409, "superseded")


def test_a_check_sees_the_uploads_of_the_user_who_asks(log_in: Callable[[str], Any], first: dict[str, Any]) -> None:
    ann, bob = log_in("ann"), log_in("bob")
    path = ann.post("/loom/uploads", content=png(), headers={"X-Name": "cat.png"}).json()["path"]
    first["nodes"]["load_image"] = {"type": "LoomLoadImage", "version": 1, "inputs": {"path": path}}
    encode = {"model": {"from": "load_model.model"}, "image": {"from": "load_image.image"}}
    first["nodes"]["empty_latents"] = {"type": "LoomEncodeImage", "version": 1, "inputs": encode}
    told = [each.post("/loom/check", json={"graph": first}).json()["problems"] for each in (ann, bob)]
    assert [[each["code"] for each in problems] for problems in told] == [[], ["no_file"]]


def test_a_workflow_is_exported_to_comfyui_and_python_and_opened_from_there(client: Any, first: dict[str, Any]) -> None:
    prompt = client.post("/loom/export/comfyui", json={"graph": first}).json()
    assert prompt["denoise"]["class_type"] == "LoomDenoise"
    answer = client.post("/loom/open", content=json.dumps(prompt).encode(), headers={"X-Name": "prompt.json"})
    assert set(answer.json()["graph"]["nodes"]) == set(first["nodes"])
    script = client.post("/loom/export/python", json={"graph": first, "targets": ["encode_text"]}).json()["text"]
    assert "nodes.encode_text(model=load_model, prompt=prompt" in script
    assert "nodes.denoise" not in script
    editor = client.post("/loom/open", content=b'{"nodes": [], "links": []}', headers={"X-Name": "w.json"})
    assert "Export (API)" in editor.json()["error"]


def test_a_picture_without_a_workflow_is_told_by_its_own_name(client: Any, tmp_path: Path) -> None:
    answer = client.post("/loom/open", content=png(), headers={"X-Name": "..%2F..%2Fmy%20cat.png"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("my cat.png carries no workflow")
    assert str(tmp_path) not in answer.text


@pytest.mark.parametrize("ending", ["flac", "wav", "mp3", "opus"])
def test_a_sound_opens_as_the_workflow_inside(client: Any, tmp_path: Path, ending: str) -> None:
    answers = []
    for name, tags in (f"made.{ending}", {"latentloom": json.dumps(copying("a.png"))}), (f"plain.{ending}", {}):
        tagged(tmp_path / name, tags)
        sent = (tmp_path / name).read_bytes()
        answers.append(client.post("/loom/open", content=sent, headers={"X-Name": name}).json())
    assert answers[0]["name"] == "copy"
    assert answers[1]["error"].startswith(f"plain.{ending} carries no workflow")


def tagged(file: Path, tags: dict[str, str]) -> None:
    """A tenth of a second of silence."""
    import av
    import torch

    if file.suffix in (".flac", ".wav"):
        write_audio(torch.zeros(1, 4800), file, rate=48000, metadata=tags)
        return
    coder, form = {".mp3": ("libmp3lame", "fltp"), ".opus": ("libopus", "flt")}[file.suffix]
    with av.open(str(file), "w") as container:
        container.metadata.update(tags)
        stream = container.add_stream(coder, rate=48000, layout="mono")
        frame = av.AudioFrame.from_ndarray(torch.zeros(1, 4800).numpy(), format=form, layout="mono")
        frame.sample_rate = 48000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


def test_a_plan_is_answered_before_a_run(client: Any, first: dict[str, Any]) -> None:
    view = client.post("/loom/plan", json={"graph": first}).json()
    assert set(view) - {"said"} == {"devices", "nodes", "choices", "problem", "examples"}
    assert [node["node"] for node in view["nodes"]] == ["denoise"]


def test_how_well_runs_were_predicted_is_told(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/loom/history").json() == {"rows": []}
    names = dict.fromkeys(("machine", "class_name", "fingerprint", "dtype", "quantization"), "x")
    sizes = dict.fromkeys(("width", "height", "frames", "batch", "text_tokens"), 1)
    setting = Setting(model="toy", engine="eager", **names, **sizes)
    times = {"steps": 4, "step_s": 0.5, "text_s": 0.0, "decode_s": 0.0, "num_bytes": 1, "took_step_s": 0.6}
    ran = Ran(day="2026-11-23", setting=setting, title="2 ranks", plan="cfg=2", **times)
    monkeypatch.setattr(graphs, "kept", lambda folder: (ran, ran))
    [row] = client.get("/loom/history").json()["rows"]
    assert (row["model"], row["plan"], row["num_runs"], row["median"]) == ("toy", "cfg=2", 2, pytest.approx(1.2))


def test_a_run_goes_from_a_request_to_a_file(client: Any, copied: dict[str, Any]) -> None:
    assert (copied["state"], copied["error"]) == ("done", "")
    [id] = copied["nodes"]["save"]["files"]
    [result] = client.get("/loom/results").json()
    assert (result["id"], result["width"], result["height"]) == (id, 32, 24)
    file = client.get(f"/loom/files/{id}")
    assert file.headers["content-type"] == "image/png"
    assert file.headers["x-content-type-options"] == "nosniff"
    assert "inline" in file.headers["content-disposition"]
    assert Image.open(io.BytesIO(file.content)).getpixel((0, 0)) == (0, 128, 128)
    part = client.get(f"/loom/files/{id}", headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, file.content[1:4])
    assert client.get(f"/loom/files/{id}", headers={"Range": "bytes=999999-"}).status_code == 416
    assert client.post("/loom/open", content=file.content, headers={"X-Name": "a.png"}).json()["name"] == "copy"
    assert client.get(f"/loom/files/{id}/thumb").headers["content-type"] == "image/webp"
    download = client.get(f"/loom/files/{id}?download=1")
    assert "attachment" in download.headers["content-disposition"]


def test_a_result_and_a_run_are_deleted_with_their_files(client: Any, copied: dict[str, Any], settings: Any) -> None:
    [id] = copied["nodes"]["save"]["files"]
    assert client.delete(f"/loom/results/{id}").status_code == 204
    assert client.get(f"/loom/files/{id}").status_code == 404
    assert list(settings.output_dir.rglob("*.png")) == []
    assert client.delete(f"/loom/runs/{copied['id']}").status_code == 204
    assert client.get("/loom/runs").json() == []


def test_a_sweep_is_one_run_for_each_value(client: Any, first: dict[str, Any], server: Any) -> None:
    asked = {"graph": first, "sweep": ["denoise.seed=1..3"], "overrides": {"denoise.steps": 500}}
    batch = client.post("/loom/runs", json=asked).json()
    try:
        runs = {run["id"]: run for run in client.get("/loom/runs").json()}
        assert [runs[id]["varied"] for id in batch["runs"]] == [{"denoise.seed": seed} for seed in (1, 2, 3)]
        assert {run["batch"] for run in runs.values()} == {batch["batch"]}
        last = batch["runs"][-1]
        client.post(f"/loom/runs/{last}/move", json={"before": None})
    finally:
        for id in reversed(batch["runs"]):
            assert client.post(f"/loom/runs/{id}/cancel", json={}).status_code == 204
    assert ended(client, last)["state"] == "cancelled"
    assert client.get(f"/loom/runs/{last}/previews/denoise").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("post", "runs", "[]", "the body of the request is wrong"),
        ("post", "runs", "{}", "graph of the request is wrong (it is missing)"),
        ("post", "runs", '{"graph": 3}', "graph of the request is wrong (got 3)"),
        ("post", "runs", '{"graph": {}, "sweep": "x"}', "sweep of the request is wrong"),
        ("post", "runs", '{"graph": {}, "colour": 1}', "colour of the request is wrong"),
        ("post", "runs", "{", "not JSON that we read"),
        ("post", "runs", '{"graph": {}, "graph": {}}', "is there twice"),
        ("get", "results?limit=0", "", "limit of the request is wrong (got '0')"),
        ("get", "nothing", "", "there is no GET /loom/nothing"),
    ],
)
def test_mistakes_are_told_in_a_sentence(client: Any, method: str, path: str, body: str, says: str) -> None:
    answer = client.request(method, f"/loom/{path}", content=body.encode(), headers=JSON if body else {})
    assert 400 <= answer.status_code < 500
    assert says in ErrorAnswer.model_validate(answer.json()).error


def test_what_nobody_foresaw_is_logged_and_not_shown(
    client: Any, server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(user: str, **asked: Any) -> Any:
        raise RuntimeError("a secret path")

    monkeypatch.setattr(server.runs, "list", broken)
    answer = client.get("/loom/runs")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "a secret path" in caplog.text


def test_every_route_is_described(app: Any, client: Any) -> None:
    description = client.get("/loom/openapi.json").json()
    described = {(method, path) for path, methods in description["paths"].items() for method in methods}
    routes = {
        (method.lower(), route.path)
        for route in app.routes
        for method in getattr(route, "methods", None) or ()
        if getattr(route, "include_in_schema", False) and method != "HEAD"
    }
    assert described == routes
    assert len(described) >= 40


def test_answers_have_the_described_shape(app: Any, client: Any, copied: dict[str, Any], first: dict[str, Any]) -> None:
    kinds = {
        route.path: route.response_model for route in app.routes if "GET" in (getattr(route, "methods", None) or ())
    }
    workflow = client.post("/loom/workflows", json={"graph": first}).json()["id"]
    client.put("/loom/drafts/mine", json={"graph": first})
    ids = {"/runs/{id}": copied["id"], "/workflows/{id}": workflow, "/workflows/{id}/versions": workflow}
    paths = {path: path.replace("{id}", id) for path, id in ids.items()} | {"/drafts/{key}": "/drafts/mine"}
    for path in ("/me", "/start", "/catalog", "/templates", "/workflows", "/drafts", "/runs", "/results"):
        paths[path] = path
    for path, asked in paths.items():
        answer = client.get(f"/loom{asked}").json()
        assert answer not in ([], {})
        sound = TypeAdapter(kinds[f"/loom{path}"]).validate_python(answer, extra="forbid")
        assert json.loads(TypeAdapter(kinds[f"/loom{path}"]).dump_json(sound)) == answer


def test_lists_are_sent_a_page_at_a_time_and_in_small_rows(client: Any, first: dict[str, Any]) -> None:
    long = first | {"description": "d" * 100_000}
    made = [client.post("/loom/workflows", json={"graph": long, "name": f"w{n}"}).json()["id"] for n in range(5)]
    page = client.get("/loom/workflows?limit=3")
    assert [row["id"] for row in page.json()] == made[:1:-1] and len(page.content) < 2000
    rest = client.get(f"/loom/workflows?limit=3&before={made[2]}").json()
    assert [row["id"] for row in rest] == made[1::-1]
    client.delete(f"/loom/workflows/{made[2]}")
    gone = client.get(f"/loom/workflows?before={made[2]}")
    assert gone.status_code == 404 and "from its start" in gone.json()["error"]


def test_workflows_are_found_by_words_of_their_whole_description(client: Any, first: dict[str, Any]) -> None:
    long = first | {"description": f"{'d' * 100_000} Far at the End"}
    made = [client.post("/loom/workflows", json={"graph": long, "name": f"w{n}"}).json()["id"] for n in range(3)]
    client.post("/loom/workflows", json={"graph": first, "name": "far"})

    def found(asked: str) -> list[str]:
        return [row["id"] for row in client.get(f"/loom/workflows?{asked}").json()]

    assert found("search=END+far") == made[::-1] and found("search=W1+far") == [made[1]]
    assert found(f"search=end&limit=2&before={made[2]}") == made[1::-1] and found("search=nowhere") == []


def test_drafts_are_listed_a_page_at_a_time(client: Any) -> None:
    for key in ("a", "b", "c"):
        client.put(f"/loom/drafts/{key}", json={"graph": {}})
    assert [row["key"] for row in client.get("/loom/drafts?limit=2").json()] == ["c", "b"]
    assert [row["key"] for row in client.get("/loom/drafts?limit=2&before=b").json()] == ["a"]


def test_runs_are_listed_by_state_and_page_without_what_was_asked(client: Any) -> None:
    path = client.post("/loom/uploads", content=png(8, 8), headers={"X-Name": "a.png"}).json()["path"]
    made = [client.post("/loom/runs", json={"graph": copying(path)}).json()["runs"][0] for _ in range(3)]
    for run in made:
        ended(client, run)
    rows = client.get("/loom/runs?state=done&limit=2").json()
    assert [row["id"] for row in rows] == made[:0:-1] and not {"nodes", "overrides", "graph"} & set(rows[0])
    assert [row["id"] for row in client.get(f"/loom/runs?state=done&before={made[1]}").json()] == made[:1]
    assert client.get("/loom/runs?state=failed&state=waiting").json() == []
    assert client.get("/loom/runs?state=gone").status_code == 400


@pytest.mark.parametrize("path", ["runs?limits=5", "workflows?sort=name", "me?user=ann", "drafts?limit=5&x"])
def test_a_query_parameter_that_there_is_not_is_refused(client: Any, path: str) -> None:
    answer = client.get(f"/loom/{path}")
    assert answer.status_code == 400 and "is no query parameter of GET /loom/" in answer.json()["error"]
    if "limits" in path:
        assert "did you mean limit?" in answer.json()["error"]
