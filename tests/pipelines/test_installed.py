import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from latentloom.pipelines.models.installed import UNSUPPORTED, installed_models


def test_built_in_folders_and_hub_models_are_listed(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(tiny("wan"), tmp_path / "models" / "video" / "wan", copy_function=os.link)
    snapshot = tmp_path / "hub" / "models--org--some--name" / "snapshots" / "abc"
    shutil.copytree(tiny("sd3"), snapshot, copy_function=os.link)
    found = installed_models([tmp_path / "models"], cache=tmp_path / "hub")
    assert [(m.name, m.family, m.revision) for m in found] == [
        ("builtin:bobbin", "flux", ""),
        (str(tmp_path / "models" / "video" / "wan"), "wan", ""),
        ("org/some/name", "sd3", "abc"),
    ]
    assert found[2].location == str(snapshot) and all(m.num_bytes > 100_000 and not m.problem for m in found)
    assert found[0].family == "flux"


def test_a_model_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    (found,) = installed_models([tmp_path], cache=tmp_path)[1:]
    assert found.family == UNSUPPORTED and "StableDiffusionPipeline" in found.problem


def test_bytes_behind_links_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model_index.json").write_text("{}")
    (tmp_path / "m" / "a").write_bytes(bytes(1000))
    (tmp_path / "m" / "b").symlink_to("a")
    (tmp_path / "m" / "loop").symlink_to("loop")
    (found,) = installed_models([tmp_path], cache=tmp_path)[1:]
    assert found.num_bytes == 1002


def test_folders_that_link_to_themselves_end(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    assert len(installed_models([tmp_path], cache=tmp_path)) == 1


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; check the path"):
        installed_models([tmp_path / "nowhere"], cache=tmp_path)
