"""Models that are not on this machine are planned by the sizes that are shipped, and can be nothing else.

The table `plans/outlines.txt` is made by: python tests/pipelines/test_outlines.py
"""

import dataclasses
import importlib
import json
import shutil
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import support.checkout  # noqa: F401 (makes the checkout importable)

from bench.family_sizes import DEFAULTS, MACHINES, SHOWN, folded, verdict
from latentloom.__main__ import main
from latentloom.nodes.headless.plans import plan_model
from latentloom.pipelines.costs.machine import named_machine
from latentloom.pipelines.costs.run import duration
from latentloom.pipelines.forecast.choice import Mend, amount
from latentloom.pipelines.forecast.explained import in_brief, sizes_from
from latentloom.pipelines.forecast.known import chip_of
from latentloom.pipelines.forecast.plans import Wanted
from latentloom.pipelines.forecast.weights import decoded_numbers
from latentloom.pipelines.models import outlines
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.installed import names_without_folder
from latentloom.pipelines.models.outlines import known_ids, outline_of, unfolded

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "plans" / "outlines.txt"
TABLE = json.loads(outlines.TABLE.read_text())
FLUX = "black-forest-labs/FLUX.1-dev"


def golden() -> str:
    """Each family on each machine, and who says how large it is."""
    lines = []
    for title, model_id in SHOWN.items():
        lines += [f"{title:17} {name:14} {verdict(model_id, named_machine(name))}" for name in MACHINES]
        lines.append(f"    {sizes_from(plan_model(model_id, named_machine(MACHINES[-1]), roots=()))}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*given: object, **named: object) -> None:
        raise AssertionError("a model that is only planned asks nobody")

    monkeypatch.setattr(socket.socket, "connect", connect)


def test_what_runs_where_is_told_before_the_download(no_network: None) -> None:
    assert len(SHOWN) >= 12
    assert golden() == GOLDEN.read_text()


def test_each_model_of_the_table_can_be_planned_and_names_its_sources(no_network: None) -> None:
    for model_id in known_ids():
        answer = plan_model(model_id, named_machine("8xH100-nvlink"), roots=())
        assert answer.chosen is not None and answer.model.source == model_id
        parts = [TABLE["parts"][name] for name in TABLE["models"][model_id]["parts"].values()]
        told = [part["source"] for part in parts if "tensors" in part]
        assert told and all(source and source in sizes_from(answer) for source in told)


@pytest.mark.parametrize("name", ["flux_dev", "qwen_image", "krea_2", "z_image", "wan_vae", "flux_2_vae"])
def test_shapes_are_those_of_the_class(name: str) -> None:
    import torch

    part = TABLE["parts"][name]
    assert part["source"] == DEFAULTS
    kind = getattr(importlib.import_module("diffusers"), part["class"])
    with torch.device("meta"):
        model = kind.from_config(part["files"]["config.json"])
    assert unfolded(part["tensors"]) == {name: tuple(value.shape) for name, value in model.state_dict().items()}


def test_folded_names_unfold_to_themselves() -> None:
    shapes = {f"blocks.{i}.{name}.weight": (8, 4) for i in (0, 1, 2, 5) for name in ("to_q", "to_k")}
    shapes |= {"blocks.1.to_q.bias": (8,), "scale": (), "last.9": (8, 4), "all.2-1.bias": (7,)}
    assert folded(shapes)["8x4"].split()[0] == "blocks.0:2,5.to_q,to_k.weight"
    assert unfolded(folded(shapes)) == shapes


def test_plan_says_that_the_model_is_not_here_and_who_says_its_size(
    no_network: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", FLUX, "--machine", "1xH100"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("FLUX.1 dev, 1024 x 1024, 28 steps") and "not downloaded; sizes from text_encoder: " in told
    assert main(["plan", FLUX, "--machine", "1xH100", "--json"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)
    assert plain["model"] == FLUX and f"transformer: {DEFAULTS}" in plain["sizes_from"]
    assert main(["plan", "builtin:bobbin", "--machine", "1xH100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["sizes_from"] == ""


def test_in_brief_it_is_one_sentence() -> None:
    answer = plan_model(FLUX, named_machine("1xH100"), roots=())
    run = answer.chosen
    assert run is not None
    held, step = amount(run.num_bytes), duration(run.step.seconds)
    assert in_brief(answer) == f"fits here: {held} on a device, {step} a step"
    assumed = plan_model(FLUX, dataclasses.replace(named_machine("1xH100"), is_assumed=True), roots=())
    assert in_brief(assumed) == f"fits here: {held} on a device"
    fewer = Mend(words="quantization int8", values={}, num_bytes=0)
    refused = SimpleNamespace(chosen=None, mends=[fewer], closest=run)
    assert in_brief(refused) == "does not fit here as it is, but with quantization int8"
    refused.mends = []
    assert in_brief(refused).startswith("does not fit here: it lacks ")


def test_a_workflow_whose_model_is_not_here_is_planned_and_not_checked(
    no_network: None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(ROOT / "workflows" / "qwen_image_edit" / "qwen_image_edit.json")
    assert main(["plan", file, "--machine", "8xH100-nvlink"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("denoise: Qwen-Image-Edit, ") and "not downloaded; sizes from" in told
    assert main(["check", file]) != 0
    assert "models pull Qwen/Qwen-Image-Edit" in "".join(capsys.readouterr())


def test_what_has_no_known_size_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "qwen/Qwen-Image", "--machine", "1x4090"]) == 75
    told = capsys.readouterr().err
    assert f"nor is its size known, as those of {len(known_ids())} others are (Qwen/Qwen-Image, " in told
    assert "run `latentloom models pull qwen/Qwen-Image` first" in told


def test_a_decoder_that_is_a_transformer_takes_tiles_of_a_video_of_any_size() -> None:
    small, large = (
        plan_model("MiniMaxAI/MiniMax-H3", named_machine("1xH100"), roots=(), written=Wanted(width=side, height=side))
        for side in (512, 1024)
    )
    config, canvas = small.work.vae_config, {"frames": small.work.decoded_frames, "most_unfolded": 0}
    held = {decoded_numbers(config, each.canvas, **canvas) for each in (small, large)}
    assert len(held) == 1 and 0 < held.pop() < small.canvas.width * small.canvas.height * 3 * 124 * 4


def test_tiles_of_a_decode_are_shared_out_wherever_they_can_be() -> None:
    found = plan_model("MiniMaxAI/MiniMax-H3", named_machine("8xH100-nvlink"), roots=())
    run = found.chosen
    assert run is not None and run.decoders == run.plan.num_ranks > 1
    assert f"{run.decoders} devices decode, each some of the tiles" in found.why and "rows" not in found.why
    needs = found.work.needs(run.plan, decoders=run.decoders)
    alone = found.work.needs(run.plan, decoders=1)
    assert needs[-1].num_bytes == alone[-1].num_bytes, "a tile is as large on each"


def test_a_model_that_is_here_comes_before_its_outline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ROOT / "pipelines" / "bobbin" / "model"
    monkeypatch.setattr("latentloom.pipelines.models.source.find_snapshot", lambda name, revision: here)
    assert describe_model(FLUX, device="cpu", is_here=False, outlines=outline_of).folder == str(here)


def test_an_outline_is_no_model_to_run(tmp_path: Path) -> None:
    folder = outline_of(FLUX)
    assert folder is not None and inspect_model(folder).family.name == "flux"
    with pytest.raises(ValueError, match="models pull"):
        describe_model(FLUX, device="cpu", is_here=False)
    assert FLUX not in names_without_folder()
    assert all(file.stat().st_size == 0 for file in folder.rglob("*.safetensors"))
    copy = shutil.copytree(folder, tmp_path / "copy")  # of which no header stands in this process, as in any other
    with pytest.raises(ValueError, match="truncated"):
        describe_model(str(copy), device="cpu", is_here=False)


def test_a_laptop_is_not_taken_for_the_card_of_its_name() -> None:
    laptop = chip_of("NVIDIA GeForce RTX 4060 Laptop GPU")
    assert laptop is not None and laptop.memory_bytes < 8 << 30
    assert chip_of("NVIDIA GeForce RTX 4090 Laptop GPU") is None != chip_of("NVIDIA GeForce RTX 4090")


if __name__ == "__main__":
    GOLDEN.write_text(golden())
