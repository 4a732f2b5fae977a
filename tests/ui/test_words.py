"""The page's words for what the server says, in English and German: nothing is stale. What is missing is shown in
English, and told by `tests/bench/german.py`."""

import re

import pytest

from latentloom.parallel.wording import text_id

from ..support.sentences import ROOT, calls_of_worded, sentences_in, texts_of_nodes, texts_of_templates, words_of

FOLDERS = ("nodes", "pipelines", "parallel", "ui")


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_sentence_that_has_words_is_still_said_with_its_values(language: str) -> None:
    table = words_of("sentences", language)
    modules = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py")]
    said = {text for path in modules for text in sentences_in(path)}
    assert table.keys() - (texts_of_nodes() | texts_of_templates() | said) == set()
    beyond = {
        s: w for s, w in table.items() if {int(n) for n in re.findall(r"\{(\d+)\}", w)} - set(range(s.count("{}")))
    }
    assert beyond == {}


def test_every_template_is_given_a_value_for_each_of_its_holes() -> None:
    calls = {call for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py") for call in calls_of_worded(path)}
    assert len(calls) > 300
    assert [template for template, count in calls if text_id(template).count("{}") != count] == []


def test_the_page_names_no_option_of_the_command_line() -> None:
    for language in ("en", "de"):
        words = words_of("sentences", language).values()
        assert [each for each in words if re.search(r"(^|\s)--[a-z]|pip install", each)] == []
