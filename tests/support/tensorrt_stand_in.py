"""A stand-in for Torch-TensorRT: its backend of torch.compile takes every operator but those that are to stay torch's.

What it takes is cut out of a block's graph and runs as it is: an engine of the stand-in. As in Torch-TensorRT, fewer
than five operators are none, and each engine is asked for in the cache of engines before it is built.
"""

import contextlib
import importlib
import operator
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo
from torch import Tensor, fx
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.split_module import split_module

from latentloom.pipelines.components import tensorrt

LEAST_OPERATORS = 5


@dataclass
class Graphs:
    """What was made of the graphs that came."""

    engines: list[int] = field(default_factory=list[int])  # of each graph
    left: Counter[str] = field(default_factory=Counter[str])  # operators outside engines, in all graphs
    keys: list[str] = field(default_factory=list[str])
    num_built: int = 0


@contextlib.contextmanager
def stand_in(folder: Path) -> Iterator[Graphs]:
    """`torch_tensorrt` can be imported meanwhile, and keeps its engines in this folder."""
    found, cache, others = Graphs(), tensorrt.Engines(folder), registry.lookup_backend

    def build(graph: fx.GraphModule, inputs: Sequence[Tensor], *, options: Mapping[str, Any]) -> Callable[..., Any]:
        def split(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            return _split(graph, options, found)

        return aot_autograd(fw_compiler=split)(graph, inputs)

    def lookup(backend: Any) -> Callable[..., Any]:
        return build if backend == "torch_tensorrt" else others(backend)

    module, imported = types.ModuleType("torch_tensorrt"), importlib.import_module

    def find(name: str, package: str | None = None) -> types.ModuleType:
        return module if name == "torch_tensorrt" else imported(name, package)

    with (
        patch.object(importlib, "import_module", find),
        patch.object(tensorrt, "engines", lambda: cache),
        patch.object(registry, "lookup_backend", lookup),
    ):
        torch._dynamo.reset()
        tensorrt._why_none.cache_clear()
        yield found
        tensorrt._why_none.cache_clear()
        torch._dynamo.reset()


def _split(graph: fx.GraphModule, options: Mapping[str, Any], found: Graphs) -> Callable[..., Any]:
    places = _places(graph, options["torch_executed_ops"])
    sizes = Counter(places.values())
    engines = [place for place in sorted(sizes) if place % 2 == 0 and sizes[place] >= LEAST_OPERATORS]
    left = [node for node, place in places.items() if place not in engines and not _is_part(node)]
    found.left.update(str(node.target) for node in left)
    found.engines.append(len(engines))
    whole = split_module(graph, graph, lambda node: places[node])
    cache = options["custom_engine_cache"]
    for engine in (whole.get_submodule(f"submod_{place}") for place in engines):
        specs = [
            str(getattr(node.meta["val"], "shape", "a number")) for node in engine.graph.find_nodes(op="placeholder")
        ]
        key = cache.get_hash(engine, specs, None)
        found.keys.append(key)
        if cache.check(key) is None:
            found.num_built += 1
            cache.insert(key, (key.encode(), ["in"], ["out"], specs, None, False, False))
    return whole.forward


def _places(graph: fx.GraphModule, by_torch: frozenset[str]) -> dict[fx.Node, int]:
    """Of each operator an even number, the same for all that one engine may hold, or an odd one where it is torch's."""
    places: dict[fx.Node, int] = {}
    for node in (each for each in graph.graph.nodes if each.op == "call_function"):
        before = [places[each] for each in node.all_input_nodes if each in places]
        if _is_part(node):
            places[node] = before[0]
            continue
        level = max((place + place % 2 for place in before), default=0)
        places[node] = level + (f"torch.ops.{node.target}" in by_torch)
    return places


def _is_part(node: fx.Node) -> bool:
    """Of a tuple that an operator gave: it goes with that one."""
    return node.target is operator.getitem
