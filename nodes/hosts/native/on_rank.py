"""What a rank does for a MODEL that is spread: it loads by the recipe, is sharded, carries patches, answers.

Called by name in ranks only. What a rank holds it keeps from call to call: `HELD` models, each with the conditioning
that it was given, so that a call brings what is new alone. Who is asked for what it does not hold (it was replaced, or
others took the room) says so by the code `LACKING`, and is told all again.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....parallel.errors import BadInput
from ....parallel.progress import Progress
from ....parallel.ranks.seat import Seat

if TYPE_CHECKING:
    import torch

    from ....parallel.sharding.shard import ShardedModule

LACKING = "not-held"  # the code of the error of a rank that is to be told everything
MOST_HELD = 2  # models in a rank: a video model of two experts asks for both in each prompt
KEEP, KEPT = "$keep", "$kept"  # a tensor to keep under a number, and one that was


@dataclass
class Held:
    """One model in this rank."""

    base: Any  # ComfyUI's patcher, as the file has it
    told: str = ""  # of the patches and the plan that are on it now
    clone: Any = None  # with the patches
    handle: ShardedModule | None = None
    kept: dict[int, torch.Tensor] = field(default_factory=dict)
    patches: tuple[str, ...] = ()  # the kinds of those that the clone carries
    checked: set[str] = field(default_factory=set)  # kinds of inputs for which its plan was checked


HELD: dict[str, Held] = {}  # by recipe; the one used last at the end


class Options(dict[str, Any]):
    """A call's `transformer_options`: what could not be told is refused once the model asks for it, not before."""

    left_out: frozenset[str] = frozenset()

    def _heed(self, name: object) -> None:
        if name in self.left_out:
            raise ValueError(
                f"the model asks for {name!r} of its options, an object of another node that cannot be told to other "
                "processes; leave that node out, or Spread Model"
            )

    def __getitem__(self, name: str) -> Any:
        self._heed(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._heed(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._heed(name)
        return super().get(name, default)

    def copy(self) -> Options:
        found = Options(self)
        found.left_out = self.left_out
        return found


def forward(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: one forward of the model; `out` is a tensor, or a list of them where the model gives several."""
    import torch

    held = _held(request, progress, seat)
    assert held.handle is not None
    for number in request["gone"]:
        held.kept.pop(number, None)
    device = torch.device(seat.device)
    with torch.inference_mode():
        options = Options(_here(request["options"], held, device))
        options.left_out = frozenset(request["left_out"])
        arguments = _here(request["arguments"], held, device)
        _check(held, arguments, options, progress, seat)
        out = held.handle.module(**arguments, transformer_options=options)
    return {"out": [x.contiguous() for x in out] if isinstance(out, list | tuple) else out.contiguous()}


def _held(request: Mapping[str, Any], progress: Progress, seat: Seat) -> Held:
    """The model that is asked for, sharded, on its device."""
    from ....parallel.mesh import is_current

    key, setup = json.dumps(request["recipe"], sort_keys=True), request["setup"]
    is_last = bool(HELD) and next(reversed(HELD)) == key  # all others may have taken its place on the device
    held = HELD.pop(key, None)
    if setup is not None:
        _set_up(setup["host"], seat.device)
        held = held or _loaded(request["recipe"], progress)
        held.kept.clear()
        if held.told != request["told"]:
            is_last = False
            _carry(held, setup["carried"], request["told"])
        if hasattr(module := held.clone.model.diffusion_model, "clear_kv_cache"):
            module.clear_kv_cache()  # what a model keeps of a prompt is of the weights and tensors that it had
    elif held is None or held.told != request["told"]:
        error = BadInput("this rank does not hold the model that it is asked for")
        error.code = LACKING
        raise error
    try:
        if not is_last:
            import comfy.model_management

            comfy.model_management.load_models_gpu([held.clone], force_full_load=True)
        if held.handle is None or not is_current(held.handle.mesh):
            _shard(held, request)
    except BaseException:
        _make_room(0)  # which of them is on the device is not known any more
        raise
    HELD[key] = held
    return held


def _loaded(recipe: Mapping[str, Any], progress: Progress) -> Held:
    from .recipe import made

    _make_room(MOST_HELD - 1)
    progress.phase("loading the diffusion model", is_loading=True)
    return Held(base=made(recipe))


def _carry(held: Held, carried: Mapping[str, Any], told: str) -> None:
    from .patches import apply

    _take_apart(held)
    held.clone, held.told = apply(held.base, carried), told
    held.patches = tuple(sorted({row["kind"] or "diff" for row in carried["weights"]}))


def _shard(held: Held, request: Mapping[str, Any]) -> None:
    from ....parallel.mesh import mesh_for
    from ....parallel.plan import ParallelPlan
    from ....parallel.sharding.shard import shard
    from .plans import plan_of

    _take_apart(held)
    module = held.clone.model.diffusion_model.eval().requires_grad_(False)
    if request["entry"] != "forward":  # what wrappers of other nodes stand around: they are in the host
        vars(module)["forward"] = getattr(module, request["entry"])
    held.handle = shard(module, plan_of(module), mesh_for(ParallelPlan.parse(request["plan"])))
    held.checked.clear()


def _check(held: Held, arguments: Mapping[str, Any], options: Options, progress: Progress, seat: Seat) -> None:
    """Collective: whether the plan gives this class what one device gives, at the first use with such inputs."""
    from .checked import check_first_use, kind_of
    from .plans import plan_of

    if (kinds := json.dumps(kind_of(arguments), sort_keys=True)) in held.checked:
        return
    assert held.handle is not None
    module, given = held.handle.module, {**arguments, "transformer_options": options}
    how: dict[str, Any] = {"split": plan_of(module), "mesh": held.handle.mesh, "device": seat.device}
    check_first_use(module, given, progress=progress, patches=held.patches, **how)
    held.checked.add(kinds)


def _take_apart(held: Held) -> None:
    if held.handle is not None:
        held.handle.remove()
        vars(held.handle.module).pop("forward", None)
        held.handle = None


def _make_room(most: int) -> None:
    """No more than so many models stay."""
    for key in list(HELD)[: max(0, len(HELD) - most)]:
        held = HELD.pop(key)
        _take_apart(held)
        held.clone.detach()
    if "comfy.model_management" in sys.modules:
        gc.collect()
        sys.modules["comfy.model_management"].soft_empty_cache()


def _set_up(host: Mapping[str, Any], device: str) -> None:
    """ComfyUI made importable in this process, which is no server, with the host's settings."""
    if "comfy.options" in sys.modules:
        return
    sys.path.insert(0, host["folder"])
    import comfy.options

    comfy.options.enable_args_parsing(False)
    from comfy.cli_args import PerformanceFeature, args

    args.cpu = device == "cpu"
    # Before its attention is imported, which chooses then: what a session answers is torch's own.
    args.use_pytorch_cross_attention = True
    args.fast = {PerformanceFeature(each) for each in host["fast"]}
    for name in host["true"]:
        setattr(args, name, True)
    import comfy.ldm.modules.attention


def _here(plain: Any, held: Held, device: torch.device) -> Any:
    """Plain data of a call with its tensors on this device, and what was kept in its place."""
    import torch

    if isinstance(plain, torch.Tensor):
        return plain.to(device)
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        return [_here(each, held, device) for each in plain]
    if not isinstance(plain, Mapping):
        return plain
    if KEPT in plain:
        return held.kept[plain[KEPT]]
    if KEEP in plain:
        return held.kept.setdefault(plain[KEEP], plain["value"].to(device))
    return {key: _here(each, held, device) for key, each in plain.items()}
