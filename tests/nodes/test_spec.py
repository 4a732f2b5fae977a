"""A node's signature says everything about its sockets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import torch

from latentloom.nodes.execution.attempt import shown
from latentloom.nodes.execution.cache import DiskCache, MemoryCache
from latentloom.nodes.execution.records import NodeRecord, RunResult
from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.spec import NodeSpec, Saved, Socket
from latentloom.nodes.headless.job import split_set, typed_values
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.nodes.registry import SPECS
from latentloom.parallel.progress import SILENT, Progress
from latentloom.pipelines.values import Image, Sampling
from support.prepared import check, run
from support.toys import graph


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


def own_widget(x: Annotated[str, Socket(widget="area")]) -> Image: ...  # type: ignore


def made_default(x: Sampling = Sampling()) -> Image: ...  # type: ignore # noqa: B008


def endless(x: float = float("inf")) -> Image: ...  # type: ignore


def endless_range(x: Annotated[float, Socket(max=float("inf"))] = 1) -> Image: ...  # type: ignore[empty-body]


def numbered(x: Literal[1, 2] = 1) -> Image: ...  # type: ignore[empty-body]


def unnamed(value: int = 0) -> tuple[int, int]: ...  # type: ignore[empty-body]


def path_out() -> Path: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (own_widget, "no widget 'area'"),
        (made_default, "None for what is made"),
        (endless, "finite numbers"),
        (endless_range, "finite numbers"),
        (numbered, "choices are texts"),
        (unknown, "no socket type"),
        (missing_default, "default to None"),
        (optional_result, "cannot be optional"),
        (wrong_border, "must be a Progress"),
        (unnamed, "Socket\\(name=\\)"),
        (path_out, "are a Saved"),
    ],
)
def test_signature_that_no_socket_can_carry_is_refused(call: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        read_spec(call, title="", category="")  # type: ignore[arg-type]


def test_ids_are_promises() -> None:
    """An id that was ever saved must stay; add to this list, never take away."""
    promised = (
        *("LoadModel", "LoadLora", "EncodeText", "EncodeImage", "EmptyLatents", "UpscaleLatents", "Denoise", "Decode"),
        *("SamplerOptions", "DecodeVideo", "VideoFrames", "LoadImage", "SaveImage", "ResizeImage", "ImageGrid"),
        *("SaveVideo", "JoinText", "ChooseText", "Seed", "Note", "LoadMask", "BlurMask", "Outpaint", "LoadVideo"),
    )
    assert {f"Loom{name}" for name in promised} <= set(NODE_CLASS_MAPPINGS)


@pytest.mark.parametrize("id", sorted(SPECS))
def test_every_node_explains_itself(id: str) -> None:
    spec = SPECS[id]
    assert spec.id == id
    assert spec.title
    assert spec.help.endswith(".")
    assert len({s.name for s in spec.inputs}) == len(spec.inputs)


@dataclass(frozen=True, eq=False)
class Palette:
    """A wire type of a studio's own."""

    name: str
    weights: torch.Tensor


CALLED: list[str] = []


def palette(
    shades: Sequence[float], files: list[Image] | None = None
) -> tuple[Palette, Annotated[Image, Socket(name="light")], Annotated[Image, Socket(name="dark")]]:
    CALLED.append("palette")
    picture = torch.ones(1, 8, 8, 3)
    weights = torch.tensor([shades[0]] * 3)
    return Palette("grey", weights), Image(pixels=picture * shades[0]), Image(pixels=picture * shades[-1])


def describe(palette: Palette, path: Path, other: Path | None = None) -> str:
    CALLED.append("describe")
    assert isinstance(path, Path) and other is None
    return f"{palette.name} {palette.weights.sum():.1f} {path.read_text()}"


def several(first: Image, second: Image) -> list[Image]:
    return [first, second]


def count(pictures: list[Image]) -> int:
    return len(pictures)


def wrong(value: int = 0) -> tuple[Annotated[int, Socket(name="a")], Annotated[int, Socket(name="b")]]:
    return value  # type: ignore[return-value]


NEW: dict[str, NodeSpec] = {
    name: read_spec(call, id=name, title=name, category="studio")
    for name, call in {
        "Palette": palette,
        "Describe": describe,
        "Several": several,
        "Count": count,
        "Wrong": wrong,
    }.items()
}
TYPE = NEW["Palette"].outputs[0].type


def studio(path: Path, **inputs: Any) -> Any:
    nodes: dict[str, tuple[str, Mapping[str, Any]]] = {
        "colours": ("Palette", {"shades": [0.25, 1], **inputs}),
        "text": ("Describe", {"palette": f"@colours.{NEW['Palette'].outputs[0].name}", "path": str(path)}),
        "both": ("Several", {"first": "@colours.light", "second": "@colours.dark"}),
        "number": ("Count", {"pictures": "@both.image"}),
    }
    return graph(nodes, outputs={"text": "text.string", "number": "number.int", "dark": "colours.dark"})


def test_a_studios_own_types_several_outputs_lists_and_paths_are_sockets() -> None:
    spec = NEW["Palette"]
    assert TYPE.endswith("_Palette") and TYPE not in ("_Palette", "Palette")
    assert [(each.name, each.type) for each in spec.outputs] == [
        ("palette", TYPE),
        ("light", "Image"),
        ("dark", "Image"),
    ]
    assert [(each.name, each.type) for each in spec.inputs] == [("shades", "list[float]"), ("files", "list[Image]")]
    assert [(each.name, each.type) for each in NEW["Describe"].inputs] == [
        ("palette", TYPE),
        ("path", "string"),
        ("other", "string"),
    ]
    assert NEW["Several"].outputs[0].type == "list[Image]"


def test_each_consumer_gets_the_output_that_it_is_linked_to_and_caches_keep_all(tmp_path: Path) -> None:
    (file := tmp_path / "words.txt").write_text("first")
    workspace = Workspace(output_dir=tmp_path / "out", roots=(tmp_path,))
    wanted = studio(file)
    assert check(wanted, NEW) == []
    CALLED.clear()
    disk = DiskCache(tmp_path / "cache", 1 << 20)
    for memory in (MemoryCache(1 << 20), MemoryCache(1 << 20)):  # the second time it comes from the disk
        result = run(wanted, NEW, workspace=workspace, memory_cache=memory, disk_cache=disk)
        assert result.failure is None
        assert (result.outputs["text"], result.outputs["number"]) == ("grey 0.8 first", 2)
        assert float(result.outputs["dark"].pixels.mean()) == 1.0
    assert CALLED == ["palette", "describe"]
    file.write_text("second")  # what a path leads to belongs to the key
    changed = run(wanted, NEW, workspace=workspace, disk_cache=disk)
    assert changed.outputs["text"] == "grey 0.8 second"
    assert CALLED == ["palette", "describe", "describe"]


def test_both_pictures_of_one_node_are_shown(tmp_path: Path) -> None:
    workspace = Workspace(output_dir=tmp_path, roots=(), claims={})
    result = run(studio(tmp_path), NEW, workspace=workspace, targets=["colours"])
    seen, problem = shown(result, {}, workspace)
    assert (problem, [Path(name).name for name in seen.nodes["colours"].files]) == (
        None,
        ["colours.png", "colours_2.png"],
    )


def test_a_picture_that_two_nodes_give_is_shown_by_both(tmp_path: Path) -> None:
    picture = Image(pixels=torch.zeros(1, 4, 4, 3))
    records = {name: NodeRecord(key="", state="ok") for name in ("make", "keep")}
    outputs = {"make": picture, "kept": picture, "again": picture}
    result = RunResult(run="r", state="ok", outputs=outputs, nodes=records, seconds=0.0)
    seen, _ = shown(result, {"kept": "keep", "again": "keep"}, Workspace(output_dir=tmp_path, claims={}))
    files = {name: [Path(file).name for file in record.files] for name, record in seen.nodes.items()}
    assert files == {"make": ["make.png"], "keep": ["keep.png"]}


def test_a_path_leads_nowhere_outside_of_the_run_s_folders(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (outside := tmp_path / "secret.txt").write_text("secret")
    workspace = Workspace(output_dir=tmp_path / "out", roots=(tmp_path / "in",))
    result = run(studio(outside), NEW, workspace=workspace)
    assert result.failure is not None and "lies outside the allowed folders" in str(result.failure)


def test_a_node_that_takes_a_file_gets_its_path_or_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    workspace = Workspace(roots=(tmp_path,))

    def read(file: Path = Path("a.txt"), other: Path | None = None) -> str:
        return f"{file.name} {other}"

    spec = read_spec(read, id="Read", title="", category="")
    assert spec.inputs[0].default == "a.txt"
    assert spec.make({"other": ""}, progress=SILENT, workspace=workspace) == "a.txt None"
    with pytest.raises(ValueError, match="file is ''; give the path of a file"):
        spec.make({"file": ""}, progress=SILENT, workspace=workspace)


def test_a_list_is_checked_item_by_item_and_set_as_json(tmp_path: Path) -> None:
    [problem] = check(studio(tmp_path, shades=[0.5, "much"]), NEW)
    assert (problem.node, problem.socket, problem.code) == ("colours", "shades", "wrong_type")
    [problem] = check(studio(tmp_path, shades=0.5), NEW)
    assert "it takes a list" in problem.message
    values = typed_values(studio(tmp_path), NEW, split_set(["colours.shades=[0.5, 1]"]), workspace=HERE)
    assert values == {"colours.shades": [0.5, 1]}
    with pytest.raises(ValueError, match="it takes a list"):
        typed_values(studio(tmp_path), NEW, split_set(["colours.shades=0.5, 1"]), workspace=HERE)


def test_a_node_that_gives_another_number_of_values_is_told() -> None:
    result = run(graph({"n": ("Wrong", {})}, outputs={"a": "n.a"}), NEW)
    assert "Wrong gave no tuple of a, b" in str(result.failure)


def test_files_among_several_outputs_are_the_node_s_files(tmp_path: Path) -> None:
    def write(workspace: Workspace = HERE) -> tuple[Saved, int]:
        path = workspace.output_path("x.txt", socket="name")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        return Saved(files=(str(path),)), 1

    specs = {"Write": read_spec(write, id="Write", title="", category="", is_output=True)}
    cache = MemoryCache(1 << 20)
    workspace = Workspace(output_dir=tmp_path)
    for cached in ("no", "memory"):
        record = run(graph({"n": ("Write", {})}), specs, workspace=workspace, memory_cache=cache).nodes["n"]
        assert (record.cached, [Path(name).name for name in record.files]) == (cached, ["x.txt"])
    (tmp_path / "x.txt").write_text("y")
    assert run(graph({"n": ("Write", {})}), specs, workspace=workspace, memory_cache=cache).nodes["n"].cached == "no"
