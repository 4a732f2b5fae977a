"""What a toy model cannot know is told before it runs: in the check, and in one line of the command line."""

import logging
from pathlib import Path

import pytest

from bobbin.world.wording import vocabulary
from latentloom.__main__ import main
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.headless import headless
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.facts import unknown_words, why_unknown

FIRST = str(Path(__file__).resolve().parents[2] / "workflows/bobbin/first_picture.json")
CAT = "prompt=A cat in the rain, watercolour, 3 of it"


def test_all_words_of_the_built_in_models_training_are_known_and_no_other() -> None:
    model = describe_model("builtin:bobbin")
    assert unknown_words(model, " ".join(vocabulary()) + "!") == ()
    assert unknown_words(model, "") == ()
    assert unknown_words(model, "A cat in the rain: a cat, and stars") == ("cat", "rain", "stars")
    why = why_unknown(model, "one " * 9 + " ".join("bcdefghij"))
    assert why.startswith('bobbin cannot know "b", "c", "d", "e", "f", "g", "h", "i", ...: a toy model of coloured')
    assert "star" in why.split("knows ")[1].split(", ")


def test_a_prompt_of_unknown_words_is_a_note_of_the_check_and_one_line_of_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", FIRST, "--set", CAT]) == 0
    said = capsys.readouterr().out
    assert 'encode_text.prompt: bobbin cannot know "cat", "rain", "watercolour": a toy model' in said

    def ends(*_: object, **__: object) -> None:
        raise GraphError([])

    monkeypatch.setattr(headless, "attempt", ends)
    with caplog.at_level(logging.WARNING, "latentloom"):
        main(["run", FIRST, "--sweep", "seed=1,2", "--sweep", "prompt=a cat,a dog", "--out", str(tmp_path / "out")])
    assert len([record for record in caplog.records if "cannot know" in record.getMessage()]) == 1
