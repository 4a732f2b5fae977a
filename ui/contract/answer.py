"""What all answers have in common, and the values in them whose types the page knows better."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema


class Answer(BaseModel):
    """Made of values, by their names, or of an object that has them; what it is not known to hold is refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,  # an answer is sent whole
    )


FROM_DISK = ConfigDict(extra="ignore")  # of answers that are records, too: a newer server may have written more
# A workflow as `latentloom run` takes it; the schema of the file describes it.
WorkflowFile = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "description": "A workflow file.", "tsType": "GraphFile"})
]
# A number that may need 64 bits: the page reads one that JavaScript would round as its digits (`exact.ts`).
Exact = Annotated[int, WithJsonSchema({"type": "integer", "tsType": "number | string"})]
