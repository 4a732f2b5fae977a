"""The JSON Schema of the workflow file, generated from its model and committed beside it."""

import json
from pathlib import Path
from typing import Any

from ..files.atomic import write_atomic
from .graph import FORMAT, Graph

SCHEMA_FILE = Path(__file__).with_name("workflow.schema.json")


def schema_text() -> str:
    """What `workflow.schema.json` should hold."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= Graph.model_json_schema(by_alias=True) | {"title": "latentloom workflow"}
    schema["properties"]["format"] = {"enum": [*range(1, FORMAT + 1)], "title": "Format"}
    schema["required"] = ["format", *(name for name in schema["required"] if name != "format")]
    return json.dumps(_closed(schema), indent=2) + "\n"


def _closed(schema: Any) -> Any:
    """pydantic leaves objects open to keys that match no pattern; the reader refuses them."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(item) for key, item in schema.items()}
    return {**closed, "additionalProperties": False} if "patternProperties" in closed else closed


if __name__ == "__main__":  # after a change of `graph.py`
    write_atomic(SCHEMA_FILE, schema_text().encode())
