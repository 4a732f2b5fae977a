"""Small nodes: numbers, switch, texts, sizes."""

import time

import pytest
import torch

from latentloom.nodes import (
    batch_pictures,
    calculate,
    change_case,
    compare_pictures,
    format_text,
    layout_prompt,
    outpaint,
    paste_image,
    picture_size,
    replace_text,
    resize_image,
    size_from_ratio,
    split_text,
)
from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.headless.job import split_set, typed_values
from latentloom.nodes.hosts.comfy_file import from_comfy
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.values import Image
from support.prepared import check, run, to_comfy


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a + b * 2", 7.0),
        ("-(a - b) ** 2", -4.0),
        ("2 ** -1 ** 2", 0.5),
        ("7 // 2 + 7 % 4 / 2", 4.5),
        ("a < b and not b == 4", 1.0),
        ("not not a", 1.0),
        ("10 if a > b else 20", 20.0),
        ("max(a, b, 2.5e1) + round(2.567, 1)", 27.6),
        ("sqrt(abs(-16))", 4.0),
        ("b > 2 > a", 0.0),
        ("a +\n  b", 4.0),
    ],
)
def test_formulas(formula: str, expected: float) -> None:
    assert calculate(formula, a=1, b=3)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("", "cannot be read at 'its end'"),
        ("a +", "cannot be read at"),
        ("a b", r"cannot be read at '.*b' \("),
        ("x + 1", "'x', which is nothing that it knows"),
        ("__import__('os')", r"which is no number, name or sign"),
        ("__import__(1)", "which is nothing that it knows"),
        ("a.real", "which is nothing that it knows"),
        ("a is b", "which is nothing that it knows"),
        ("max(*(a, b))", "which is nothing that it knows"),
        ("round(a, ndigits=1)", "'=1\\)', which is no number, name or sign"),
        ("1 / (a - a)", "divides by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("(" * 60 + "1" + ")" * 60, "brackets or powers inside each other"),
        ("sqrt(-1)", "sqrt|math"),
        ("1e300 * 1e300", "no finite result"),
        ("max(1, 2", "never closed"),
        ("round(5, -9000000)", r"round\(5, -9e\+06\), which cannot be reckoned \(it takes -20 to 20 digits\)"),
        ("*".join(["10**15"] * 21), "multiplies .*too large"),
        ("floor(1e308 * 10 - 1e308 * 10)", r"floor\(nan\), which cannot be reckoned"),
        ("1**" * 300 + "1", "powers inside each other"),
    ],
)
def test_what_is_no_formula_is_one_sentence(formula: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        calculate(formula)


def test_texts() -> None:
    assert replace_text("a cat, a cat", find="cat", replacement="dog") == "a dog, a dog"
    assert replace_text("x1 y22", find=r"([a-z])(\d+)", replacement=r"\2\1", pattern=True) == "1x 22y"
    assert split_text("a, b ,c", index=-1) == ("c", 3)
    assert split_text("a\nb", separator="", index=1) == ("b", 2)
    assert format_text("{a}_{x:03}_{y:.2}", a="cat", x=7, y=0.5) == "cat_007_0.50"
    assert change_case("  A  red\tSTAR ", case="sentence") == "A red star"


# A class that is compared with its members one by one.
MANY = f"[{''.join(chr(0x10000 + 3000 * n) for n in range(200))}]{{400}}x"


@pytest.mark.parametrize(
    "find", [r"(a+)+b", r"(a|a)*b", r"a(?=b)", r"(a)\1", r".*.*.*.*x", "(", "a{4000}b", r"(a{2000}|b)a{2000}c", MANY]
)
def test_a_pattern_that_may_take_for_ever_is_refused_at_once(find: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=r"repeats a group|refers back|compare too much|no regular expression"):
        replace_text("a" * 15000 + "c", find=find, pattern=True)
    assert time.process_time() - began < 1
    assert replace_text("a" * 1000 + "c", find=r"a+b", pattern=True).endswith("c")


def test_names_of_many_boxes_are_compared_once() -> None:
    with pytest.raises(ValueError, match="boxes has cup more than once"):
        layout_prompt(
            "x", boxes="\n".join(["cup 1 1 2 2 x", *(f"cup_{n} 1 1 2 2 x" for n in range(9)), "cup 1 1 2 2 x"])
        )


def test_a_batch_is_refused_before_it_is_enlarged() -> None:
    many, workspace = Image(pixels=torch.zeros(9, 1, 1, 3)), Workspace(max_pixels=100)
    large = Image(pixels=torch.zeros(1, 8, 8, 3))
    for make in (
        lambda: resize_image(many, width=8, height=8, workspace=workspace),
        lambda: outpaint(many, left=7, top=7, workspace=workspace),
        lambda: paste_image(many, large, workspace=workspace),
    ):
        with pytest.raises(ValueError, match="9 pictures of 8 x 8 are too many pixels"):
            make()


def test_sizes_and_differences() -> None:
    assert size_from_ratio("16:9", megapixels=1, multiple=8) == (1368, 768)
    assert size_from_ratio("16:9", megapixels=1, multiple=8, portrait=True) == (768, 1368)
    dark, light = (Image(pixels=torch.full((1, 4, 6, 3), value)) for value in (0.0, 0.25))
    assert picture_size(batch_pictures(dark, light)) == (6, 4, 2)
    picture, mean, largest = compare_pictures(dark, light, amplify=2)
    assert (mean, largest, float(picture.pixels.mean())) == (0.25, 0.25, 0.5)
    with pytest.raises(ValueError, match="several sizes"):
        batch_pictures(dark, Image(pixels=torch.zeros(1, 2, 2, 3)))


def switched(on: object) -> dict[str, object]:
    return {
        "format": 1,
        "name": "switch",
        "params": {"on": {"type": "bool", "default": True}},
        "nodes": {
            "yes": {"type": "LoomJoinText", "inputs": {"first": "yes"}},
            "no": {"type": "LoomChooseText", "inputs": {"lines": ""}},
            "truth": {"type": "LoomCalculate", "inputs": {"formula": "0"}},
            "switch": {
                "type": "LoomSwitch",
                "inputs": {
                    "on": on,
                    "kind": "string",
                    "if_true": {"from": "yes.text"},
                    "if_false": {"from": "no.text"},
                },
            },
        },
        "outputs": {"text": {"from": "switch.chosen"}},
    }


def test_a_switch_does_not_run_what_it_does_not_choose() -> None:
    graph = graph_from_plain(switched({"param": "on"}))
    made = run(graph, SPECS)
    assert made.outputs == {"text": "yes"} and [*made.nodes] == ["yes", "switch"]
    overrides = typed_values(graph, SPECS, split_set(["on=false"]), workspace=HERE)
    failed = run(graph, SPECS, overrides=overrides)
    assert failed.failure is not None and failed.failure.node == "no"
    linked = run(graph_from_plain(switched({"from": "truth.truth"})), SPECS)
    assert linked.failure is not None and linked.failure.node == "no"
    wrong = switched(True)
    wrong["nodes"]["switch"]["inputs"]["kind"] = "Image"  # type: ignore[index]
    assert {(each.node, each.socket) for each in check(graph_from_plain(wrong), SPECS)} == {("switch", "if_true")}


def test_a_switch_travels_to_comfyui_and_back() -> None:
    graph = graph_from_plain(switched(False))
    prompt = to_comfy(graph, SPECS)
    assert prompt["switch"]["inputs"]["if_false"] == ["no", 0]
    assert from_comfy(prompt, SPECS).nodes["switch"].inputs == graph.nodes["switch"].inputs
    assert SPECS["LoomSwitch"].outputs[0].type == "any"
