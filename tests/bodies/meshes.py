"""How ranks of tests come to a mesh: bodies are called on all ranks, and run on those that a plan takes."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from latentloom.parallel.group import Group
from latentloom.parallel.mesh import Mesh
from latentloom.parallel.plan import ParallelPlan
from support.cells import mesh_for

Body = Callable[..., Any]


def group_mesh(plan: str) -> Mesh | None:
    """Collective: the mesh of a plan over the first ranks, None on the others."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(dataclasses.replace(parsed, text="auto"))
    return mesh and dataclasses.replace(mesh, plan=parsed)


def by_plan(body: Body) -> Body:
    """Collective: the body is called with a plan, and has its mesh instead; other ranks than the first give None."""
    at = list(inspect.signature(body).parameters).index("mesh")

    @functools.wraps(body)
    def run(*given: Any) -> Any:
        mesh = group_mesh(given[at])
        return None if mesh is None else body(*given[:at], mesh, *given[at + 1 :])

    return run


def by(plan: str) -> Callable[[Body], Body]:
    """Collective: `by_plan`, of a body that always runs by this plan; its mesh comes behind the rank."""
    return lambda body: functools.wraps(body)(lambda rank, *given: by_plan(body)(rank, plan, *given))


def packing(mesh: Mesh) -> Mesh:
    """The same mesh, on which everything travels as on GPUs: in one buffer."""
    groups = {axis: Group(group.ranks, group.index, group.process_group) for axis, group in mesh.groups.items()}
    for group in groups.values():
        group.packs = True
    return dataclasses.replace(mesh, groups=groups)
