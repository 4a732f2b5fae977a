"""JSON from strangers has one meaning, or is refused with its fault and a reason."""

import math
from pathlib import Path
from typing import Any

import pytest
from diffusers import DPMSolverMultistepScheduler

from latentloom.parallel.machine.folders import write_object
from latentloom.pipelines.models.regular_file import JsonFault, parse_strict, read_object


@pytest.mark.parametrize(
    ("text", "fault", "reason"),
    [
        ('{"a": 1, "a": 2}', "duplicate_key", "the key 'a' is there twice"),
        ('[{"b": {"a": 1, "a": 1}}]', "duplicate_key", "the key 'a' is there twice"),
        ("[NaN]", "not_a_number", "NaN is not a number"),
        ("[-Infinity]", "not_a_number", "-Infinity is not a number"),
        ("[1e999]", "not_a_number", "1e999 is too large"),
        ("1" * 5000, "not_a_number", "too large for a whole number"),
        ("[" * 33 + "]" * 33, "too_deep", "more than 32 levels"),
        ("[" * 100_000, "too_deep", "more than 32 levels"),
        ('{"a": [' * 16 + "[]" + "]}" * 16, "too_deep", "more than 32 levels"),
        ('[{"a": ' * 16 + "{}" + "}]" * 16, "too_deep", "more than 32 levels"),
        ('["\\ud800"]', "not_text", "half of a"),
        (b"\xff{}", "not_text", "byte 0 is not UTF-8"),
        ('{"a": }', "not_json", "line 1, column 7"),
        ("", "not_json", "line 1, column 1"),
    ],
)
def test_what_has_no_single_meaning_is_refused(text: str | bytes, fault: str, reason: str) -> None:
    with pytest.raises(JsonFault, match=reason) as caught:
        parse_strict(text)
    assert caught.value.fault == fault


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'\xef\xbb\xbf{"a": [1, -2.5e3, true, null]}', {"a": [1, -2500.0, True, None]}),
        ('"\\ud83d\\ude00 [[[ \\" ]"', '\U0001f600 [[[ " ]'),
        ("[" * 32 + "]" * 32, None),
        ('{"a": [' * 16 + "]}" * 16, None),
    ],
)
def test_everything_else_is_read(text: str | bytes, value: Any) -> None:
    assert parse_strict(text) == value or value is None


def test_a_file_is_refused_with_its_name_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_layers": 2, "num_layers": 3}')
    with pytest.raises(ValueError, match=r"config of vae \S+ is not valid JSON \(the key 'num_layers' is there twice"):
        read_object(tmp_path / "config.json", what="config of vae")


def test_a_scheduler_may_have_the_infinity_that_diffusers_writes(tmp_path: Path) -> None:
    DPMSolverMultistepScheduler().save_pretrained(str(tmp_path))
    assert read_object(tmp_path / "scheduler_config.json", what="it")["lambda_min_clipped"] == -math.inf


def test_what_is_written_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_object(path, {"a": 1})
    with pytest.raises(TypeError):
        write_object(path, {"a": object()})
    path.with_name("b.json").mkdir()
    with pytest.raises(OSError, match=r"b\.json"):
        write_object(path.with_name("b.json"), {})
    assert read_object(path, what="it") == {"a": 1}
    assert sorted(each.name for each in path.parent.iterdir()) == ["a.json", "b.json"]
