"""The endpoints for `gradio_client`, on the page as it is served."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

client_module = pytest.importorskip("gradio_client")


@pytest.fixture(scope="module")
def caller(page_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("downloads")
    return client_module.Client(page_server.url, verbose=False, analytics_enabled=False, download_files=folder)


def test_it_lists_the_workflows_with_their_parameters(caller: Any) -> None:
    found = {each["id"]: each for each in caller.predict(api_name="/list_workflows")}
    assert "prompt" in found["first_picture"]["params"]


def test_its_list_goes_on_behind_the_last_one_seen(caller: Any) -> None:
    every = [each["id"] for each in caller.predict(api_name="/list_workflows")]
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
    with Image.open(Path(path)) as picture:
        assert picture.format == "PNG"
        assert '"a red ring"' in picture.text["latentloom"]
    assert list((page_server.data_dir / "loom-scratch").rglob("*.png"))  # Gradio's copy, gone with the server


def test_it_need_not_wait(caller: Any) -> None:
    run = caller.predict("first_picture", {"denoise.steps": 1}, 0, api_name="/run_workflow")
    assert run["state"] in ("waiting", "running")
    assert caller.predict(run["id"], api_name="/get_run")["id"] == run["id"]


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
    assert set(named) == {"/list_workflows", "/run_workflow", "/get_run", "/fetch_result"}


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
