"""The contract between server and page: one definition, from which OpenAPI and the page's types are made."""

from typing import Any

from latentloom.ui.api.openai import bodies as openai
from latentloom.ui.api.router import SAID
from latentloom.ui.contract import schema
from latentloom.ui.contract.run import LiveMessage
from latentloom.ui.contract.schema import FILE, definitions, schema_text


def test_the_committed_schema_is_that_of_the_models() -> None:
    assert FILE.read_text() == schema_text(), f"run `python -m {schema.__name__}`"


def test_openapi_describes_the_same_models_and_the_messages_of_the_socket(client: Any) -> None:
    described = client.get("/loom/openapi.json").json()
    schemas = described["components"]["schemas"]
    saying = {name for name, each in schemas.items() if each.get("properties", {}).get("said") == SAID}
    assert "RunRow" in saying and "RunBody" not in saying
    for name in saying:
        del schemas[name]["properties"]["said"]
    assert schemas.items() >= definitions("#/components/schemas/{model}").items()
    ours = {name for name, kind in vars(openai).items() if getattr(kind, "__module__", "") == openai.__name__}
    assert schemas.keys() - definitions().keys() - ours == {"HTTPValidationError", "ValidationError"}
    assert schemas["LiveMessage"]["properties"]["runs"]["additionalProperties"] == {
        "$ref": "#/components/schemas/LiveRun"
    }


def test_every_answer_is_described(client: Any) -> None:
    described = client.get("/loom/openapi.json").json()
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            good = next(answer for status, answer in route["responses"].items() if status < "300")
            content = good.get("content", {"": {"schema": "nothing"}})
            assert any(media["schema"] for media in content.values()), f"{method} {path}"


def test_a_message_leaves_out_what_did_not_change() -> None:
    parts: dict[str, Any] = {"seq": 1, "full": False, "t": 2, "server": "s", "runs": {}, "removed": []}
    message = LiveMessage(**parts, library=0, results=0, downloads=0, queue=[])
    assert list(message.to_plain()) == [*parts, "library", "results", "downloads", "queue"]
