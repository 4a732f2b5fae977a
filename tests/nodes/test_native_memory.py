"""What of a MODEL is in memory, without ComfyUI: files that are mapped, shells, and ranks that let go."""

import gc
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from latentloom.nodes.hosts.native import border, mapped, on_rank, shell
from latentloom.nodes.hosts.native.border import Border
from latentloom.nodes.hosts.native.mapped import as_mapped, lease_of
from latentloom.nodes.hosts.native.on_rank import HELD, KEEP, Held, _here, forget
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import SILENT
from latentloom.parallel.ranks.seat import Seat
from latentloom.pipelines.values import Place


class Model(nn.Module):
    """A class whose host asks for texts before it samples."""

    def __init__(self) -> None:
        super().__init__()
        self.text = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.register_buffer("table", torch.ones(3))

    def preprocess_text_embeds(self, x: torch.Tensor) -> torch.Tensor:
        return self.text(x)


@pytest.fixture
def file(tmp_path: Path) -> str:
    save_file(Model().state_dict(), tmp_path / "a.safetensors")
    return str(tmp_path / "a.safetensors")


def shared(module: nn.Module) -> set[str]:
    """The weights that lie in memory which others may map."""
    lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [line[0].split("-") for line in lines if len(line) > 5 and "latentloom-weights" in line[5]]
    ends = [(int(start, 16), int(end, 16)) for start, end in spans]
    return {name for name, each in module.named_parameters() if any(a <= each.data_ptr() < b for a, b in ends)}


# ---- files that are mapped


def test_a_rank_takes_weights_as_they_lie_in_the_file(file: str) -> None:
    weights = load_file(file)
    weights["blocks.1.weight"] = weights["blocks.1.weight"].double()
    model = Model()
    with as_mapped():
        model.load_state_dict(weights)
    taken = {name for name, each in model.named_parameters() if each.data_ptr() == weights[name].data_ptr()}
    assert taken == {name for name, _ in model.named_parameters()} - {"blocks.1.weight"}
    assert all(torch.equal(each.double(), weights[name].double()) for name, each in model.state_dict().items())
    other = Model()
    other.load_state_dict(weights)
    assert other.text.weight.data_ptr() != weights["text.weight"].data_ptr()


def test_the_host_s_weights_are_shared_and_a_rank_maps_the_same_bits_at_a_multiple_of_64_bytes(tmp_path: Path) -> None:
    model, lease = Model(), mapped.Lease()
    model.blocks[0].half()  # as a loader was told
    names, before = (
        {name for name, _ in model.named_parameters()},
        {n: x.clone() for n, x in model.state_dict().items()},
    )
    assert shared(model) == set()
    told = lease.share(model)
    rank = Model()
    rank.blocks[0].half()
    with as_mapped(skips=True):
        rank.load_state_dict({name: torch.zeros_like(each) for name, each in rank.state_dict().items()})
    assert all(each.any() for each in rank.parameters()) and not rank.table.any()  # buffers are each process's own
    assert mapped.take(rank, told)
    for each in (model, rank):
        assert shared(each) == names and all(x.data_ptr() % 64 == 0 for x in each.parameters())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert all(torch.equal(x, before[name]) for name, x in rank.named_parameters())
    with torch.no_grad():
        rank.text.weight += 1  # the writer's own, as a LoRA's are
    assert torch.equal(model.text.weight, before["text.weight"])
    save_file(model.state_dict(), tmp_path / "b.safetensors")
    assert torch.equal(load_file(tmp_path / "b.safetensors")["text.weight"], before["text.weight"])


def test_weights_that_were_moved_are_shared_again_and_shells_share_none() -> None:
    model, lease = Model(), mapped.Lease()
    told = lease.share(model)
    model.text.weight.data = model.text.weight.data.clone()  # to a device, and back
    assert "text.weight" not in shared(model) and lease.share(model) is told and "text.weight" in shared(model)
    assert lease.share(shell.weightless(model)) is told
    assert mapped.Lease().share(Model().to("meta")) == {}


def test_a_rank_whose_weights_are_others_or_whose_host_has_gone_keeps_the_file_s() -> None:
    model, lease = Model(), mapped.Lease()
    told = lease.share(model)
    other = Model().half()
    assert not mapped.take(other, told)
    late = Model()
    assert not mapped.take(late, {**told, "inode": 1})  # another file has its number
    del lease  # and its file with it
    assert not mapped.take(late, told)
    assert shared(other) == shared(late) == set() and len(shared(model)) == 6


def test_what_begins_anywhere_in_a_message_begins_in_a_rank_where_torch_s_own_tensors_do() -> None:
    room = torch.arange(64.0)
    odd, even = room[2:40], room[16:40]
    assert odd.data_ptr() % 64 and not even.data_ptr() % 64
    told = {"x": odd, "context": {KEEP: 1, "value": odd}, "y": even}
    here = _here(told, held := Held(base=None), torch.device("cpu"), {})
    assert all(each.data_ptr() % 64 == 0 for each in here.values()) and here["y"].data_ptr() == even.data_ptr()
    assert torch.equal(here["x"], odd) and held.kept[1] is here["context"] is here["x"]


# ---- who asks for a model


@pytest.fixture
def forgotten() -> Iterator[Any]:
    event = threading.Event()
    yield event
    mapped.LEASES.clear()


def test_a_model_is_forgotten_when_its_loader_s_and_all_shells_have_gone(forgotten: Any) -> None:
    loaded: Any = types.SimpleNamespace()
    lease_of(loaded, "a", forgotten.set)
    made = types.SimpleNamespace(**vars(loaded))  # a shell has what the loader's model has
    again: Any = types.SimpleNamespace()
    lease_of(again, "a", lambda: pytest.fail("one is asked for"))
    del loaded
    del again
    gc.collect()
    assert not forgotten.wait(0.1)
    del made
    assert forgotten.wait(10)


def test_what_is_loaded_anew_is_not_forgotten(monkeypatch: pytest.MonkeyPatch, forgotten: Any) -> None:
    begun: list[Callable[[], None]] = []
    thread = lambda target, daemon: types.SimpleNamespace(start=lambda: begun.append(target))  # noqa: E731
    monkeypatch.setattr(mapped.threading, "Thread", thread)
    loaded: Any = types.SimpleNamespace()
    lease_of(loaded, "a", forgotten.set)
    del loaded
    again: Any = types.SimpleNamespace()
    lease_of(again, "a", forgotten.set)
    [begin] = begun
    begin()
    assert not forgotten.is_set()
    del again
    begun[1]()
    assert forgotten.is_set()


def test_a_rank_forgets_one_model_and_what_may_have_left_the_device_for_it() -> None:
    def hold(*names: str) -> None:
        HELD.clear()
        clone = types.SimpleNamespace(detach=lambda: None)
        HELD.update({f'{{"name": "{name}"}}': Held(base=None, clone=clone) for name in names})

    def left(name: str) -> list[str]:
        forget({"recipe": {"name": name}}, SILENT, Seat(rank=0, num_ranks=1, device="cpu"))
        return [key[-3] for key in HELD]

    hold("a", "b")
    assert left("a") == ["b"] and left("x") == ["b"] and left("b") == []
    hold("a", "b")
    assert left("b") == []
    assert on_rank.MOST_HELD == 2


def test_ranks_are_counted_again_after_a_run_that_asked_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(border, "count_ranks", lambda: counted.append(1))
    at = Border(Place(devices=("cpu", "cpu"), plan="ulysses=2"), ParallelPlan(ulysses=2), {})
    at.num_asked = 3
    assert at.sample(lambda: "latents") == "latents" and counted == [1]


# ---- the shell


class Patcher:
    """A patcher of ComfyUI, as far as a shell changes it."""

    def __init__(self, model: Any, load_device: Any = None, offload_device: Any = None) -> None:
        self.model, self.load_device, self.offload_device, self.parent = model, load_device, offload_device, None
        self.loaded: list[str] = []
        self.cached_patcher_init: Any = None

    def clone(self, model_override: Any = None) -> "Patcher":
        found = type(self)(model_override[0] if model_override else self.model)
        found.parent = self  # pyrefly: ignore[bad-assignment]
        return found

    def _load_list(self) -> list[Any]:
        rows = [(name, each, dict(each.named_parameters(recurse=False))) for name, each in self.model.named_modules()]
        return [(1, *row) for row in rows if row[2]]

    def load(self, device_to: Any, most: float, full_load: bool = False) -> None:
        assert not full_load
        self.loaded = [row[1] for row in self._load_list() if most > 0]

    def unpatch_model(self, device_to: Any, unpatch_weights: bool) -> None:
        assert device_to is None

    def detach(self, unpatch_all: bool = True) -> None:
        pass


@pytest.fixture
def patcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Patcher]:
    monkeypatch.setitem(sys.modules, "comfy", types.ModuleType("comfy"))
    monkeypatch.setitem(sys.modules, "comfy.model_patcher", types.SimpleNamespace(ModelPatcher=Patcher))
    shell._shell_class.cache_clear()
    shell._counted.cache_clear()
    model = nn.Module()
    model.diffusion_model = Model()
    yield Patcher(model)
    shell._shell_class.cache_clear()
    shell._counted.cache_clear()


def test_a_shell_keeps_what_the_host_computes_with_and_no_copy_of_it(patcher: Patcher) -> None:
    found = shell.shell_of(patcher, lambda: 1000)
    mine, theirs = found.model.diffusion_model, patcher.model.diffusion_model
    assert {name for name, each in mine.named_parameters() if not each.is_meta} == {"text.weight", "text.bias"}
    assert mine.text.weight.data_ptr() == theirs.text.weight.data_ptr() and mine.text.weight is not theirs.text.weight
    x = torch.randn(2, 4)
    assert torch.equal(mine.preprocess_text_embeds(x), theirs.preprocess_text_embeds(x))
    assert mine.table.is_meta and not theirs.table.is_meta and found.parent is None
    assert found.model_size() == 1000 + 80 and found.clone().model_size() == 1080


def test_a_shell_loads_and_unloads_only_what_it_has(patcher: Patcher) -> None:
    found = shell.shell_of(patcher, lambda: 0)
    found.load("cpu", lowvram_model_memory=0, full_load=True)
    assert found.loaded == ["diffusion_model.text"]
    found.unpatch_model("cpu")
    assert found.model.device == "cpu" and found.model.diffusion_model.table.is_meta


def test_pools_end_with_the_model_that_stands_for_them_and_not_as_it_is_counted_anew(
    patcher: Patcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "comfy.model_management", types.SimpleNamespace(get_torch_device=lambda: "cpu"))
    sys.modules["comfy"].__dict__["model_management"] = sys.modules["comfy.model_management"]
    closed: list[int] = []
    monkeypatch.setattr(shell, "POOLS", types.SimpleNamespace(close_idle=lambda: closed.append(1)))
    ranks = shell._counted()
    ranks.detach(unpatch_all=False)
    assert closed == []
    ranks.detach()
    assert closed == [1]
