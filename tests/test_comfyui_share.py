"""The reviewed file of which classes of ComfyUI run its templates, and what is counted by it."""

from dataclasses import replace
from pathlib import Path

from bench import comfyui_share
from support.checkout import ROOT

TEMPLATES = comfyui_share.templates()
BY_NAME = {each.name: each for each in TEMPLATES}


def test_each_template_says_what_runs_it_or_why_nothing_does() -> None:
    assert len(BY_NAME) == len(TEMPLATES) == 259
    assert all(bool(each.classes) != bool(each.why) for each in TEMPLATES)
    assert all(path.startswith("comfy.ldm.") for each in TEMPLATES for path in each.classes)
    assert list(comfyui_share.wrong_names(TEMPLATES)) == []
    others = [each for each in TEMPLATES if each.family != "moss"]
    assert list(comfyui_share.wrong_names(others)) == ["moss: no such family"]


def test_what_people_run_has_plans_as_the_document_says() -> None:
    found = comfyui_share.share(TEMPLATES)
    assert found >= comfyui_share.GOAL
    assert f"{found:.1f} % of the use of those of ComfyUI's templates" in (ROOT / "nodes" / "README.md").read_text()


def test_use_counts_where_all_classes_of_a_template_have_plans() -> None:
    flux = replace(BY_NAME["flux_schnell"], usage=3)
    both = replace(flux, name="both", usage=1, classes=(*flux.classes, "comfy.ldm.elsewhere.Model"))
    none = replace(flux, name="none", usage=100, classes=(), why="it came later")
    assert comfyui_share.share([flux, both, none]) == 75
    lines = list(comfyui_share.table([flux, both, none]))
    assert "75.00 % of that is of classes with a plan; the goal is 95 %" in lines
    assert "by none: FLUX.1 other 96.15 %: it came later" in lines


def test_classes_are_read_in_the_source_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "comfy" / "ldm").mkdir(parents=True)
    (tmp_path / "comfy" / "ldm" / "other.py").write_text("class Other(Thing):\n    pass\n")
    (tmp_path / "comfy" / "model_base.py").write_text(
        "from comfy.ldm.net import Net\nimport comfy.ldm.other\n"
        "class BaseModel:\n    def __init__(self, config, unet_model=Net):\n        self.model = unet_model()\n"
        "class Flux(BaseModel):\n    def __init__(self, config):\n"
        "        super().__init__(config, unet_model=comfy.ldm.other.Other)\n"
        "class Two(BaseModel):\n    def __init__(self, config, unet_model=comfy.ldm.other.Other):\n"
        "        super().__init__(config, unet_model=unet_model)\n"
    )
    assert comfyui_share.classes_of(tmp_path) == {
        "comfy.ldm.net.Net": ["BaseModel"],
        "comfy.ldm.other.Other": ["Flux", "Two"],
    }
    assert comfyui_share.stands(tmp_path, "comfy.ldm.other.Other")
    assert not comfyui_share.stands(tmp_path, "comfy.ldm.other.Oth")
    lines = list(comfyui_share.listed(tmp_path, {"comfy.ldm.net.Net": "it has no tokens"}))
    assert "no plan: it has no tokens  (BaseModel)" in lines[0] and comfyui_share.NO_REASON in lines[1]
