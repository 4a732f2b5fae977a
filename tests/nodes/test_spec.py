"""A node's signature says everything about its sockets."""

from typing import Annotated, Literal

import pytest

from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.spec import Socket, read_spec
from latentloom.nodes.registry import NODE_CLASS_MAPPINGS, SPECS
from latentloom.parallel.progress import SILENT, Progress
from latentloom.pipelines.values import Image, Sampling


def example(
    image: Image,
    text: Annotated[str, Socket(widget="multiline", help="words")],
    *,
    count: Annotated[int, Socket(min=1, max=9)] = 3,
    mode: Literal["a", "b"] = "b",
    sampling: Sampling | None = None,
    progress: Progress = SILENT,
    workspace: Workspace = HERE,
) -> Annotated[Image, Socket(name="picture")]:
    """Does something.

    In detail.
    """
    return image


def test_parameters_are_inputs_and_the_result_is_the_output() -> None:
    spec = read_spec(example, title="Example", category="test")
    kinds = {s.name: (s.type, s.required, s.default) for s in spec.inputs}
    assert kinds == {
        "image": ("Image", True, None),
        "text": ("string", True, None),
        "count": ("int", False, 3),
        "mode": ("choice", False, "b"),
        "sampling": ("Sampling", False, None),
    }
    assert spec.input("count") is not None
    assert (spec.inputs[2].min, spec.inputs[2].max, spec.inputs[3].choices) == (1, 9, ("a", "b"))
    assert [(o.name, o.type) for o in spec.outputs] == [("picture", "Image")]
    assert spec.injected == ("progress", "workspace")
    assert spec.help.startswith("Does something.")


def unknown(x: bytes) -> Image: ...  # type: ignore[empty-body]


def missing_default(x: Image | None) -> Image: ...  # type: ignore[empty-body]


def optional_result() -> Image | None: ...


def wrong_border(progress: int = 0) -> Image: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (unknown, "no socket type"),
        (missing_default, "default to None"),
        (optional_result, "cannot be optional"),
        (wrong_border, "must be a Progress"),
    ],
)
def test_signature_that_no_socket_can_carry_is_refused(call: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        read_spec(call, title="", category="")  # type: ignore[arg-type]


def test_ids_are_promises() -> None:
    """An id that was ever saved must stay; add to this list, never take away."""
    promised = [
        "LoomLoadModel",
        "LoomLoadLora",
        "LoomEncodeText",
        "LoomEncodeImage",
        "LoomEmptyLatents",
        "LoomUpscaleLatents",
        "LoomDenoise",
        "LoomSamplerOptions",
        "LoomDecode",
        "LoomDecodeVideo",
        "LoomVideoFrames",
        "LoomLoadImage",
        "LoomSaveImage",
        "LoomResizeImage",
        "LoomImageGrid",
        "LoomSaveVideo",
        "LoomJoinText",
        "LoomChooseText",
        "LoomSeed",
        "LoomNote",
    ]
    assert set(promised) <= set(NODE_CLASS_MAPPINGS)


@pytest.mark.parametrize("id", sorted(SPECS))
def test_every_node_explains_itself(id: str) -> None:
    spec = SPECS[id]
    assert spec.id == id
    assert spec.title
    assert spec.help.endswith(".")
    assert len({s.name for s in spec.inputs}) == len(spec.inputs)
