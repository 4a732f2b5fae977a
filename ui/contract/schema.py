"""The contract as one JSON Schema, from which the page's types are made."""

import inspect
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from . import app, bodies, kept, run, shown

FILE = Path(__file__).parents[1] / "web" / "contract.schema.json"
MODES: dict[Any, JsonSchemaMode] = {**dict.fromkeys((kept, run, shown, app), "serialization"), bodies: "validation"}


class _Untitled(GenerateJsonSchema):
    """Fields are called by their names alone, or each would become a type of its own."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def definitions(references: str = "#/$defs/{model}") -> dict[str, Any]:
    """The schema of each model by its name; `references` says where one finds another."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, mode)
        for module, mode in MODES.items()
        for model in vars(module).values()
        if inspect.isclass(model)
        and issubclass(model, BaseModel)
        and model.__module__ == module.__name__
        and model is not bodies.Body
    ]
    return models_json_schema(models, ref_template=references, schema_generator=_Untitled)[1]["$defs"]


def schema_text() -> str:
    """What `FILE` should hold."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions()}
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text())
