"""The reviewed file of what people run: well formed, complete, and naming only what is here and was found right."""

import json
from dataclasses import replace

from bench import share_of_use
from support.checkout import ROOT

TEMPLATES = share_of_use.read()
BY_NAME = {each.name: each for each in TEMPLATES}


def test_the_file_holds_all_templates_once_and_their_usage() -> None:
    said = json.loads(share_of_use.REVIEWED.read_text())
    assert (len(BY_NAME), len(TEMPLATES), sum(each.usage for each in TEMPLATES)) == (259, 259, 163_921)
    assert (said["templates"], said["usage"]) == (259, 163_921)


def test_each_row_uses_known_words_and_says_what_covers_it_or_why_nothing_does() -> None:
    assert list(share_of_use.wrong_words(TEMPLATES)) == []
    odd = replace(BY_NAME["flux_schnell"], inputs=("smell",), why="no nose")
    assert len(list(share_of_use.wrong_words([odd]))) == 2


def test_workflows_named_are_here_and_classes_were_found_right_on_ranks() -> None:
    assert list(share_of_use.wrong_names(TEMPLATES, share_of_use.right_classes())) == []
    odd = [replace(BY_NAME["flux_schnell"], by=name) for name in ("workflows/none.json", "NoPipeline")]
    assert len(list(share_of_use.wrong_names(odd, {"FluxPipeline"}))) == 2


def test_workflows_have_nodes_for_what_a_template_is_given_and_makes() -> None:
    assert list(share_of_use.wrong_workflows(TEMPLATES)) == []
    odd = replace(BY_NAME["flux_schnell"], inputs=("text", "first frame"), outputs=("video",))
    assert list(share_of_use.wrong_workflows([odd])) == [
        "flux_schnell: workflows/flux/flux_text_to_image.json has no LoomLoadImage, LoomSaveVideo"
    ]


def test_a_template_counts_by_its_usage_where_something_covers_it() -> None:
    some = (replace(BY_NAME["flux_schnell"], usage=3), replace(BY_NAME["image_sdxl_simple"], usage=1))
    lines = list(share_of_use.table(some, {some[0].by}))
    assert "1 of 2 templates, 75.0 % of their usage, are covered; the goal is 85 %" in lines
    read = "are covered, and the denoiser that the template loads is in a format that we read"
    assert f"75.0 % {read}" in lines
    packed = [replace(each, weights=("nvfp4",)) for each in some]
    assert f"0.0 % {read}" in list(share_of_use.table(tuple(packed), {some[0].by}))


def test_the_document_says_how_much_is_covered() -> None:
    text = " ".join((ROOT / "pipelines" / "README.md").read_text().split())
    assert share_of_use.counted(TEMPLATES) in text
