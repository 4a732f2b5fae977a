"""The endpoints for `gradio_client`, on the page as it is served."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

client_module = pytest.importorskip("gradio_client")


@pytest.fixture(scope="module")
def caller(page_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("downloads")
    return client_module.Client(page_server.url, verbose=False, analytics_enabled=False, download_files=folder)


def test_it_lists_the_workflows_with_their_parameters_and_goes_on_behind_the_last_one_seen(caller: Any) -> None:
    params = {each["id"]: each["params"] for each in caller.predict(api_name="/list_workflows")}
    every = [*params]
    assert "prompt" in params["first_picture"]
    first = caller.predict(2, api_name="/list_workflows")
    rest = caller.predict(100, first[-1]["id"], api_name="/list_workflows")
    assert [each["id"] for each in (*first, *rest)] == every
    with pytest.raises(Exception, match="read it again from its start"):
        caller.predict(100, "gone", api_name="/list_workflows")


def test_it_runs_a_workflow_and_fetches_its_picture(caller: Any, page_server: Any) -> None:
    values = {"prompt": "a red ring", "denoise.steps": 2}
    run = caller.predict("first_picture", values, 200, api_name="/run_workflow")
    assert (run["state"], run["error"]) == ("done", "")
    [result] = run["results"]
    assert result["url"] == f"loom/files/{result['id']}"
    path = caller.predict(result["id"], api_name="/fetch_result")
    status, said = post(page_server, "run/fetch_result", {"data": [result["id"]]})
    assert status == 200 and str(page_server.data_dir) not in json.dumps(said)
    assert said["data"][0]["path"].startswith("copies/")
    with Image.open(Path(path)) as picture:
        assert picture.format == "PNG"
        assert '"a red ring"' in picture.text["latentloom"]
    assert list((page_server.data_dir / "loom-scratch").rglob("*.png"))  # Gradio's copy, gone with the server


def test_it_need_not_wait(caller: Any) -> None:
    run = caller.predict("first_picture", {"denoise.steps": 1}, 0, api_name="/run_workflow")
    assert run["state"] in ("waiting", "running")
    assert caller.predict(run["id"], api_name="/get_run")["id"] == run["id"]


def test_it_cancels_what_waits_and_runs(caller: Any) -> None:
    ids = [caller.predict("first_picture", {"denoise.steps": 500}, 0, api_name="/run_workflow")["id"] for _ in range(2)]
    assert caller.predict(ids[1:], api_name="/cancel_runs") == ids[1:]
    assert ids[0] in caller.predict(api_name="/cancel_runs")
    with pytest.raises(Exception, match="there is no run"):
        caller.predict(["0123456789abcdef"], api_name="/cancel_runs")


@pytest.mark.parametrize(
    ("endpoint", "values", "says"),
    [
        ("/run_workflow", ("no_such", {}, 1), "there is no workflow 'no_such'"),
        ("/run_workflow", ("first_picture", {"colour": 1}, 1), "'colour' is no param"),
        ("/run_workflow", ("first_picture", {"denoise.steps": "x"}, 1), "steps"),
        ("/get_run", ("../x",), "there is no run"),
        ("/fetch_result", ("0123456789abcdef",), "there is no result"),
    ],
)
def test_mistakes_are_told_in_a_sentence(caller: Any, endpoint: str, values: tuple[Any, ...], says: str) -> None:
    with pytest.raises(Exception, match=says):
        caller.predict(*values, api_name=endpoint)


def test_what_the_page_uses_itself_is_no_endpoint(caller: Any) -> None:
    named = caller.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(named) == {"/list_workflows", "/run_workflow", "/get_run", "/cancel_runs", "/fetch_result"}


def test_a_login_is_asked_for_and_its_user_owns_the_runs(start_page: Any, tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("ann:secret\nbob:other\n")
    users.chmod(0o600)
    page = start_page("--auth", str(users))
    with pytest.raises(Exception, match=r"(?i)auth|credential|401"):
        client_module.Client(page.url, verbose=False, analytics_enabled=False).predict(api_name="/list_workflows")
    ann, bob = (
        client_module.Client(page.url, auth=auth, verbose=False, analytics_enabled=False)
        for auth in (("ann", "secret"), ("bob", "other"))
    )
    run = ann.predict("first_picture", {"denoise.steps": 1}, 0, api_name="/run_workflow")
    with pytest.raises(Exception, match="there is no run"):
        bob.predict(run["id"], api_name="/get_run")


NESTED = {"a": [[{"b": [None]}]]}
FILE = {"path": "/etc/hostname", "meta": {"_type": "gradio.FileData"}}
NO_TEXTS: tuple[Any, ...] = (None, 1, -1.5, True, [], ["x"], {}, NESTED, FILE, float("nan"))
WRONG: list[tuple[str, list[Any]]] = [
    *(("get_run", [value]) for value in NO_TEXTS),
    *(("fetch_result", [value]) for value in NO_TEXTS),
    *(("run_workflow", [value, {}, 0]) for value in NO_TEXTS),
    *(("run_workflow", ["first_picture", value, 0]) for value in (1, True, "x", "", [], [["seed", 1]], FILE, NESTED)),
    *(("run_workflow", ["first_picture", {}, value]) for value in (None, "x", "", True, [1], {}, -1, float("nan"))),
    *(("run_workflow", ["first_picture", {"prompt": value}, 0]) for value in (None, 1, [], NESTED, FILE)),
    *(("run_workflow", count) for count in ([], ["first_picture"], ["first_picture", {}], ["first_picture", {}, 0, 0])),
    *((name, count) for name in ("get_run", "fetch_result") for count in ([], ["x", "y"])),
    *(("cancel_runs", [value]) for value in (1, True, "x", {}, [1], FILE, NESTED)),
    *(("list_workflows", values) for values in ([None], ["x", 1], [2.5, ""], [True, ""], [0, ""], [1001, ""], [5, 1])),
]


def test_wrong_arguments_are_told_in_a_sentence_and_leave_no_traceback(page_server: Any) -> None:
    before = page_server.log.stat().st_size  # others use this server, too
    for endpoint, values in WRONG:
        status, said = post(page_server, f"call/{endpoint}", {"data": values})
        assert status == 200, (endpoint, values, said)
        with urllib.request.urlopen(
            f"{page_server.url}gradio_api/call/{endpoint}/{said['event_id']}", timeout=60
        ) as answer:
            event, data = answer.read().decode().strip().split("\n", 1)
        error = json.loads(data.removeprefix("data: "))["error"]
        assert event == "event: error" and re.search("take|there is|has no value", error or ""), (
            endpoint,
            values,
            error,
        )
    assert len(WRONG) >= 50
    assert b"Traceback" not in page_server.log.read_bytes()[before:]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("call/nothing", {"data": []}, "there is no endpoint 'nothing'; there is list_workflows, run_workflow"),
        ("call/v2/get_run", {"id": "x"}, r"get_run takes run \(text\)"),
        ("call/v2/run_workflow", {}, "run_workflow takes workflow"),
        ("queue/join", {"data": [], "fn_index": 999, "session_hash": "x"}, "there is list_workflows"),
        ("run/get_run", {"data": [], "fn_index": 999}, "get_run takes run"),
    ],
)
def test_a_call_that_fits_no_endpoint_is_refused(page_server: Any, path: str, body: Any, says: str) -> None:
    before = page_server.log.stat().st_size
    status, said = post(page_server, path, body)
    assert status == 400 and re.search(says, said["error"])
    assert b"Traceback" not in page_server.log.read_bytes()[before:]


@pytest.mark.parametrize(
    ("path", "data", "says"),
    [
        ("run/get_run", [], r"0 instead of 1 arguments were given; get_run takes run \(text\)"),
        ("api/run_workflow", ["first_picture", {}, 0, 0], "4 instead of 3 arguments"),
        ("api/fetch_result/", [1], "it takes text"),
        ("run/get_run", ["../x"], "there is no run"),
    ],
)
def test_a_mistake_in_a_direct_call_is_no_failure_of_the_server(
    page_server: Any, path: str, data: Any, says: str
) -> None:
    status, said = post(page_server, path, {"data": data})
    assert status == 422 and re.search(says, said["error"])


@pytest.mark.parametrize(
    ("path", "where", "is_told"),
    [
        ("/gradio_api/call/v2/get_run", "construct_args", True),
        ("/studio/gradio_api/queue/join", "get_fn", True),
        ("/gradio_api/call/get_run", "push", False),
        ("/gradio_api/call/no_such", "simple_predict_post", True),
        ("/gradio_api/cancel", "get_fn", False),
        ("/gradio_api/queue/data", "get_fn", False),
    ],
)
def test_a_failure_of_the_server_is_not_told_as_a_mistake_of_the_caller(path: str, where: str, is_told: bool) -> None:
    from fastapi import Request

    from latentloom.ui.api.gradio_client import misused

    def fail() -> None:
        raise KeyError("x")

    fail.__code__ = fail.__code__.replace(co_name=where)
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "server": ("x", 80), "query_string": b""}
    scope["path_params"] = {"api_name": path.rpartition("/")[2]} if "call" in path else {}
    with pytest.raises(KeyError) as caught:
        fail()
    if is_told:
        assert asyncio.run(misused(Request(scope), caught.value)).status_code == 400
    else:
        with pytest.raises(KeyError):
            asyncio.run(misused(Request(scope), caught.value))


def post(page: Any, path: str, body: Any) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{page.url}gradio_api/{path}", data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}") if error.code != 500 else error.read().decode()
