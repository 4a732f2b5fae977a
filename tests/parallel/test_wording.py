"""Sentences whose values are kept apart: the English is what it was, and its words go along through every door."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import BaseModel

from latentloom.parallel import wording
from latentloom.parallel.pool.job import End
from latentloom.parallel.ranks.channel import write_body
from latentloom.parallel.ranks.messages import Ended
from latentloom.parallel.ranks.rank_job import failure_of
from latentloom.parallel.wording import known_in, remember, text_id, with_words, worded
from latentloom.ui.access.answers import error_answer
from latentloom.ui.store.user_files import read_record, write_record
from latentloom.ui.worker.wire import Line, read_line, written


class Record(BaseModel):
    error: str = ""


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "_KNOWN", {})


def told() -> str:
    return worded("node {!r}: {}", "a", worded("{} has {:,} bytes, {{most}} {:.0%}", "x", 12345, 0.5))


WORDS = {
    "node 'a': x has 12,345 bytes, {most} 50%": {
        "text_id": "node {}: {}",
        "values": ["'a'", "x has 12,345 bytes, {most} 50%"],
    },
    "x has 12,345 bytes, {most} 50%": {"text_id": "{} has {} bytes, {most} {}", "values": ["x", "12,345", "50%"]},
}


def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process."""
    monkeypatch.setattr(wording, "_KNOWN", {})


def test_a_sentence_is_its_english_and_is_known_with_the_sentences_in_it() -> None:
    assert told() == next(iter(WORDS)) and known_in({"a": [told()]}) == WORDS
    assert worded("{took} a step, not {was}", was=2, took="1 s") == "1 s a step, not 2"
    assert text_id("{took:.1f} a step, not {was!r}") == "{} a step, not {}"


def test_answers_have_the_words_of_their_sentences_and_nothing_else() -> None:
    assert with_words([{"why": told()}, {"why": "it is"}, "it"]) == [
        {"why": told(), "said": WORDS},
        {"why": "it is"},
        "it",
    ]
    answer = json.loads(bytes(error_answer(ValueError(told()), "here").body))
    assert answer["error"] == told() and answer["said"] == WORDS
    assert "said" not in json.loads(bytes(error_answer(ValueError("it is"), "here").body))


def test_words_cross_from_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    line = written(Line(answer=1, error=told()))
    forgotten(monkeypatch)
    assert known_in(read_line(line).error) == WORDS


def test_words_cross_from_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    body = write_body(asdict(failure_of(ValueError(told()))))
    forgotten(monkeypatch)
    end = End.read(Ended(job=1, state="refused", is_whole=True), body)
    assert end.reason == next(iter(WORDS)) and known_in(end.reason) == WORDS


def test_a_record_keeps_the_words_of_its_sentences(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_record(path, Record(error=told()))
    forgotten(monkeypatch)
    found = read_record(path, Record)
    assert found is not None and found.error == next(iter(WORDS)) and known_in(found.error) == WORDS


def test_what_is_remembered_is_bounded_and_of_the_right_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "MOST", 3)
    made = [worded("{} of many", number) for number in range(5)]
    assert list(wording._KNOWN) == made[2:]
    remember({"a": {"text_id": 1, "values": []}, "b": {"text_id": "{}", "values": [2]}, "c": "d", "e": None})
    remember(["a"])
    worded("{} is long", "x" * wording.LONGEST)
    assert list(wording._KNOWN) == made[2:]
