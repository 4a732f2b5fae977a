"""Whether a plan gives a class of ComfyUI what one device gives, asked in ranks at the first use of both.

A plan that forgets one argument is wrong on all ranks alike, and nothing tells: so none is believed that was not tried
with this version of ComfyUI and this kind of inputs. What is tried is a *twin* of the model that is at hand: its own
modules and settings, at its own width, with two blocks and random weights that share their memory, in fp32. It is
asked, sharded and whole, with inputs of the same kinds at a size of a few odd rows and columns.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import logging
import math
import os
import statistics
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .... import __version__
from ....parallel.mesh import Mesh
from ....parallel.progress import Progress, title_of
from ....parallel.sharding.hooks import modules_at
from ....parallel.sharding.shard import shard
from ....parallel.sharding.split_plan import SplitPlan
from ....parallel.together import highest
from ....pipelines.selfcheck.first_use import VARIABLE, NotTheSame, keep, kept
from ....pipelines.selfcheck.passes import Verdict, self_check
from .rows import carrying, share_rows
from .small import small_of
from .splits.plans import name_of

LARGE = 1 << 26  # numbers that weights share; a linear layer with more of them takes the same more than once
BLOCKS = 2  # of a twin, of each kind; one of each list where there are several
PERIOD = 4194301  # random numbers, a prime, so that no two rows of a weight are alike

logger = logging.getLogger("latentloom")
# What the ranks of a process group know of verdicts already, all alike; gone with the group.
_known: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()


def check_first_use(
    model: nn.Module,
    given: Mapping[str, Any],
    *,
    split: SplitPlan,
    mesh: Mesh,
    device: str,
    progress: Progress,
    patches: tuple[str, ...] = (),
) -> str:
    """Collective: what is known of the mesh's plan with this class and such inputs here, as a line for people; tried
    now if that is nothing. `given` are the arguments of a call by their names, `patches` what kinds the model carries.

    The model itself may be sharded by now, and stays as it is. Raises `NotTheSame` on all ranks where the plan gives
    another result.
    """
    if mesh.plan.num_ranks == 1:
        return ""
    key, known = _key(model, given, mesh, device, patches), _known.setdefault(mesh.voters, {})
    if key not in known:
        title, found = type(model).__name__, kept(key)
        is_open = found is None or found.state == "refused" or not found.is_lasting
        is_lacking, is_off = highest(mesh, int(is_open), int(os.environ.get(VARIABLE) == "0"))
        if is_lacking and not is_off:
            progress.phase("checking the plan against one device")
            keep(Verdict(state="unproven", why="a check was begun here, and did not come to its end"), key)
            found = _tried(model, given, split, mesh, device)
            keep(found, key)
            if found.state == "refused":
                remedy = f"choose another plan, or sample it on one device ({VARIABLE}=0 goes on regardless)"
                raise NotTheSame(f"plan {mesh.plan}: {title}: {found.why}; {remedy}")
        known[key] = "" if is_off else str(found)
        if not mesh.rank and not is_off and found is not None and found.state == "unproven":
            logger.warning("plan %s: %s: %s", mesh.plan, title, found)
    return known[key]


def _tried(model: nn.Module, given: Mapping[str, Any], split: SplitPlan, mesh: Mesh, device: str) -> Verdict:
    """Collective: what a twin gives by the plan, and whole."""
    title, made = type(model).__name__, functools.cache(lambda: twin_of(model, split, device))
    where = carrying(given)

    @contextlib.contextmanager
    def sharded() -> Iterator[dict[str, nn.Module]]:
        handle = shard(made(), split, mesh)
        share_rows(handle, where)
        yield {title: made()}
        if mesh.plan.weights > 1:  # shared out for good
            made.cache_clear()
        else:
            handle.remove()

    @contextlib.contextmanager
    def whole() -> Iterator[dict[str, nn.Module]]:
        yield {title: made()}

    small = small_of(model, given, mesh.plan.sequence, rows=mesh.plan.cfg)

    def asked(parts: Mapping[str, Any]) -> Any:
        if hasattr(parts[title], "clear_kv_cache"):
            parts[title].clear_kv_cache()  # what a pass before kept of the prompt
        return parts[title](**small)

    return self_check(asked, mesh=mesh, sharded=sharded, whole=whole, split=split)


# ---- the twin


def twin_of(model: nn.Module, split: SplitPlan, device: str) -> nn.Module:
    """The same modules with two blocks and random weights, the same in every process; of the model nothing is changed,
    and what is set on it from outside (hooks, forwards) is left out."""
    weights = [each for each in model.parameters() if each.ndim > 1]
    # So wide as most layers are: there numbers stay about as large as they are, and all inputs count in what comes out.
    width = statistics.mode(each.shape[1:].numel() for each in weights)
    draws = torch.randn(PERIOD, generator=torch.Generator().manual_seed(0)).div_(width**0.5).to(device)
    largest = min(LARGE, max(each.numel() for each in weights))
    room = draws.repeat(-(-largest // PERIOD) + 1)
    blocks = {each for path in split.blocks for each in modules_at(model, path, type(model).__name__)}
    holders = [each for each in model.modules() if isinstance(each, nn.ModuleList | nn.ModuleDict)]
    lists = [[block for block in each.children() if block in blocks] for each in holders]
    most = max(1, BLOCKS // max(1, sum(len(some) > 1 for some in lists)))
    # Of each list the first of each kind: the stages of Stable Cascade have three in turn.
    left_out = {
        each for some in lists for n, each in enumerate(some) if [*map(type, some[:n])].count(type(each)) >= most
    }
    methods = {end.partition(":")[2] for end in split.processors}  # of a model that is sharded by now
    return _Twin(room, left_out, device, methods).of(model)


class _Twin:
    """Copies modules, with weights that are views of the same numbers, each from another place on."""

    def __init__(self, room: Tensor, left_out: set[nn.Module], device: str, methods: set[str]) -> None:
        self._room, self._left_out, self._device, self._methods, self._num_made = room, left_out, device, methods, 0

    def of(self, module: nn.Module) -> nn.Module:
        twin = module.__new__(type(module))
        for name, value in vars(module).items():  # classes cast to the format that they are told
            vars(twin)[name] = torch.float32 if isinstance(value, torch.dtype) else value
            if isinstance(value, OrderedDict) and "_hooks" in name:
                vars(twin)[name] = OrderedDict()
        for name in ("weight_function", "bias_function"):  # what LoRAs do to weights that are brought for a call
            if name in vars(module):
                setattr(twin, name, [])
        for name in self._methods:
            vars(twin).pop(name, None)
        entry = vars(twin).pop("forward", None)
        if getattr(entry, "__self__", None) is module:  # by another method of its own
            vars(twin)["forward"] = types.MethodType(entry.__func__, twin)
        made: dict[str, tuple[Mapping[str, Any], Callable[[Any], Any]]] = {
            "_parameters": (module._parameters, self._weight),
            "_buffers": (module._buffers, self._weight),
            "_modules": (module._modules, self.of),
        }
        for kind, (values, make) in made.items():
            kept = {name: each for name, each in values.items() if each not in self._left_out}
            vars(twin)[kind] = {name: None if each is None else make(each) for name, each in kept.items()}
        weight = module._parameters.get("weight")
        if weight is None or weight.numel() <= LARGE:
            return twin
        rows = LARGE // weight.shape[1]
        if hasattr(module, "num_embeddings"):
            vars(twin)["forward"] = functools.partial(_looked_up, self._drawn(rows, weight.shape[1]))
        if hasattr(module, "in_features"):
            sizes = [min(rows, weight.shape[0] - start) for start in range(0, weight.shape[0], rows)]
            parts = [self._drawn(size, weight.shape[1]) for size in sizes]
            vars(twin)["_parameters"]["weight"] = nn.Parameter(parts[0], requires_grad=False)
            vars(twin)["forward"] = functools.partial(_by_parts, twin, parts)
        return twin

    def _weight(self, value: Tensor) -> Tensor:
        """Norms, biases and buffers have their own numbers."""
        is_weight = isinstance(value, nn.Parameter)
        if is_weight and value.ndim > 1:
            new = self._drawn(*value.shape) if value.numel() <= LARGE else self._drawn(1, 1)  # `of` has it by parts
        else:
            new = value.detach().to(self._device)
            new = new.float() if new.is_floating_point() else new
        return nn.Parameter(new, requires_grad=False) if is_weight else new

    def _drawn(self, *shape: int) -> Tensor:
        self._num_made += 1
        start = self._num_made * 65537 % PERIOD
        return self._room[start : start + math.prod(shape)].view(shape)


def _by_parts(layer: Any, parts: list[Tensor], x: Tensor) -> Tensor:
    """A linear layer whose weight is never in memory whole."""
    out = torch.cat([F.linear(x, each) for each in parts], -1)
    return out if layer.bias is None else out + layer.bias


def _looked_up(weight: Tensor, ids: Tensor, **_: Any) -> Tensor:
    """A table that has fewer rows than there are numbers."""
    return F.embedding(ids % len(weight), weight)


# ---- its name


def _key(model: nn.Module, given: Mapping[str, Any], mesh: Mesh, device: str, patches: tuple[str, ...]) -> str:
    """A name for all that a verdict depends on."""
    kind, weights = type(model), [(name, [*each.shape]) for name, each in model.named_parameters()]
    source = Path(inspect.getsourcefile(kind) or "")
    told = [
        name_of(model),
        hashlib.sha256(source.read_bytes()).hexdigest() if source.is_file() else "",
        _version(),
        weights,
        kinds_of({name: value for name, value in sorted(given.items()) if name != "transformer_options"}, mesh),
        sorted(patches),
        [str(mesh.plan), title_of(device)],
        [__version__, torch.__version__],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _version() -> str:
    with contextlib.suppress(ImportError):
        from comfyui_version import __version__ as version

        return version
    return ""


def kinds_of(given: Mapping[str, Any], mesh: Mesh) -> Any:
    """What the arguments of a call are like, and which of them groups of the cfg axis get a share of."""
    return [kind_of(given), sorted(carrying(given)) if mesh.plan.cfg > 1 else []]


def kind_of(value: Any) -> Any:
    """What an argument is like: words as they are, and of tensors how many dims, and which of them are of one."""
    if isinstance(value, torch.Tensor):
        return ["tensor", "float" if value.is_floating_point() else "int", [size > 1 for size in value.shape]]
    if isinstance(value, Mapping):
        return {str(key): kind_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        kinds = {json.dumps(kind_of(each), sort_keys=True) for each in value}
        return [min(len(value), 2), sorted(kinds)]
    return value if value is None or isinstance(value, str | bool) else type(value).__name__
