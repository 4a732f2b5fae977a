"""Stand-ins for ComfyUI's classes that are asked for several conditionings at once, by plans with cfg."""

import copy
import os
import tempfile
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bodies import native
from bodies.foreign import WIDTH
from bodies.meshes import by_plan
from bodies.rank import bits
from latentloom.nodes.hosts.native import checked
from latentloom.nodes.hosts.native.rows import share_rows
from latentloom.nodes.hosts.native.splits.plans import FLUX, UNET
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


class LikeUNet(nn.Module):
    """Convolutions with a skip, halved once; residuals are popped off their lists, and of another size refused. Of a
    video, frames are rows, each of which sees those of its own."""

    mixes = False

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.time_embed = nn.Linear(1, WIDTH)
        layers = nn.Conv2d(4, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, 2, padding=1)
        self.input_blocks = nn.ModuleList(nn.Sequential(each) for each in layers)
        self.output_blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(2 * WIDTH, WIDTH, 3, padding=1))])
        self.out = nn.Conv2d(WIDTH, 4, 3, padding=1)

    def forward(self, x: Tensor, timesteps: Tensor, y: Tensor, control: Any = None, **more: Any) -> Tensor:
        first = self.input_blocks[0][0](x) + (self.time_embed(timesteps[:, None]) + y)[:, :, None, None]
        h = self.input_blocks[1][0](first)
        if control is not None:
            h = h + control["middle"].pop()
            first = first + control["output"].pop()
        if "num_video_frames" in more:
            frames = h.unflatten(0, (-1, more["num_video_frames"]))
            h = (frames + frames.mean(1, keepdim=True)).flatten(0, 1)
        h = h - h.mean(0, keepdim=True) if self.mixes else h
        h = F.interpolate(h, size=first.shape[-2:])
        return self.out(self.output_blocks[0][0](torch.cat([h, first], 1)))


class MixingUNet(LikeUNet):
    mixes = True


def unet_call(count: int, *, frames: int = 1, has_control: bool = False) -> dict[str, Any]:
    rows, draw = count * frames, torch.Generator().manual_seed(8)
    call: dict[str, Any] = {"x": torch.randn(rows, 4, 17, 13, generator=draw), "timesteps": torch.full((rows,), 0.7)}
    call["y"] = torch.randn(rows, WIDTH, generator=draw)
    if has_control:
        small, large = (torch.randn(rows, WIDTH, *size, generator=draw) for size in ((9, 7), (17, 13)))
        call["control"] = {"middle": [small], "output": [large]}
    return call | ({"num_video_frames": frames} if frames > 1 else {})


def of_unets(rank: int, plan: str) -> list[tuple[str, float]]:
    """Collective: of stand-ins without tokens, the last of them wrong: what the check at first use says, and how far
    rows by the plan are from all at once."""
    found, mesh = [], mesh_for(ParallelPlan.parse(plan))
    calls = unet_call(4), unet_call(8, has_control=True), unet_call(4, frames=3), unet_call(4)
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, {"XDG_CACHE_HOME": home, VARIABLE: "1"}):
        for number, call in enumerate(calls):
            model = (MixingUNet if number == 3 else LikeUNet)().eval().requires_grad_(False)
            whole = model(**copy.deepcopy(call))
            handle = shard(model, UNET, mesh)
            share_rows(handle)
            out = model(**copy.deepcopy(call))
            try:
                how: dict[str, Any] = {"split": UNET, "mesh": mesh, "device": "cpu", "progress": Told()}
                said = checked.check_first_use(model, call, **how)
            except NotTheSame as error:
                said = str(error)
            handle.remove()
            found.append((said, float((out - whole).abs().max() / whole.abs().max())))
        checked._known.clear()
    return found
