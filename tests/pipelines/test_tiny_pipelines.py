"""The table of tiny pipelines is complete, and few of them do without their text encoder."""

import pytest

from bodies.spreading import NUDGE, distance, nudging, run
from latentloom.pipelines.whole.verified import CallRecorder
from zoo import pipelines
from zoo.pipelines.live import live_pipelines
from zoo.pipelines.tiny import build


def class_of(row: str) -> str:
    return row.partition(":")[0]


def test_every_live_pipeline_with_a_split_plan_is_tiny_or_left_out() -> None:
    assert {class_of(row) for row in pipelines.TINY} | pipelines.LEFT_OUT.keys() == live_pipelines().keys()


def test_what_is_left_out_has_no_row_and_a_reason() -> None:
    assert not pipelines.LEFT_OUT.keys() & {class_of(row) for row in pipelines.TINY}
    assert all(pipelines.LEFT_OUT.values())


def test_no_two_modules_name_the_same_row() -> None:
    assert len(pipelines.TINY) == sum(len(module.TINY) for module in pipelines.MODULES)


def test_at_most_40_pipelines_are_given_embeddings_in_place_of_a_text_encoder() -> None:
    assert len({class_of(row) for row, tiny in pipelines.TINY.items() if tiny.embeds}) <= 40


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # diffusers' own
def test_a_change_of_the_noise_shows_where_pixels_have_eight_bits() -> None:
    tiny = pipelines.tiny_of("Cosmos2TextToImagePipeline")
    pipe = build(tiny)
    whole = run(pipe, tiny)
    with nudging(CallRecorder(pipe), NUDGE):
        assert 0 < distance(run(pipe, tiny), whole) < 1e-3
