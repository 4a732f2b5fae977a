"""The shipped model: what its folder promises."""

import json
from pathlib import Path

import pytest

from bobbin.drawing import Settings, draw
from bobbin.oracle import judge
from bobbin.world.scene import Scene, Thing
from bobbin.world.wording import caption
from latentloom.pipelines.models.source import BUILTINS

MODEL_DIR = BUILTINS["bobbin"]
LEFT_OF = Scene(
    things=(Thing(colour="red", shape="cone"), Thing(colour="yellow", shape="cube")), relations=("left of",)
)
JSON_FILES = sorted(MODEL_DIR.rglob("*.json"))


def test_folder_is_small_enough_to_ship() -> None:
    assert sum(path.stat().st_size for path in MODEL_DIR.rglob("*") if path.is_file()) <= 16 * 2**20


def test_weights_are_safetensors_only() -> None:
    assert {path.suffix for path in MODEL_DIR.rglob("*") if path.is_file()} == {".json", ".safetensors"}


@pytest.mark.parametrize("path", JSON_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_file_names_the_machine_that_made_it(path: Path) -> None:
    def check(value: object) -> None:
        if isinstance(value, dict):
            assert "_name_or_path" not in value
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)
        elif isinstance(value, str):
            assert not (value.startswith("/") and len(value) > 2), value

    values = json.loads(path.read_text())
    if path.name == "tokenizer.json":
        values.pop("model")  # its pieces are single characters and words
    check(values)


def test_card_is_bobbins() -> None:
    card = json.loads((MODEL_DIR / "latentloom.json").read_text())
    assert card["format"] == 1
    assert (card["name"], card["family"], card["licence"]) == ("bobbin", "flux", "Apache-2.0")
    assert {"colours", "objects", "relations"} <= card["vocabulary"].keys()


def test_it_draws_the_colours_where_the_prompt_says() -> None:
    """What the reader of pictures says of shapes too is asked by hand: its tables take longer than the picture."""
    (picture,) = draw([caption(LEFT_OF)], seeds=[3], settings=Settings(model=MODEL_DIR, steps=8))
    red, green, blue = (picture[..., i].astype(int) for i in range(3))
    (reds, yellows) = (red > 2 * green) & (red > 2 * blue), (red > 2 * blue) & (green > 2 * blue)
    assert min(reds.sum(), yellows.sum()) > 200
    assert reds.nonzero()[1].mean() + 20 < yellows.nonzero()[1].mean()


@pytest.mark.parametrize(
    "scene",
    [
        Scene(things=(Thing(colour="blue", shape="cube"),)),
        Scene(things=(Thing(colour="green", shape="sphere", material="metal"),)),  # a pair no training picture shows
        LEFT_OF,
    ],
    ids=caption,
)
@pytest.mark.by_hand
def test_it_draws_what_the_prompt_says(scene: Scene) -> None:
    (picture,) = draw([caption(scene)], seeds=[3], settings=Settings(model=MODEL_DIR))
    assert judge(picture, scene)["all"], judge(picture, scene)


def test_card_records_how_every_weight_file_was_made() -> None:
    card = json.loads((MODEL_DIR / "latentloom.json").read_text())
    made = {entry["file"]: entry for entry in card["made_by"]}
    assert set(made) == {path.relative_to(MODEL_DIR).as_posix() for path in MODEL_DIR.rglob("*.safetensors")}
    assert all(entry["steps"] > 0 and entry["machine"] for entry in made.values())
