"""What a rank does with a MODEL that its device has no room for: stand-ins of ComfyUI's patchers, by their rules."""

import copy
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from bodies.native import LikeFlux, cases
from bodies.rank import bits
from latentloom.nodes.hosts.native import on_rank, placed
from latentloom.nodes.hosts.native.patches import TUPLE
from latentloom.nodes.hosts.native.splits import plans
from latentloom.parallel.errors import OutOfMemory
from latentloom.parallel.ranks.seat import Seat
from latentloom.pipelines.components.memory import MEMORY, USABLE_SHARE
from latentloom.pipelines.selfcheck.first_use import VARIABLE
from support.told import Told

KEY = "diffusion_model.double_blocks.1.attn.q.weight"


class Model(LikeFlux):
    lacks = False  # memory, in its forwards

    def forward(self, x: Tensor, context: Tensor, control: Any = None, transformer_options: Any = None) -> Tensor:  # pyrefly: ignore[bad-override]
        out = super().forward(x, context)
        if type(self).lacks:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return out


class Patcher:
    """Clones share a model; what one of them changed is kept, and put back before another changes it."""

    def __init__(self) -> None:
        self.model, self.backup = SimpleNamespace(diffusion_model=Model()), dict[str, Tensor]()
        self.patches, self.load_device = dict[str, Any](), torch.device("cpu")

    def clone(self) -> "Patcher":
        found = copy.copy(self)
        found.patches = {}
        return found

    def add_patches(self, patches: Any) -> None:
        pass

    def model_size(self) -> int:
        return sum(each.nbytes for each in self.model.diffusion_model.parameters())

    def detach(self) -> None:
        for key, weight in self.backup.items():
            self.model.diffusion_model.get_parameter(key.partition(".")[2]).data = weight
        self.backup.clear()

    def patch_weight_to_device(self, key: str, device_to: Any = None) -> None:
        weight = self.model.diffusion_model.get_parameter(key.partition(".")[2])
        self.backup[key] = weight.data
        [(strength, (_, (value,)), *_)] = self.patches[key]
        weight.data = weight.data + strength * value


def load_models_gpu(models: list[Any], force_full_load: bool = False) -> None:
    for each in models:
        each.detach()
        for key in each.patches:
            each.patch_weight_to_device(key, device_to=each.load_device)


@contextmanager
def model(memory: str) -> Iterator[None]:
    """What ranks are asked with, in a rank that may take so much."""
    management = SimpleNamespace(load_models_gpu=load_models_gpu, soft_empty_cache=lambda: None)
    mine: dict[str, Any] = {
        "comfy": SimpleNamespace(model_management=management),
        "comfy.model_management": management,
        "comfy.options": SimpleNamespace(),
        "comfy.weight_adapter": SimpleNamespace(adapters=[]),
    }
    split = {f"{__name__}.Model": plans.FLUX}
    known = {"made": lambda _: Patcher()}
    with (
        patch.dict(sys.modules, mine),
        patch.dict(os.environ, {MEMORY: memory, VARIABLE: "0"}),
        patch.dict(plans.PLANS, split),  # pyrefly: ignore[bad-argument-type]
        patch.multiple(on_rank, **known),
        patch.dict(on_rank.HELD, clear=True),
        patch.multiple(placed, _last={}, _eased={}),
    ):
        yield
        on_rank.make_room(0)


def asked(rank: int, told: Told, *, strength: float = 0.0, recipe: str = "a") -> Tensor:
    value = torch.randn(12, 12, generator=torch.Generator().manual_seed(2))
    row = {"key": KEY, "kind": "", "strength": strength, "of_model": 1.0, "offset": None}
    rows = [{**row, "value": {TUPLE: ["diff", {TUPLE: [value]}]}}] if strength else []
    carried = {"weights": rows, "compute": ""}
    given = cases()["picture"][2]
    request = {
        **{"recipe": {"path": recipe}, "told": f"strength {strength}", "plan": "ulysses=4", "entry": "forward"},
        **{"arguments": given, "options": {}, "left_out": [], "gone": []},
        "setup": {"host": {}, "carried": carried, "shared": {}},
    }
    return on_rank.forward(request, told, Seat(rank=rank, num_ranks=4, device="cpu"))["out"]


def budget(share: float) -> str:
    """For the weights of so much of the model."""
    return f"{math.ceil(share * Patcher().model_size() / USABLE_SHARE) / 1000:.3f}kB"


def sampled(rank: int, share: float) -> dict[str, Any]:
    """Collective: what is sampled with LoRAs, one after the other and beside another model; how many blocks were
    brought, and what was told."""
    told, found, brought = Told(), [], []
    with model(budget(share) if share else ""):
        for strength, name in ((0.0, "a"), (0.0, "a"), (0.5, "a"), (0.3, "a"), (0.0, "a"), (0.5, "b"), (0.3, "a")):
            found.append(asked(rank, told, strength=strength, recipe=name).clone())
            held = next(reversed(on_rank.HELD.values()))
            assert held.placed is not None
            resting = held.placed.resting
            brought.append(resting._streamed.num_brought if resting is not None and resting._streamed else 0)
        others = list(on_rank.HELD.values())[:-1]
        left = [each.placed.resting.num_resident for each in others if each.placed and each.placed.resting]
    return {"bits": bits(found), "brought": brought, "told": told.phases, "left": left}


def lacking(rank: int, share: float) -> list[tuple[str, str]]:
    """Collective: what memory that runs out again and again is answered by, and what is told when it is there again."""
    found = []
    with model(budget(share)), patch.object(Model, "lacks", True):
        for _ in range(5):
            told = Told()
            try:
                asked(rank, told)
            except OutOfMemory as error:
                found.append((error.code, str(error), told.phases[-1]))
        Model.lacks = False
        asked(rank, told := Told())
        found.append(("", "", told.phases[-1]))
    return found
