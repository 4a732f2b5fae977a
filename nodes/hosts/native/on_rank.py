"""What a rank does for a MODEL that is spread: it loads by the recipe, is sharded, carries patches, answers.

Called by name in ranks only: the host does without what it imports. What a rank holds it keeps from call to call:
`HELD` models, each with the conditioning that it was given, so that a call brings what is new alone. Who is asked for
what it does not hold (it was replaced, or others took the room) says so by the code `LACKING`, and is told all again.
"""

import gc
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ....parallel.errors import BadInput
from ....parallel.mesh import is_current, mesh_for
from ....parallel.plan import ParallelPlan
from ....parallel.progress import Progress
from ....parallel.ranks.seat import Seat
from ....parallel.sharding.hooks import modules_at
from ....parallel.sharding.shard import ShardedModule, shard
from ....pipelines.failures import told_by
from .border import KEEP, KEPT, LACKING
from .mapped import as_mapped, take
from .patches import apply
from .placed import Placed, ease, working_bytes
from .recipe import made
from .rows import share_rows
from .splits.plans import plan_of

MOST_HELD = 2  # models in a rank: a video model of two experts asks for both in each prompt
REMEDY = "sample a smaller picture, fewer at once, or a model of fewer bits"


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
    is_vae: bool = False
    placed: Placed = field(default_factory=lambda: Placed("", None, "cpu"))  # of a VAE nothing rests


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

    def copy(self) -> "Options":
        found = Options(self)
        found.left_out = self.left_out
        return found


def forward(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: one forward of the model; `out` is a tensor, or a list of them where the model gives several. Where
    memory runs out, less stays on the device from then on, and the error says so by its code."""
    device, moved = torch.device(seat.device), dict[int, torch.Tensor]()

    def eases() -> bool:
        return ease(json.dumps(request["recipe"], sort_keys=True), seat.device)

    with told_by(seat.device, doing="while it sampled", remedy=REMEDY, eases=eases):
        held = _held(request, progress, seat)
        assert held.handle is not None
        for number in request["gone"]:
            held.kept.pop(number, None)
        with torch.inference_mode():
            options = Options(_here(request["options"], held, device, moved))
            options.left_out = frozenset(request["left_out"])
            arguments = _here(request["arguments"], held, device, moved)
            _check(held, arguments, options, progress, seat)
            out = held.handle.module(**arguments, transformer_options=options)
        return {"out": [x.contiguous() for x in out] if isinstance(out, list | tuple) else out.contiguous()}


def forget(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Nothing in the host can ask for the model of this recipe any more."""
    key, keys = json.dumps(request["recipe"], sort_keys=True), list(HELD)
    if key in keys:  # behind the one used last, another may have gone from the device: that one is loaded anew
        _drop(keys if keys[-1] == key else [key])
    return {}


def _held(request: Mapping[str, Any], progress: Progress, seat: Seat) -> Held:
    """The model that is asked for, sharded, on its device."""
    key, setup = json.dumps(request["recipe"], sort_keys=True), request["setup"]
    is_last = bool(HELD) and next(reversed(HELD)) == key  # all others may have taken its place on the device
    held = HELD.pop(key, None)
    if setup is not None:
        set_up(setup["host"], seat.device)
        held = held or _loaded(key, request["recipe"], setup["shared"], progress, seat)
        held.kept.clear()
        if held.told != request["told"]:
            is_last, carried = False, setup["carried"]
            _take_apart(held)
            held.placed.free()
            held.clone, held.told = apply(held.base, carried), request["told"]
            held.patches = tuple(sorted({row["kind"] or "diff" for row in carried["weights"]}))
        if hasattr(module := held.clone.model.diffusion_model, "clear_kv_cache"):
            module.clear_kv_cache()  # what a model keeps of a prompt is of the weights and tensors that it had
    elif held is None or held.told != request["told"]:
        raise BadInput("this rank does not hold the model that it is asked for", code=LACKING)
    try:
        needed = working_bytes(held.base, request["arguments"], seat)
        is_placed = is_last and held.placed.fits(needed)
        if not is_placed:
            clear_device()
            module = held.base.model.diffusion_model
            paths = (modules_at(module, path, type(module).__name__) for path in plan_of(module).blocks)
            held.placed.load(held.clone, [*itertools.chain(*paths)], told=held.told, working_bytes=needed)
        if held.handle is None or not is_current(held.handle.mesh):
            _shard(held, request)
        if not is_placed:
            held.placed.begin(progress)
    except BaseException:
        make_room(0)  # which of them is on the device is not known any more
        raise
    HELD[key] = held
    return held


def _loaded(key: str, recipe: Mapping[str, Any], shared: Mapping[str, Any], progress: Progress, seat: Seat) -> Held:
    make_room(MOST_HELD - 1)
    progress.phase("loading the diffusion model", is_loading=True)
    with as_mapped(skips=bool(shared)):
        base = made(recipe)
    if shared and not take(base.model, shared):
        with as_mapped():
            base = made(recipe)
    return Held(base=base, placed=Placed(key, base, seat.device))


def _shard(held: Held, request: Mapping[str, Any]) -> None:
    _take_apart(held)
    module = held.clone.model.diffusion_model.eval().requires_grad_(False)
    if request["entry"] != "forward":  # what wrappers of other nodes stand around: they are in the host
        vars(module)["forward"] = getattr(module, request["entry"])
    held.handle = shard(module, plan_of(module), mesh_for(ParallelPlan.parse(request["plan"])))
    share_rows(held.handle)
    held.checked.clear()


def _check(held: Held, arguments: Mapping[str, Any], options: Options, progress: Progress, seat: Seat) -> None:
    """Collective: whether the plan gives this class what one device gives, at the first use with such inputs."""
    from .checked import check_first_use, kinds_of  # which imports diffusers

    assert held.handle is not None
    if (kinds := json.dumps(kinds_of(arguments, held.handle.mesh), sort_keys=True)) in held.checked:
        return
    module, mesh, given = held.handle.module, held.handle.mesh, {**arguments, "transformer_options": options}
    how: dict[str, Any] = {"device": seat.device, "progress": progress, "patches": held.patches}
    check_first_use(module, given, split=plan_of(module), mesh=mesh, **how)
    held.checked.add(kinds)


def _take_apart(held: Held) -> None:
    held.placed.end()
    if held.handle is not None:
        held.handle.remove()
        vars(held.handle.module).pop("forward", None)
        held.handle = None


def clear_device() -> None:
    """Others want it: no blocks of any model stay there."""
    for held in HELD.values():
        held.placed.end()


def make_room(most: int, *, of_vaes: bool = False) -> None:
    """No more than so many models stay, or VAEs."""
    keys = [key for key, held in HELD.items() if held.is_vae == of_vaes]
    _drop(keys[: max(0, len(keys) - most)])


def _drop(keys: Sequence[str]) -> None:
    for key in keys:
        held = HELD.pop(key)
        _take_apart(held)
        held.placed.free()
        held.clone.detach()
    if "comfy.model_management" in sys.modules:
        gc.collect()
        sys.modules["comfy.model_management"].soft_empty_cache()


def set_up(host: Mapping[str, Any], device: str) -> None:
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


def _here(plain: Any, held: Held, device: torch.device, moved: dict[int, torch.Tensor]) -> Any:
    """Plain data of a call with its tensors on this device, each once, and what was kept in its place."""
    if isinstance(plain, torch.Tensor):
        if id(plain) not in moved:
            here = plain.to(device)
            # In a mapped message it begins anywhere; a CPU's last bit depends on that, and torch's own begin at 64s.
            is_odd = here.device.type == "cpu" and here.data_ptr() % 64
            moved[id(plain)] = here.clone() if is_odd else here
        return moved[id(plain)]
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        return [_here(each, held, device, moved) for each in plain]
    if not isinstance(plain, Mapping):
        return plain
    if KEPT in plain:
        return held.kept[plain[KEPT]]
    if KEEP in plain:
        return held.kept.setdefault(plain[KEEP], _here(plain["value"], held, device, moved))
    return {key: _here(each, held, device, moved) for key, each in plain.items()}
