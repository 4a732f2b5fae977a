"""What a text encoder does not read is said once, in one sentence; what it reads is this call's, in any thread."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
import torch

from latentloom.pipelines import stages
from latentloom.pipelines.components.building import one_call_at_a_time
from latentloom.pipelines.components.store import store
from latentloom.pipelines.values import Model, from_plain


@pytest.mark.parametrize("family", ["flux", "sd3"])
def test_a_prompt_that_is_cut_is_said_in_one_sentence(
    family: str, model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    request = {"model": model(family), "prompt": "a red circle " * 40, "text_length": 64}
    with caplog.at_level(logging.WARNING):
        stages.encode_text(request)
    (record,) = (each for each in caplog.records if each.name == "latentloom")
    assert "has 121 tokens; the last 57 are cut at text length 64" in record.getMessage()


def test_a_prompt_that_fits_says_nothing(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stages.encode_text({"model": model("flux"), "prompt": "a red circle", "text_length": 64})
    assert not caplog.records


class Interrupted:
    """A tokenizer's Rust object; between its settings and its text another thread has time for a call."""

    def __init__(self, inner: Any, other: Callable[[], Any], threads: ThreadPoolExecutor) -> None:
        self.inner, self.other, self.threads = inner, other, threads
        self.was_interrupted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def encode_batch(self, *args: Any, **options: Any) -> Any:
        if not self.was_interrupted and (self.inner.padding or {}).get("length"):
            self.was_interrupted = True
            wait([self.threads.submit(self.other)], timeout=0.3)  # a lock may hold it up
        return self.inner.encode_batch(*args, **options)


@pytest.mark.parametrize("name", ["tokenizer", "tokenizer_2"])
@pytest.mark.parametrize(
    "other",
    [lambda tokenizer: tokenizer("blue", truncation=False), lambda tokenizer: tokenizer.tokenize("blue")],
    ids=["a call", "diffusers' look for textual inversions"],
)
def test_a_text_is_padded_as_it_was_asked_while_another_thread_reads_one(
    other: Callable[[Any], Any], name: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {"model": model("flux"), "prompt": "a red circle", "text_length": 64}
    alone = stages.encode_text(request).positive
    tokenizer = store().load(from_plain(Model, request["model"]), (name,))[name]
    with ThreadPoolExecutor(1) as threads:
        inner = Interrupted(tokenizer._tokenizer, lambda: other(tokenizer), threads)
        monkeypatch.setattr(tokenizer, "_tokenizer", inner)
        found = stages.encode_text(request).positive
    assert inner.was_interrupted
    assert {key: tensor.shape for key, tensor in found.items()} == {key: x.shape for key, x in alone.items()}
    assert all(torch.equal(tensor, alone[key]) for key, tensor in found.items())


def test_a_tokenizer_that_is_built_in_another_way_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"object has no _encode_plus.*install the version in constraints\.txt"):
        one_call_at_a_time(object())
