"""What of a denoise waits for the device, step by step, on a GPU that is none; under a plan, as one rank sees it."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch.distributed as dist

from latentloom.parallel import mesh as meshes
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import Preview, Progress
from latentloom.pipelines import stages
from latentloom.pipelines.components import store as components
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.values import Latents
from support.fake_gpu import GPU, FakeGpu, fake_gpu, moved
from support.launches import lone_rank

Waits = Counter[tuple[str, str]]


class Steps(Progress):
    """The waits of each step."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.each: list[Waits] = []

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self.each.append(Counter(self.gpu.waits))
        self.gpu.waits.clear()


def denoised(request: Mapping[str, Any], plan: str = "") -> tuple[list[Waits], Latents]:
    """The waits of each step of a denoise, by what waits and whose line it is, and what it makes; under a plan those of
    rank 0, to which its peers, who do not exist, say what it says itself."""
    given = {**request, "model": {**request["model"], "device": str(GPU), "graphs": "off"}}
    load, own = components.load_component, ComponentStore()

    def loaded(files: Any, *, device: str = "cpu", readers: Any = None, **options: Any) -> Any:
        component = load(files, **options)
        return moved(component) if device == str(GPU) else component

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(components, "load_component", loaded))
        stack.enter_context(mock.patch.object(stages, "store", lambda: own))
        if plan:
            stack.enter_context(_planned(plan))
            given["plan"] = ParallelPlan.parse(plan)
        steps = Steps(stack.enter_context(fake_gpu()))
        made = stages.denoise(given, steps)
    return steps.each, made


def later(each: list[Waits]) -> Waits:
    """Of all steps after the first."""
    return sum(each[1:], Counter())


@contextlib.contextmanager
def _planned(plan: str) -> Iterator[None]:
    """`mesh_for` gives a mesh whose other ranks do not exist; what they would have computed is not looked at."""
    with lone_rank(plan) as mesh, mock.patch.object(stages, "check_finite", lambda *_, **__: None):
        meshes._kept[dist.group.WORLD] = {mesh.plan: dataclasses.replace(mesh, voters=dist.group.WORLD)}
        yield
