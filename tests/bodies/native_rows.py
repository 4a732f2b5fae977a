"""Stand-ins for ComfyUI's classes that are asked for several conditionings at once, by plans with cfg."""

import os
import tempfile
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from bodies import native
from bodies.foreign import WIDTH
from bodies.meshes import by_plan
from bodies.rank import bits
from latentloom.nodes.hosts.native import checked
from latentloom.nodes.hosts.native.rows import share_rows
from latentloom.nodes.hosts.native.splits.plans import FLUX
from latentloom.parallel.mesh import Mesh, mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.shard import shard
from latentloom.pipelines.selfcheck.first_use import VARIABLE, NotTheSame
from support.told import Told


class WithTable(native.LikeFlux):
    """A table of two positions, which is as long as a batch of two and none."""

    def forward(self, x: Tensor, context: Tensor, ref_latents: Any = None, control: Any = None, **more: Any) -> Tensor:
        return super().forward(x, context * more["positions"].sum(0))


class Mixing(native.LikeFlux):
    """Looks at all rows for each."""

    def forward(self, x: Tensor, context: Tensor, ref_latents: Any = None, control: Any = None, **more: Any) -> Tensor:
        return super().forward(x, context - context.mean(0, keepdim=True))


def in_rows(value: Any, count: int) -> Any:
    """A call of one row for so many, each another."""
    if isinstance(value, Tensor):
        return torch.cat([value.roll(number, -1) for number in range(count)])
    if isinstance(value, dict):
        return {name: in_rows(each, count) for name, each in value.items()}
    return [in_rows(each, count) for each in value] if isinstance(value, list) else value


@by_plan
def answers(rank: int, mesh: Mesh, count: int) -> dict[str, tuple[float, Any, int]]:
    """Collective: how far so many rows by the plan are from all at once, their bits, and the bytes of this rank."""
    found = {}
    with torch.no_grad():
        for name, (model, split, given) in native.cases().items():
            if not name.startswith("wrong"):
                given = in_rows(given, count)
                whole = model(**given)
                handle = shard(model, split, mesh)
                share_rows(handle)
                before = mesh.sent.sent_bytes
                out = model(**given)
                sent = mesh.sent.sent_bytes - before
                handle.remove()
                assert torch.equal(model(**given), whole)
                found[name] = float((out - whole).abs().max() / whole.abs().max()), bits([out]), sent
    return found


def first_uses(rank: int, plan: str, asked: list[tuple[str, int]]) -> list[tuple[str, list[str]]]:
    """Collective: what is said of classes that are asked for so many rows, and what is told meanwhile."""
    torch.manual_seed(6)
    kinds = {"plain": native.LikeFlux, "table": WithTable, "mixing": Mixing}
    given = {"x": torch.randn(1, WIDTH // 4, 22, 26), "context": torch.randn(1, 9, WIDTH)}
    found, mesh = [], mesh_for(ParallelPlan.parse(plan))
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, {"XDG_CACHE_HOME": home, VARIABLE: "1"}):
        for name, count in asked:
            call, progress = in_rows(given, count), Told()
            if name == "table":
                call["positions"] = torch.tensor([[0.3], [0.9]])
            how: dict[str, Any] = {"split": FLUX, "mesh": mesh, "device": "cpu", "progress": progress}
            try:
                said = checked.check_first_use(kinds[name](), call, **how)
            except NotTheSame as error:
                said = str(error)
            found.append((said, progress.phases))
        checked._known.clear()
    return found
