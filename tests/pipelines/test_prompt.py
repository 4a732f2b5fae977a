"""What a text encoder does not read is said once, in one sentence."""

import logging
from typing import Any

import pytest

from latentloom.pipelines import stages


@pytest.mark.parametrize("family", ["flux", "sd3"])
def test_a_prompt_that_is_cut_is_said_in_one_sentence(
    family: str, model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    request = {"model": model(family), "prompt": "a red circle " * 40, "text_length": 64}
    with caplog.at_level(logging.WARNING):
        stages.encode_text(request)
    (record,) = caplog.records
    assert "has 121 tokens; the last 57 are cut at text length 64" in record.getMessage()


def test_a_prompt_that_fits_says_nothing(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stages.encode_text({"model": model("flux"), "prompt": "a red circle", "text_length": 64})
    assert not caplog.records
