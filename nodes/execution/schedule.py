"""What a run will do, known before it starts: which nodes its results need, in which order, and their keys.

The *key* of a node is a hash of its type, its inputs, the keys of the nodes that feed it and the fingerprints of the
files that it reads: the recipe of its result.
"""

import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ...parallel.progress import SILENT, Progress
from ...parallel.wording import worded
from ...pipelines.models.describe import torch_accelerators
from ...pipelines.place import names_plan
from ...pipelines.values import Depth
from ..files.workspace import Workspace
from ..graph.check import ensure
from ..graph.graph import Graph, in_order
from ..graph.problems import Names, refuse
from ..graph.ready import Ready, left_out
from ..graph.resolve import Resolved, resolve
from ..graph.unfolding.unfolded import made_in
from ..preview.carried import plans_of, rows_of
from ..preview.meant import Meant, brought, meant
from ..preview.walk import Walk, refused
from ..steps.denoising import noise_recipe
from .failure import NodeFailed
from .models_used import ModelFacts, models_of

logger = logging.getLogger("latentloom")


def recipe_keys(
    order: Iterable[str],
    nodes: Mapping[str, Resolved],
    fingerprints: Mapping[str, str],
    depths: Mapping[str, Depth],
    plans: Mapping[str, str],
    rows: Mapping[str, int],
    drawn: Collection[str] = frozenset(),
) -> dict[str, str]:
    """The key of every node in `order`, which lists each node after those that feed it; `drawn` are those that draw
    other noise than diffusers would."""
    keys: dict[str, str] = {}
    for name in order:
        node = nodes[name]
        links = [(socket, keys[link.node], link.socket) for socket, link in node.links.items()]
        version, values = node.spec.recipe(node.values) if node.spec.recipe else (node.spec.version, node.values)
        row = f"rows={rows[name]}" if name in rows else ""
        noise = "noise=seed" if name in drawn else ""
        more = node.spec.origin, depths.get(name), plans.get(name), row, noise
        # Values are scalars, whose repr says everything; JSON takes three times as long. What a node has not leaves no
        # trace, so that keys of older results stay.
        recipe = (node.spec.id, version, values, links, fingerprints.get(name, ""), *filter(None, more))
        keys[name] = hashlib.sha256(repr(recipe).encode(errors="backslashreplace")).hexdigest()
    return keys


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The needed nodes of a checked graph."""

    order: tuple[str, ...]
    nodes: Mapping[str, Resolved]
    sources: Mapping[str, tuple[str, ...]]  # which nodes feed each node, each once
    # (node, output) of each result that the caller gets, by the name of the output or node; of a node that is asked
    # for by its own name the output is empty: all that it gives.
    results: Mapping[str, tuple[str, str]]
    targets: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Schedule(Needs):
    """With the keys under which their results are kept."""

    keys: Mapping[str, str]
    depths: Mapping[str, Depth]  # of the pixels that a node gives, where it is not floats
    # Of a denoise whose result is another by its plan, which the run or an older result asks for.
    plans: Mapping[str, str]
    # Nodes whose fingerprint depends on a value that is not known yet, and what they feed: always run.
    uncached: frozenset[str]
    brought: Meant  # what wires bring that is known before, for nodes that are not asked because their results are kept
    values: Meant  # what 0, "" and "auto" mean in this run, by node and socket, as far as it is known
    models: Mapping[str, ModelFacts]  # the model that a node gives, where it gives one that is known


def schedule(
    ready: Ready,
    *,
    workspace: Workspace,
    targets: Collection[str] | None = None,
    progress_of: Callable[[str], Progress] = lambda name: SILENT,
) -> Schedule:
    """Check and order a workflow. Raises `GraphError`, or `NodeFailed` when a file that a node names cannot be read, or
    the node asks its model for what that does not take. Where a denoise's plan needs a machine that nobody measured,
    that is done now, for seconds: `progress_of` its name hears of it, and may end it by `Cancelled`."""
    needs = needs_of(ready, targets)
    walk = Walk(ready, workspace=workspace, accelerators=torch_accelerators)
    for problem in refused(walk, frozenset(needs.order)):
        if problem.kind == "error":
            node = needs.nodes[problem.node]
            raise NodeFailed(problem.node, node.spec, node.node.title, ValueError(problem.message), workspace.host)
    fingerprints, uncached = _fingerprints(needs, workspace)
    depths, denoises = depths_of(needs), [n for n in needs.order if needs.nodes[n].spec.denoises]
    plans, rows = plans_of(walk, denoises, progress_of), rows_of(walk, needs.order)
    # Of `auto` nothing is in a key: what it takes computes each number by the same sums.
    keyed = {} if names_plan(workspace.place) else plans  # a plan that the run names is in the key of Load Model
    for why in walk.not_carried.values():
        logger.warning("%s", why)
    return Schedule(
        **vars(needs),
        keys=recipe_keys(needs.order, needs.nodes, fingerprints, depths, keyed, rows, drawn_by_seed(walk, needs)),
        depths=depths,
        plans=plans,
        uncached=uncached,
        brought=brought(walk, needs.order),
        values=meant(walk, frozenset(needs.order)),
        models=models_of(walk, needs.order),
    )


def needs_of(ready: Ready, targets: Collection[str] | None = None) -> Needs:
    """What a run needs, of a workflow that is checked first. Raises `GraphError`."""
    ensure(ready)
    return needs_of_checked(ready, targets)


def needs_of_checked(ready: Ready, targets: Collection[str] | None = None) -> Needs:
    """`needs_of` a workflow in which the checker has found nothing. Raises `GraphError` where all is switched off."""
    graph, types = ready.graph, ready.types
    results = _results(graph, ready.written, targets)
    acting = {name for name, node in graph.nodes.items() if targets is None and types[node.type].is_output}
    nodes = resolve(graph, ready.specs)
    wanted = frozenset({*(node for node, _ in results.values()), *acting})
    if not wanted and len(graph.nodes) < len(ready.written.nodes):
        message = "nothing is left to run, because all outputs are muted or need a muted node; let one of them run"
        raise refuse("nothing_to_run", message)
    found: dict[str, tuple[str, ...]] = {}
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = tuple(dict.fromkeys(link.node for link in nodes[name].links.values()))
            waiting.extend(found[name])
    # the file's order decides between nodes that are free to come in any order
    sources = {name: found[name] for name in nodes if name in found}
    return Needs(order=tuple(in_order(sources)), nodes=nodes, sources=sources, results=results, targets=wanted)


def depths_of(needs: Needs) -> dict[str, Depth]:
    """Which nodes give pixels as bytes: those that can, and whose every use in this run takes them so."""
    floats = {node for node, _ in needs.results.values()}
    for name in needs.order:
        node = needs.nodes[name]
        links = ((socket, link.node) for socket, link in node.links.items())
        floats.update(source for socket, source in links if socket not in node.spec.takes_bytes)
    return {name: "bytes" for name in needs.order if "depth" in needs.nodes[name].spec.injected and name not in floats}


def drawn_by_seed(walk: Walk, needs: Needs) -> frozenset[str]:
    """Which nodes draw other noise than diffusers would: in fp32, for a model that is not known to work in it."""
    drawn: set[str] = set()
    for name in needs.order:
        node = needs.nodes[name]
        if node.spec.recipe is not noise_recipe or node.values.get("noise") == "diffusers":
            continue
        model = node.spec.input("model")
        with contextlib.suppress(ValueError):  # the model is not known before the run
            if model is not None and walk.value(name, model)[0].dtype == "fp32":
                continue
        drawn.add(name)
    return frozenset(drawn)


def _results(graph: Graph, whole: Graph, targets: Collection[str] | None) -> dict[str, tuple[str, str]]:
    """A target is the name of an output or of a node; an output comes first. `whole` has the nodes left out, too.

    Of a node that was unfolded it is what nothing inside uses, and of an output of a for-each what each element gives.
    """
    if targets is None:
        return {name: (link.node, link.socket) for name, link in graph.outputs.items()}
    results: dict[str, tuple[str, str]] = {}
    for target in targets:
        if target in graph.outputs:
            results[target] = (graph.outputs[target].node, graph.outputs[target].socket)
        elif target in graph.nodes:
            results[target] = (target, "")
        elif found := made_in(target, graph):
            results |= found
        elif target in whole.outputs or target in whole.nodes:
            raise left_out(whole, whole.outputs[target].node if target in whole.outputs else target)
        else:
            hint = Names().offer(target, [*graph.outputs, *graph.nodes])
            raise refuse("unknown_target", worded("{!r} is no output or node of this workflow; {}", target, hint))
    return results


def _fingerprints(needs: Needs, workspace: Workspace) -> tuple[dict[str, str], frozenset[str]]:
    prints: dict[str, str] = {}
    uncached: set[str] = set()
    for name in needs.order:
        node = needs.nodes[name]
        if not uncached.isdisjoint(needs.sources[name]):
            uncached.add(name)
        # What a node writes is part of what it gives: into another folder, or with another workflow in it, it is
        # written again.
        writes = node.spec.is_output and "workspace" in node.spec.injected
        where = f"{workspace.output_dir.resolve()} {sorted(workspace.metadata.items())}" if writes else ""
        if node.spec.fingerprint is None:
            prints[name] = where
            continue
        try:
            prints[name] = where + node.spec.fingerprint(node.values, workspace)
        except KeyError:  # it needs a linked value, so that a key of today says nothing of tomorrow's
            prints[name] = secrets.token_hex(16)
            uncached.add(name)
        except Exception as error:
            raise NodeFailed(name, node.spec, node.node.title, error, workspace.host) from error
    return prints, frozenset(uncached)
