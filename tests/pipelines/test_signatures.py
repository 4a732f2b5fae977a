"""The table of pipelines' signatures: it is that of the installed diffusers, and small enough to ship."""

import inspect
import json
import re
from typing import Any

import diffusers
import pytest
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition
from diffusers.pipelines.ltx2.pipeline_ltx2_ic_lora import LTX2ReferenceCondition

from bench import pipeline_signatures as survey
from latentloom.pipelines.signatures import table
from latentloom.pipelines.signatures.table import TABLE, class_names, is_modular, reviewed, signature_of
from latentloom.pipelines.whole import assembled
from zoo import pipelines


def survey_rows() -> dict[str, Any]:
    """Of the table that is shipped."""
    return json.loads(TABLE.read_text())["classes"]


def test_the_table_is_what_the_survey_makes_of_the_installed_diffusers() -> None:
    made = survey.table()
    assert survey.text_of(made) == TABLE.read_text(), "run python tests/bench/pipeline_signatures.py"
    assert "2082 map by name and annotation, 15 are JSON" in survey.counts(made)


def test_somebody_has_looked_at_every_text_that_a_class_takes_and_at_none_that_is_gone() -> None:
    """A verdict for each is written into `reviewed.json` by whoever has read what the class does with it."""
    looked_at = {name: row.keys() for name, row in reviewed()["classes"].items()}
    assert looked_at == {name: texts for name, row in survey_rows().items() if (texts := survey.texts_of(row))}
    assert {each for row in reviewed()["classes"].values() for each in row.values()} == reviewed()["verdicts"].keys()


def test_a_text_that_nobody_has_looked_at_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    known = reviewed()
    monkeypatch.setattr(table, "reviewed", lambda: {**known, "classes": {"WanPipeline": {"negative_prompt": "words"}}})
    found = table._signature.__wrapped__("WanPipeline")
    assert found.left_out == {"prompt": "nobody has looked at what the class does with it"}
    assert found.lacks == ("prompt",) and "negative_prompt" in {each.name for each in found.parameters}


def test_no_text_reaches_a_file_a_format_string_or_what_counts_on_for_ever() -> None:
    left_out = {(name, each) for name in class_names() for each in signature_of(name).left_out}
    hunyuan = ("HunyuanSkyreelsImageToVideo", "HunyuanVideoFramepack", "HunyuanVideoImageToVideo", "HunyuanVideo")
    assert left_out == {
        *((f"{name}Pipeline", "prompt_template") for name in hunyuan),
        ("BriaFibo2Pipeline", "fonts"),
        ("LTXI2VLongMultiPromptPipeline", "prompt_segments"),
        ("SanaWMPipeline", "action"),
    }


def test_what_an_index_may_give_as_text_is_a_closed_list() -> None:
    """The texts among what classes are made with, but for their components."""
    found: set[str] = set()
    for name in class_names():
        kind = getattr(diffusers, name)
        if not is_modular(kind):
            own = inspect.signature(kind.__init__).parameters.values()
            found |= {each.name for each in own if re.search(r"\b(str|dict|Any)\b", str(each.annotation))}
    assert found <= assembled.TEXTS.keys()


def test_it_has_every_class_that_is_tried() -> None:
    assert set(class_names()) == {row.partition(":")[0] for row in pipelines.TINY} | pipelines.LEFT_OUT.keys()
    assert TABLE.stat().st_size < 100_000


@pytest.mark.parametrize(
    ("name", "annotation", "kind"),
    [
        ("prompt", "str | list[str]", "text"),
        ("height", "int | None", "integer"),
        ("strength", float, "number"),
        ("frame_rate", "typing.Optional[float]", "number"),
        ("use_kv_cache", bool, "switch"),
        ("sigmas", "typing.Optional[typing.List[float]]", "numbers"),
        ("original_size", "tuple[int, int] | None", "integers"),
        ("fonts", "list[str] | None", "texts"),
        ("image", "PIL.Image.Image | list[PIL.Image.Image]", "picture"),
        ("image", "torch.FloatTensor | None", "picture"),
        ("mask_image", "PIL.Image.Image | None", "mask"),
        ("conditions", LTXVideoCondition | list[LTXVideoCondition], "conditions"),
        ("reference_conditions", list[LTX2ReferenceCondition] | None, "references"),
        ("reference_images", "list[PIL.Image.Image]", "pictures"),
        ("control_video", "list[PIL.Image.Image] | None", "video"),
        ("frames", int, "integer"),
        ("src_audio", "typing.Optional[torch.Tensor]", "audio"),
        ("audio_guidance_scale", "float | None", "number"),
        ("prompt_embeds", "torch.Tensor | None", "tensor"),
        ("prompt_embeds_scale", "float", "tensor"),
        ("generator", "torch.Generator | None", "plumbing"),
    ],
)
def test_a_parameter_becomes_a_kind_by_its_name_and_annotation(name: str, annotation: object, kind: str) -> None:
    assert survey.kind_of(name, annotation) == kind


def test_of_a_class_it_tells_what_it_takes_and_gives() -> None:
    flux = {each.name: each for each in signature_of("FluxImg2ImgPipeline").parameters}
    assert flux["prompt"].is_required and not flux["image"].is_required
    assert flux["strength"].default == 0.6 and not flux["strength"].is_advanced
    assert flux["sigmas"].is_advanced and flux["sigmas"].default is None
    assert not flux.keys() & {"self", "latents", "prompt_embeds", "generator", "output_type"}
    sound = signature_of("LTX2Pipeline")
    assert sound.outputs == {"video": "frames", "audio": "audio"} and sound.fps == "frame_rate"
    assert signature_of("WanPipeline").fps == 16
    assert signature_of("SanaWMLTX2Refiner").lacks == ("sana_latent",)


def test_a_class_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'FluxPipelin' is none of the 158 .* did you mean FluxPipeline\?"):
        signature_of("FluxPipelin")


@pytest.mark.parametrize(
    ("name", "given", "branches"),
    [
        ("WanPipeline", {}, 2),
        ("WanPipeline", {"guidance_scale": 1.0}, 1),
        ("FluxPipeline", {"guidance_scale": 3.5}, 1),
        ("FluxPipeline", {"true_cfg_scale": 3.0}, 1),
        ("FluxPipeline", {"true_cfg_scale": 3.0, "negative_prompt": ""}, 2),
        ("Flux2Pipeline", {}, 1),
    ],
)
def test_branches_of_guidance_are_known_from_the_call(name: str, given: dict[str, object], branches: int) -> None:
    assert (signature_of(name).guidance(given) > 1) == (branches == 2)


def test_no_socket_reaches_what_fetches_and_runs_code() -> None:
    """transformers' `generate` takes `custom_generate`, a repository whose code it runs."""
    names = {each.name for name in class_names() for each in signature_of(name).parameters}
    assert not {name for name in names if name.endswith("kwargs")}
