"""Whether a plan gives a class of ComfyUI what one device gives, asked in ranks at the first use of both.

A plan that forgets one argument is wrong on all ranks alike, and nothing tells: so none is believed that was not tried
with this version of ComfyUI and this kind of inputs. What is tried is a *twin* of the model that is at hand: its own
modules and settings, at its own width, with two blocks and random weights that share their memory, in fp32. It is
asked, sharded and whole, with inputs of the same kinds at a size of a few odd rows and columns.
"""

from __future__ import annotations

import contextlib
import copy
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
from typing import TYPE_CHECKING, Any

from .... import __version__
from ....parallel.mesh import Mesh
from ....parallel.progress import Progress, title_of
from ....parallel.sharding.split_plan import SplitPlan
from ....parallel.together import highest
from ....pipelines.selfcheck.first_use import VARIABLE, NotTheSame, keep, kept
from ....pipelines.selfcheck.passes import Verdict, self_check
from .plan_parts import latents_in
from .rows import carrying, share_rows

if TYPE_CHECKING:
    from torch import Tensor, nn

LARGE = 1 << 26  # numbers that weights share; a linear layer with more of them takes the same more than once
BLOCKS = 2  # of a twin; one of each list where there are several
PERIOD = 4194301  # random numbers, a prime, so that no two rows of a weight are alike
TEXT, BATCH, SEQUENCE = 7, 2, 307  # of the inputs that are tried, at most; the last of sound, and of a shape
LEAST = {"PixArtMS": 24, "WanModel_S2V": 8}  # rows of latents without which a class fails
IN_EIGHTHS = (
    "WanDancerModel",
)  # what sound tells a class of a frame it tells of eight parts of it, as long as another
AS_LARGE = ("face_pixel_values",)  # pictures that a class takes in one size only

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
    from ....parallel.sharding.shard import shard

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
    import torch

    from ....parallel.sharding.hooks import modules_at

    weights = [each for each in model.parameters() if each.ndim > 1]
    # So wide as most layers are: there numbers stay about as large as they are, and all inputs count in what comes out.
    width = statistics.mode(each.shape[1:].numel() for each in weights)
    draws = torch.randn(PERIOD, generator=torch.Generator().manual_seed(0)).div_(width**0.5).to(device)
    largest = min(LARGE, max(each.numel() for each in weights))
    room = draws.repeat(-(-largest // PERIOD) + 1)
    blocks = [modules_at(model, path, type(model).__name__) for path in split.blocks]
    most = max(1, BLOCKS // max(1, sum(len(path) > 1 for path in blocks)))
    left_out = {each for path in blocks for each in path[most:]}
    return _Twin(room, left_out, device).of(model)


class _Twin:
    """Copies modules, with weights that are views of the same numbers, each from another place on."""

    def __init__(self, room: Tensor, left_out: set[nn.Module], device: str) -> None:
        self._room, self._left_out, self._device, self._num_made = room, left_out, device, 0

    def of(self, module: nn.Module) -> nn.Module:
        import torch
        from torch import nn

        twin = module.__new__(type(module))
        for name, value in vars(module).items():  # classes cast to the format that they are told
            vars(twin)[name] = torch.float32 if isinstance(value, torch.dtype) else value
            if isinstance(value, OrderedDict) and "_hooks" in name:
                vars(twin)[name] = OrderedDict()
        for name in ("weight_function", "bias_function"):  # what LoRAs do to weights that are brought for a call
            if name in vars(module):
                setattr(twin, name, [])
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
        from torch import nn

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
    import torch
    import torch.nn.functional as F

    out = torch.cat([F.linear(x, each) for each in parts], -1)
    return out if layer.bias is None else out + layer.bias


def _looked_up(weight: Tensor, ids: Tensor, **_: Any) -> Tensor:
    """A table that has fewer rows than there are numbers."""
    import torch.nn.functional as F

    return F.embedding(ids % len(weight), weight)


# ---- its inputs


def small_of(model: nn.Module, given: Mapping[str, Any], num_ranks: int, *, rows: int = 1) -> dict[str, Any]:
    """Arguments of the same kinds, at a size of few odd rows and columns of tokens, which no number of ranks divides,
    and of so many conditionings as groups share out; pictures, text and residuals are noise, of numbers and masks the
    first and the last."""
    latents = latents_in(given)
    latents = latents[0] if isinstance(latents, list | tuple) else latents
    small = _Small(model, latents, given, num_ranks, most=max(BATCH, rows))
    return {name: small.of(name, value) for name, value in given.items()}


class _Small:
    """Makes what belongs to a picture that small, or to a text that short."""

    def __init__(
        self, model: nn.Module, latents: Tensor, given: Mapping[str, Any], num_ranks: int, *, most: int
    ) -> None:
        self._most = most  # of its batch
        names = ("patch_size", "patch", "patch_spatial")
        patch: Any = next((getattr(model, name) for name in names if hasattr(model, name)), 1)
        self._patch = (patch, patch) if isinstance(patch, int) else tuple(patch[-2:])
        count = max(2, num_ranks, LEAST.get(type(model).__name__, 0) // self._patch[-1])
        columns = 2 * count + 1
        self._odd = self._sizes(count | 1, -(-columns // 8) * 8 if type(model).__name__ in IN_EIGHTHS else columns)
        self._odder = self._sizes(count + 1, count | 1)  # of references
        self._num_frames = 3 if count % 3 else 2  # no rank ends where a frame does
        self._batch, self._canvas = int(latents.shape[0]), (int(latents.shape[-2]), int(latents.shape[-1]))
        self._frames = int(latents.shape[2]) if latents.ndim > 4 else 0
        self._length = int(latents.shape[-1]) if latents.ndim == 3 else 0  # of sound, or of a shape
        self._numbered = given["position_ids"].shape[-1] if "position_ids" in given else 0  # all tokens, one by one
        context = given.get("context")
        self._text = context.shape[1] if context is not None and context.ndim > 2 else 0

    def _num_tokens(self, *, is_small: bool, patch: tuple[int, ...]) -> int:
        (height, width), frames = self._canvas, self._frames
        if is_small:
            height, width = map(min, self._odd, self._canvas)
            frames = min(self._num_frames, frames)
        return -(-height // patch[0]) * -(-width // patch[-1]) * max(1, frames)

    def of(self, name: str, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._tensor(name, value)
        if isinstance(value, dict):
            found = copy.copy(value)  # of a class of its own, perhaps
            found.update({key: self.of(str(key), each) for key, each in value.items()})
            return found
        if isinstance(value, list | tuple):
            return type(value)(self.of(name, each) for each in value)
        if "tokens" in name and value == self._text:
            return min(TEXT, self._text)
        return value

    def _tensor(self, name: str, x: Tensor) -> Tensor:
        import torch

        is_mask = "mask" in name or not x.is_floating_point()
        x = self._cut(name, x, is_mask)
        if x.ndim < 3 or is_mask:
            return x.clone().float() if x.is_floating_point() else x.clone()
        draw = torch.Generator().manual_seed(sum(x.shape))
        return torch.randn(x.shape, generator=draw).to(x.device)

    def _cut(self, name: str, x: Tensor, is_mask: bool) -> Tensor:
        if x.ndim and x.shape[0] == self._batch:
            x = x[: self._most]
        if x.ndim > 1 and x.shape[-1] == self._numbered:
            fewer = (self._num_tokens(is_small=each, patch=self._patch) for each in (True, False))
            return x[..., : self._numbered + next(fewer) - next(fewer)]
        if x.ndim > 3 and "encoder" in name:  # a text in each layer of its encoder, B L T C
            return x[:, :, :TEXT]
        if x.ndim > 3:
            return self._picture(name, x)
        if x.ndim == 3 and name != "context" and "ref" not in name:
            if x.shape[-1] == self._length:
                return x[..., : SEQUENCE * self._patch[-1]]
            for patch in (self._patch, (1, 1)):  # latents may be tokens already
                if x.shape[1] == self._num_tokens(is_small=False, patch=patch):
                    return _ends(x, self._num_tokens(is_small=True, patch=patch))
        if x.ndim > 1 and x.shape[1] == self._text and (x.ndim == 3 or is_mask):
            return _ends(x, TEXT)
        if x.ndim == 2 and self._frames > 1 and x.shape[1] == self._frames:
            return x[:, : self._num_frames]
        return x

    def _picture(self, name: str, x: Tensor) -> Tensor:
        """Some frames, rows and columns. What is as large as the latents, or so many times as large, stays so; where
        there are some frames more or fewer than of latents, there are as many more or fewer of these."""
        dim, few = (1 if "audio" in name else x.ndim - 3), min(self._num_frames, self._frames or self._num_frames)
        if x.ndim > 4:
            more = x.shape[dim] - self._frames
            x = x.narrow(dim, 0, min(x.shape[dim], few + more if -few < more <= self._frames else few))
        if "audio" in name or name in AS_LARGE:
            return x
        times = x.shape[-1] // self._canvas[1]
        is_alike = tuple(x.shape[-2:]) == tuple(times * size for size in self._canvas)
        rows, columns = (times * size for size in self._odd) if is_alike else self._odder
        return x[..., :rows, :columns]


def _ends(x: Tensor, count: int) -> Tensor:
    """The first rows and the last two: a mask may hide these alone."""
    import torch

    return x if x.shape[1] <= count else torch.cat([x[:, : count - 2], x[:, -2:]], 1)


# ---- its name


def _key(model: nn.Module, given: Mapping[str, Any], mesh: Mesh, device: str, patches: tuple[str, ...]) -> str:
    """A name for all that a verdict depends on."""
    import torch

    kind, weights = type(model), [(name, [*each.shape]) for name, each in model.named_parameters()]
    source = Path(inspect.getsourcefile(kind) or "")
    told = [
        f"{kind.__module__}.{kind.__name__}",
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
    import torch

    if isinstance(value, torch.Tensor):
        return ["tensor", "float" if value.is_floating_point() else "int", [size > 1 for size in value.shape]]
    if isinstance(value, Mapping):
        return {str(key): kind_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        kinds = {json.dumps(kind_of(each), sort_keys=True) for each in value}
        return [min(len(value), 2), sorted(kinds)]
    return value if value is None or isinstance(value, str | bool) else type(value).__name__
