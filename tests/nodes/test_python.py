"""Workflows from Python: built, written, compared and run, as their files run; what is wrong is told at its line."""

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import latentloom
from latentloom import Cancelled, Event, Image, LoomError, Result, Session, Workflow, run
from latentloom.nodes import (
    calculate,
    decode,
    denoise,
    empty_latents,
    encode_image,
    encode_text,
    format_text,
    load_image,
    load_model,
    picture_size,
    save_image,
    seed,
    switch,
)
from latentloom.nodes.execution.records import NodeRecord, RunResult
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.headless.lifetime import InUse
from latentloom.nodes.headless.workflow_files import shipped_files
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.pools import POOLS

SMALL = {"empty_latents.width": 64, "empty_latents.height": 64, "denoise.steps": 2}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def first_picture() -> Workflow:
    """The shipped workflow, by calls."""
    with Workflow("first_picture") as flow:
        prompt, negative = flow.param("prompt", "a red star"), flow.param("negative_prompt", "")
        model = load_model("builtin:bobbin")
        text = encode_text(model, prompt, negative_prompt=negative)
        latents = denoise(model, text, empty_latents(model), seed=flow.param("seed", 7, min=0))
        flow.output("picture", save_image(decode(model, latents), name="picture"))
    return flow


@pytest.mark.parametrize("path", shipped_files(), ids=lambda path: path.stem)
def test_what_is_read_and_written_again_has_the_same_bytes(path: Path, tmp_path: Path) -> None:
    flow = Workflow.read(path)
    assert flow.write(tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert flow.diff(Workflow.from_text(str(flow))) == ""


def test_a_workflow_of_calls_runs_as_its_file_and_as_the_shipped_one() -> None:
    flow = first_picture()
    with Session(cache=False) as session:
        built = session.run(flow, SMALL, out="built")
        written = session.run(flow.write("first.json"), SMALL, out="written")
        shipped = session.run("first_picture", {**SMALL, "prompt": "a red star"}, out="shipped")
    assert built["picture"].files == tuple(map(str, built.files))  # type: ignore[attr-defined]
    (first,), (second,), (third,) = ([each.tobytes() for each in made.images] for made in (built, written, shipped))
    assert first == second == third
    assert (built.manifest["state"], built.manifest["params"]) == (
        written.manifest["state"],
        written.manifest["params"],
    )


def test_a_difference_is_told_line_by_line() -> None:
    one, other = Workflow("one"), Workflow("one")
    with one:
        one.output("number", calculate("a", a=1.5)[0])
        seed(3)
    with other:
        other.output("number", calculate("a", a=2.5)[1])
        format_text("x")
    assert one.diff(other).splitlines() == [
        "~ calculate.a: 1.5 -> 2.5",
        "- seed: LoomSeed",
        "+ format_text: LoomFormatText",
        "~ outputs.number: calculate.number -> calculate.whole",
    ]


def test_a_function_that_is_no_node_becomes_a_sub_workflow_and_a_list_a_for_each() -> None:
    def doubled(number: float, times: float) -> float:
        return calculate("a * b", a=number, b=times)[0]

    with Workflow("numbers") as flow:
        numbers = flow.param("numbers", [1.0, 2.0])
        flow.output("each", flow.add(doubled, flow.each(numbers), 2.0))
        flow.output("one", flow.add(doubled, 5.0, times=3.0))
    assert list(flow.graph.subs) == ["doubled"] and list(flow.graph.nodes) == ["doubled", "doubled_2"]
    assert run(flow, {"numbers": [4.0, 5.0, 6.0]}).outputs == {"each/1": 8, "each/2": 10, "each/3": 12, "one": 15}


def test_sub_workflows_inside_each_other_keep_their_own_names() -> None:
    def twice(number: float) -> float:
        return calculate("a * 2", a=number)[0]

    def outer(number: float) -> float:
        def twice(number: float) -> float:
            return calculate("a * a", a=number)[0]

        return flow_add(twice, number)

    with Workflow("numbers") as flow:
        one = flow.add(twice, 5.0)

        def flow_add(call: Callable[[float], float], number: Any) -> float:
            return number.workflow.add(call, number)

        other = flow.add(outer, 5.0)
        flow.output("one", one)
        flow.output("other", other)
        with pytest.raises(ValueError, match="what returned returns is no value of a node"):
            flow.add(returned)
    assert list(flow.graph.subs) == ["twice", "twice_2", "outer"]
    assert run(flow).outputs == {"one": 10.0, "other": 25.0}


def returned() -> int:
    return 3


def test_nodes_from_outside_and_those_whose_sockets_follow_from_a_choice_are_added() -> None:
    with Workflow("choice") as flow:
        picture = load_image("star.png")
        chosen = flow.add(SPECS["LoomSwitch"].call, True, kind="Image", if_true=picture)
        flow.output("size", picture_size(chosen)[0])
        with pytest.raises(TypeError, match="switch has no input 'if_tru'; did you mean 'if_true'"):
            switch(True, kind="Image", if_tru=picture)
    Pillow.new("RGB", (6, 4), "red").save("star.png")
    assert run(flow)["size"] == 6


WRONG: dict[str, Callable[[Workflow, Any], object]] = {
    "latents is given a Image; it takes a Latents": lambda flow, image: decode(load_model("x"), image),
    "'nam'; did you mean 'name'": lambda flow, image: save_image(image, nam="x"),  # type: ignore
    "seed is -1; it takes 0 to": lambda flow, image: encode_image(load_model("x"), image, seed=-1),
    "missing a required argument: 'conditioning'": lambda flow, image: denoise(image),  # type: ignore
    "image takes a Image, which no file can hold": lambda flow, image: save_image(Pillow.new("RGB", (4, 4))),  # type: ignore
    "workspace comes from the run": lambda flow, image: save_image(image, workspace=None),  # type: ignore
    "the output x is no value of a node": lambda flow, image: flow.output("x", 3),
    "'X' is no name": lambda flow, image: flow.param("X", 3),
    "each is \\[\\]; it takes text": lambda flow, image: flow.each([]),
    "of the workflow 'another' is given to 'mine'": lambda flow, image: save_image(first_of("another")),
    "its pixels is known only in a run": lambda flow, image: image.pixels,
    "known only in a run; choose by the node switch": lambda flow, image: image or None,
    "known only in a run; choose by the node": lambda flow, image: f"{image}",
}


def first_of(name: str) -> Image:
    with Workflow(name):
        return load_image("star.png")


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_told_at_its_line(words: str) -> None:
    with Workflow("mine") as flow:
        image = load_image("star.png")
        with pytest.raises((ValueError, TypeError, AttributeError), match=words):
            WRONG[words](flow, image)
    assert "load_image" in flow.graph.nodes and not flow.graph.outputs


def test_a_run_inside_of_a_block_adds_nothing_to_it() -> None:
    with Workflow("seeds") as flow:
        flow.output("number", calculate("a * b", a=6.0, b=7.0)[0])
        assert run(flow)["number"] == 42
        assert flow.steps()[0]() == (42, 42, True)
    assert list(flow.graph.nodes) == ["calculate"]


def test_outside_of_its_block_a_call_is_a_call() -> None:
    with Workflow("outer") as outer, Workflow("inner") as inner:
        seed(1)
    assert (len(outer.graph.nodes), len(inner.graph.nodes), seed(4)) == (0, 1, 4)


def test_what_cannot_run_is_refused_before_anything_runs() -> None:
    for values, words in (({"sed": 1}, "did you mean 'seed'"), ({"seed": "x"}, "takes a whole number")):
        with pytest.raises(GraphError, match=words):
            run("first_picture", values)
    with pytest.raises(ValueError, match=r"did you mean .*first_picture\.json"):
        run(Path("first_picture.json"))
    with pytest.raises(ValueError, match="image is 2 pictures; a param takes one"):
        run("image_to_image", {"image": Image.from_pil(*[Pillow.new("RGB", (8, 8))] * 2)})
    with pytest.raises(GraphError, match="lies outside the allowed folders"):
        run({"format": 1, "name": "x", "nodes": {"a": {"type": "LoomLoadImage", "inputs": {"path": "/etc/passwd"}}}})
    assert not Path("output/manifest.json").exists()


def test_a_node_that_fails_is_an_error_with_its_code_and_the_next_run_works() -> None:
    with Workflow("wrong") as flow:
        flow.output("number", calculate("a / b", a=1.0, b=flow.param("by", 0.0))[0])
    with pytest.raises(LoomError) as caught:
        run(flow)
    assert (caught.value.code, getattr(caught.value, "node", "")) == ("bad-input", "calculate")
    assert run(flow, {"by": 4.0})["number"] == run(flow, {"by": np.float32(4)})["number"] == 0.25
    with pytest.raises(KeyError, match="no output is called 'numbe'; did you mean number"):
        run(flow, {"by": 4.0})["numbe"]


def test_pictures_of_pillow_go_in_as_params_and_come_out() -> None:
    picture = Pillow.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    with Workflow("passed") as flow:
        flow.output("picture", load_image(flow.param("image", "")))
    result = run(flow, {"image": picture})
    assert result.images[0].tobytes() == picture.tobytes()
    assert (result["picture"].to_numpy()[0] == np.asarray(picture)).all()  # type: ignore[attr-defined]
    assert (result._repr_png_() or b"").startswith(b"\x89PNG")
    assert run(flow, {"image": np.asarray(picture)}).images == result.images
    assert run("image_to_image", {"image": picture, "denoise.steps": 1}, out="again").files[0].is_file()


def test_events_and_bars_tell_of_a_run_and_a_token_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    events, cancel = list[Event](), threading.Event()

    def told(event: Event) -> None:
        events.append(event)
        if event.kind == "progress":
            cancel.set()

    with pytest.raises(Cancelled):
        run("first_picture", SMALL | {"denoise.steps": 500}, on_event=told, cancel=cancel, progress=True)
    assert events[-1].kind == "run_cancelled" and max(event.done for event in events) < 500
    assert "decode" not in capsys.readouterr().out


# ---- On ranks


@pytest.fixture(scope="module")
def _pools(warm_pools: None) -> Iterator[None]:
    yield
    POOLS.close()


def test_a_session_keeps_ranks_ends_them_and_gives_what_one_device_gives(_pools: None) -> None:
    one = run("first_picture", SMALL, out="one")
    with Session(devices="cpu*2", plan="cfg=2", cache=False) as session:
        two = session.run("first_picture", SMALL, out="two")
        (pool,) = POOLS.open.values()
        session.run("first_picture", SMALL | {"seed": 8}, out="other")
        assert [*POOLS.open.values()] == [pool] and not pool.is_closed
    assert pool.is_closed and not POOLS.open
    assert two.manifest["plan"] == "cfg=2"
    pixels = [np.asarray(result.images[0]).astype(int) for result in (one, two)]
    assert np.abs(pixels[0] - pixels[1]).max() <= 1


def test_a_task_that_is_cancelled_ends_its_run_on_all_ranks_and_the_next_runs_on_them(_pools: None) -> None:
    events = list[Event]()

    async def cancelled(session: Session) -> latentloom.Result:
        long = session.arun("first_picture", SMALL | {"denoise.steps": 500}, out="long", on_event=events.append)
        task = asyncio.create_task(long)
        while not any(event.kind == "progress" for event in events):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await session.arun("first_picture", SMALL, out="next")

    with Session(devices="cpu*2", cache=False) as session:
        result = asyncio.run(cancelled(session))
        (pool,) = POOLS.open.values()
        assert not pool.is_working
    assert [event.kind for event in events][-1] == "run_cancelled" and max(event.done for event in events) < 500
    assert result.files[0].is_file()


def test_runs_in_one_folder_are_refused_and_runs_beside_each_other_are_not() -> None:
    refused = list[str]()

    def told(event: Event) -> None:
        if event.kind == "run_started":
            with pytest.raises(InUse) as caught:
                run(first_picture(), SMALL, out="a")
            refused.append(caught.value.code)

    run(first_picture(), SMALL, out="a", on_event=told)
    assert refused == ["in-use"]

    async def both(*folders: str) -> list[Any]:
        runs = (latentloom.arun("first_picture", SMALL | {"seed": n}, out=each) for n, each in enumerate(folders))
        return await asyncio.gather(*runs, return_exceptions=True)

    assert [type(each) for each in asyncio.run(both("a", "b"))] == [latentloom.Result] * 2


# ---- Pictures


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA"])
def test_a_picture_of_pillow_s_is_what_load_image_reads_of_its_file(mode: str) -> None:
    bytes_ = np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    picture = Pillow.fromarray(bytes_).convert(mode)
    picture.save("picture.png")
    assert (Image.from_pil(picture).pixels == load_image("picture.png").pixels).all()


def test_a_photo_is_turned_upright() -> None:
    picture = Pillow.fromarray(np.random.default_rng(0).integers(0, 256, (8, 16, 3), dtype=np.uint8))
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture.save("photo.jpg", exif=exif)
    made = Image.from_pil(Pillow.open("photo.jpg"))
    assert made.pixels.shape == (1, 16, 8, 3) and (made.pixels == load_image("photo.jpg").pixels).all()


def test_arrays_and_pictures_come_out_as_they_went_in() -> None:
    array = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), dtype=np.uint8)
    image = Image.from_numpy(array)
    assert (image.to_numpy() == array).all() and [picture.size for picture in image.to_pil()] == [(7, 5)] * 2
    assert (Image.from_pil(*image.to_pil()).pixels == image.pixels).all()
    assert (Image.from_numpy(array[0, :, :, 0]).to_numpy() == array[:1, :, :, :1]).all()
    assert Pillow.open(io.BytesIO(image._repr_png_())).size == (14, 5)
    assert picture_size(array[0]) == picture_size(image.to_pil()[0]) == (7, 5, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Pillow.new("I;16", (4, 4)), "image: a picture of mode I;16 has more than 8 bits a channel"),
        (Pillow.new("F", (4, 4)), "image: a picture of mode F has more than 8 bits a channel"),
        (np.zeros((4, 4, 4), np.uint8), "image: an array 4 x 4 x 4 of uint8 is no picture; give uint8"),
        (np.zeros((4, 4, 3)), "image: an array 4 x 4 x 3 of float64 is no picture"),
        ("star.png", "image is a str; it takes a Image: give what load_image or decode returns"),
    ],
)
def test_what_is_no_picture_is_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        save_image(given)


def test_pictures_of_several_sizes_are_no_batch() -> None:
    with pytest.raises(ValueError, match="pictures of 4 x 4 and 5 x 4 are no batch"):
        Image.from_pil(Pillow.new("RGB", (4, 4)), Pillow.new("RGB", (5, 4)))


def test_a_misspelt_input_of_a_call_offers_the_nearest() -> None:
    with pytest.raises(TypeError, match="denoise has no input 'sed'; did you mean 'seed'"):
        denoise(sed=3)  # type: ignore[call-arg]


# ---- In a notebook


def test_a_result_tells_why_work_began_once_more(tmp_path: Path) -> None:
    nodes = {name: NodeRecord(key="", state="ok", recoveries=(f"{name} was lost",)) for name in ("a", "b")}
    made = RunResult(run="r", state="ok", outputs={}, nodes=nodes, seconds=1.0)
    assert Result(made, tmp_path, "flow").recoveries == ("a was lost", "b was lost")


def test_a_notebook_shows_the_picture_of_a_run() -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    start = f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); import support.checkout, latentloom"
    cells = [start, f"latentloom.run('first_picture', {SMALL})", f"(await latentloom.arun('first_picture', {SMALL}))"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=240).execute()
    for cell in book.cells[1:]:
        assert any("image/png" in output.get("data", {}) for output in cell.outputs)
    told = "".join(output.get("text", "") for output in book.cells[1].outputs)
    assert "denoise" in told and "decode" in told
