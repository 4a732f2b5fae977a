"""A second denoise begins at once: what cannot have changed is not done again, and what has changed is seen."""

import functools
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.configuration_utils import ConfigMixin
from diffusers.models.transformers.transformer_flux import FluxPosEmbed
from diffusers.modular_pipelines.modular_pipeline import ModularPipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
from torch import nn

from latentloom.parallel.sharding.fingerprint import Due
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import store
from latentloom.pipelines.denoising.tables import _prepared, keep_tables
from latentloom.pipelines.families import FAMILIES
from latentloom.pipelines.models import regular_file
from latentloom.pipelines.models.facts import read_card
from latentloom.pipelines.models.regular_file import FromFile
from latentloom.pipelines.values import Model, from_plain

HEUN = {"scheduler": "heun", "shift": 2.0}


@pytest.fixture
def old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were just made count as long made."""
    monkeypatch.setattr(regular_file, "SETTLED_NS", 0)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """What a method is called on from now on."""
    before, found = getattr(owner, name), list[Any]()

    @functools.wraps(before)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(self)
        return before(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return found


class Opened:
    """Files that this thread opens, while `is_watching`."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.thread = 0
        sys.addaudithook(self._see)  # for the life of the process

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and threading.get_ident() == self.thread:
            self.paths.append(str(args[0]))


@pytest.mark.parametrize("family", ["flux", "z_image"])
def test_the_second_opens_no_file_walks_no_modules_and_makes_no_pipeline(
    family: str, model: Any, canvas: Any, paint: Any, old_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = paint(model(family), canvas(family)).tensor
    opened, walked = Opened(), counted(monkeypatch, nn.Module, "named_modules")
    makers = ((ModularPipeline, "__init__"), (ConfigMixin, "register_to_config"))
    made = [counted(monkeypatch, *each) for each in makers]

    def begins(*_: Any) -> None:
        opened.thread = 0
        seen.append((len(walked), [type(each).__name__ for each in (*made[0], *made[1])]))

    denoise, seen = stages.denoise, list[Any]()

    def watched(*args: Any, **kwargs: Any) -> Any:
        walked.clear()
        made[0].clear()
        made[1].clear()
        opened.thread = threading.get_ident()
        return denoise(*args, **kwargs)

    monkeypatch.setattr(stages, "denoise", watched)
    monkeypatch.setattr(stages.RunAhead, "asked", begins)
    again = paint(model(family), canvas(family)).tensor
    num_walked, made_anew = seen[0]
    assert opened.paths == []
    assert made_anew == []
    assert num_walked < 10, "it looks for the first weight, and at no other module"
    assert torch.equal(before, again)


def test_what_one_denoise_was_asked_for_is_nothing_to_the_next(model: Any, canvas: Any, paint: Any) -> None:
    def euler() -> torch.Tensor:
        return paint(model("flux"), canvas("flux"), guidance=3.0).tensor

    def heun() -> torch.Tensor:
        size = {"width": 96, "batch": 2}
        return paint(model("flux"), canvas("flux", **size), steps=4, sampling=HEUN, distilled_guidance=2.0).tensor

    first = euler(), heun()
    assert torch.equal(euler(), first[0])
    assert torch.equal(heun(), first[1])


def test_two_threads_run_one_assembly_at_a_time_each_with_its_own(model: Any, canvas: Any, paint: Any) -> None:
    alone = {steps: paint(model("flux"), canvas("flux"), steps=steps).tensor for steps in (2, 5)}
    found: dict[int, torch.Tensor] = {}

    def work(steps: int) -> None:
        found[steps] = paint(model("flux"), canvas("flux"), steps=steps).tensor

    threads = [threading.Thread(target=work, args=(steps,)) for steps in alone]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(torch.equal(found[steps], alone[steps]) for steps in alone)


@pytest.fixture
def tables(model: Any) -> Iterator[Any]:
    """Of the tiny FLUX, kept as if it were prepared."""
    transformer = store().load(from_plain(Model, model("flux")), ["transformer"])["transformer"]
    end = keep_tables(transformer)
    yield _prepared[transformer]
    end()
    assert transformer not in _prepared
    assert "forward" not in vars(transformer.pos_embed)


def test_tables_are_made_again_for_other_sizes_alone(
    model: Any, canvas: Any, paint: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, high = ({"width": width, "height": height} for width, height in ((96, 64), (64, 96)))  # as many tokens
    start = paint(model("flux"), canvas("flux"), steps=1).tensor
    asked: list[tuple[dict[str, Any], dict[str, Any], tuple[int, int]]] = [
        ({}, {}, (1, 1)),
        ({}, {"seed": 6}, (0, 0)),
        ({}, {"steps": 2}, (0, 1)),
        ({}, {"distilled_guidance": 2.0, "guidance": 3.0}, (0, 1)),
        ({}, {"sampling": {"shift": 2.0}}, (0, 1)),
        ({}, {"sampling": HEUN}, (0, 1)),
        (wide, {}, (1, 1)),
        (high, {}, (1, 1)),
        ({**high, "batch": 2}, {}, (1, 1)),
        ({"tensor": start}, {"strength": 0.5}, (1, 1)),
        ({"tensor": start}, {"strength": 0.9}, (0, 1)),
        ({"tensor": start}, {"strength": 0.9, "seed": 6}, (0, 0)),
    ]
    wanted = [paint(model("flux"), canvas("flux", **size), **each).tensor for size, each, _ in asked]
    request.getfixturevalue("tables")
    angles = counted(monkeypatch, FluxPosEmbed, "forward")
    levels = counted(monkeypatch, FlowMatchEulerDiscreteScheduler, "set_timesteps")
    for (size, each, made), right in zip(asked, wanted, strict=True):
        angles.clear()
        levels.clear()
        assert torch.equal(paint(model("flux"), canvas("flux", **size), **each).tensor, right)
        assert (len(angles), len(levels)) == made


def test_a_table_that_somebody_wrote_into_is_made_again(model: Any, canvas: Any, paint: Any, tables: Any) -> None:
    wanted = paint(model("flux"), canvas("flux")).tensor
    for maker, table in list(tables._last.items()):
        for tensor, _ in table[2]:
            tensor += 1
        assert torch.equal(paint(model("flux"), canvas("flux")).tensor, wanted)
        assert tables._last[maker] is not table
    assert len(tables._last) == 3


def rewritten(path: Path) -> None:
    path.write_text("other")


def replaced_by_one_of_the_same_age(path: Path) -> None:
    status = path.stat()
    other = path.with_name("other")
    other.write_text("other")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def replaced_by_a_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_text("other")
    path.unlink()
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("change", [rewritten, replaced_by_one_of_the_same_age, replaced_by_a_link])
def test_a_file_is_read_once_and_again_when_it_has_changed(
    change: Callable[[Path], None], tmp_path: Path, old_files: None
) -> None:
    path, read = tmp_path / "file", list[str]()
    path.write_text("first")
    kept = FromFile(lambda path: read.append(path.read_text()) or read[-1])
    assert [kept(path), kept(path)] == ["first", "first"]
    assert len(read) == 1
    change(path)
    assert kept(path) == "other"


def test_a_card_follows_a_config_that_has_changed(tiny: Callable[[str], Path], tmp_path: Path, old_files: None) -> None:
    folder, family = shutil.copytree(tiny("flux"), tmp_path / "model"), FAMILIES["flux"]
    card = read_card(folder, family)
    assert read_card(folder, family) == card
    config = folder / "transformer" / "config.json"
    plain = json.loads(config.read_text())
    config.write_text(json.dumps({**plain, "guidance_embeds": not plain["guidance_embeds"]}))
    other = read_card(folder, family)
    assert other.name != card.name
    (folder / "latentloom.json").write_text('{"defaults": {"steps": 7}}')
    assert read_card(folder, family).steps == 7
    (folder / "latentloom.json").unlink()
    assert read_card(folder, family) == other


def test_what_was_made_of_a_young_or_large_file_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "file", list[Path]()
    path.write_text("first")
    kept = FromFile(read.append)
    kept(path)
    kept(path)
    assert len(read) == 2
    monkeypatch.setattr(regular_file, "SETTLED_NS", 0)
    monkeypatch.setattr(regular_file, "MOST_BYTES", 4)
    kept(path)
    assert len(read) == 3


def test_what_cannot_be_made_is_asked_for_again(tmp_path: Path, old_files: None) -> None:
    kept = FromFile(Path.read_text)
    with pytest.raises(FileNotFoundError):
        kept(tmp_path / "file")
    (tmp_path / "file").write_text("here")
    assert kept(tmp_path / "file") == "here"


def test_ranks_compare_in_the_first_forward_and_whenever_one_began_anew() -> None:
    due = Due()
    assert due.is_now()
    due.is_done()
    assert not due.is_now()
    due.ask(lambda: False)
    assert not due.is_now()
    due.ask(lambda: True)
    due.ask(lambda: False)
    assert due.is_now(), "a yes is not lost where the forward that it was for never ran"
    due.is_done()
    assert not due.is_now()
