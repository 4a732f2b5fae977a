"""The border: where ComfyUI's samplers ask for a MODEL's diffusion model, and ranks answer in its place.

    the clone that is sampled is known   what it carries is read, and what ranks would lack refused by name
    its forward is asked                 wrappers of other nodes go on here, around ours; ranks get what they are given
    the sampler is done                  whether ranks were asked at all

Tensors that are conditioning go to the ranks once: what was sent before is named by its number. x, the time and
control residuals go with each call.
"""

import contextlib
import functools
import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ....parallel.errors import EASED, BadInput, Cancelled, LoomError, OutOfMemory, one_line
from ....parallel.plan import ParallelPlan
from ....parallel.pool.pool import Pool
from ....parallel.wording import worded
from ....pipelines.pools import POOLS
from ....pipelines.values import Place
from ..comfy_process import ComfyProgress
from . import patches
from .choosing import choose
from .recipe import host_settings
from .rows import unfit
from .shell import count_ranks, is_shell
from .splits.parts import LATENTS, latents_of
from .splits.plans import plan_of

logger = logging.getLogger("latentloom")
KEY = "latentloom"  # under which our callbacks and wrappers hang at a patcher
ON_RANK = ".nodes.hosts.native.on_rank"
LACKING = "not-held"  # the code of the error of a rank that is to be told everything
KEEP, KEPT = "$keep", "$kept"  # a tensor to keep under a number, and one that was
# Options of a call that only this process reads: other nodes' wrappers, and marks of the sampler.
OF_THE_HOST = (
    *("wrappers", "callbacks", "to_load_options", "prefetch_dynamic_vbars", "uuids"),
    *("patches", "patches_replace", "optimized_attention_override"),
)
# Arguments that are others in each call.
MOVING = (*LATENTS, "timestep", "timesteps", "t", "r", "control", "transformer_options.sigmas")
REBUILT = ("minimax_payload.layout",)  # objects that the model makes anew from the rest, where they are not given
MOST_KEPT = 8  # tensors of one argument that ranks keep
INSTEAD = "leave that node out, or Spread Model, or set allow_whole"


@dataclass
class Sent:
    """What the ranks keep of this model's conditioning: tensors by their numbers, for each argument."""

    found: dict[str, list[tuple[int, Tensor]]] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)  # numbers that ranks may let go of
    _last: int = 0

    def told(self, path: str, tensor: Tensor) -> Any:
        """The tensor as a call says it."""
        if path in MOVING or path.partition(".")[0] in MOVING:
            return tensor
        known = self.found.setdefault(path, [])
        for place, (number, each) in enumerate(known):
            if each.dtype == tensor.dtype and each.shape == tensor.shape and torch.equal(each, tensor):
                known.append(known.pop(place))
                return {KEPT: number}
        if len(known) == MOST_KEPT:
            self.gone.append(known.pop(0)[0])
        self._last += 1
        known.append((self._last, tensor.detach().clone()))  # a node may write into its own
        return {KEEP: self._last, "value": tensor}


@dataclass
class Border:
    """One spread MODEL. `refusal` is why none of it can be spread, where whole runs are allowed."""

    place: Place
    plan: ParallelPlan | None  # None is `auto`: chosen at the first call of each run
    recipe: Mapping[str, Any]
    allow_whole: bool = False
    shared: Mapping[str, Any] = field(default_factory=dict)  # where ranks find the host's own weights
    refusal: str = ""
    is_whole: bool = False  # of the run under way
    num_asked: int = 0  # calls of ranks in the run under way
    sent: Sent = field(default_factory=Sent)
    _patcher: Any = None  # the clone that is sampled
    _plan: ParallelPlan = field(default_factory=ParallelPlan)  # of the run under way
    _told: str = ""  # a name of what the clone carries, and of the plan; "" until that is settled
    _ready: tuple[Any, ...] = ()  # to which ranks that was told
    _forward: Any = None  # ours, of a shell whose class asks no wrapper

    @property
    def is_held(self) -> bool:
        """Whether ranks hold the model now, as far as they were told."""
        pool = POOLS.open.get((self.place.devices, self.place.replicas))
        return pool is not None and bool(self._ready) and _state(pool, self._ready[0]) == self._ready

    def attach(self, patcher: Any) -> None:
        """Hang the border at a patcher; one that hung there is replaced."""
        from comfy.patcher_extension import CallbacksMP, WrappersMP

        for kind, ours in ((WrappersMP.OUTER_SAMPLE, self.sample), (WrappersMP.DIFFUSION_MODEL, self.forward)):
            patcher.remove_wrappers_with_key(kind, KEY)
            patcher.add_wrapper_with_key(kind, KEY, ours)
        patcher.remove_callbacks_with_key(CallbacksMP.ON_PRE_RUN, KEY)
        patcher.add_callback_with_key(CallbacksMP.ON_PRE_RUN, KEY, self.before)
        module = patcher.model.diffusion_model
        if "DIFFUSION_MODEL" in type(module).forward.__code__.co_names:
            return
        if not is_shell(patcher):
            self.refusal = worded("{} asks no wrapper, and so cannot be asked of ranks here", type(module).__name__)
            return
        # A class that asks no wrapper: the shell is ours alone, and its forward is the border.
        self._forward = functools.partial(self._answer, module.forward, module)
        vars(module)["forward"] = self._forward

    def before(self, patcher: Any) -> None:
        """The clone that is sampled is known: nodes behind ours may have patched it. Raises `ValueError`."""
        self.num_asked, self.is_whole = 0, False
        problem = self.refusal or next(map(_lost, patches.lacking(patcher)), "")
        if not problem and (layer := patches.scaled_by_tokens(patcher.model.diffusion_model)):
            told = "{} is in NVFP4 without an input_scale, so that its inputs are scaled by the largest of all tokens, "
            told += "of which each rank has a part; use another file of this model, or set allow_whole"
            problem = worded(told, layer)
        if problem:
            self._whole_or_refuse(problem)
            return
        count_ranks()
        self._patcher, self._told = patcher, ""

    def _settle(self, module: Any, given: Mapping[str, Any]) -> str:
        """The plan of the run: as it is named, or chosen at its first call, and anew at one whose rows do not go into
        the groups of that. Why the call cannot be shared out; "" if it can."""
        if self._told and not unfit(self._plan, module, given):
            return ""
        if self.plan is None:
            self._plan, why = choose(module, plan_of(module), given, self.place)
            logger.info("Spread Model: %s", why)
        else:
            self._plan = self.plan
        told = [self._patcher.patches_uuid, self._plan, self._patcher.object_patches.get(patches.COMPUTE)]
        self._told = hashlib.sha256(json.dumps([*map(str, told)]).encode()).hexdigest()[:16]
        return unfit(self._plan, module, given)

    def sample(self, executor: Any, *args: Any, **kwargs: Any) -> Any:
        """Around the sampler: a run whose forward did not reach the ranks says so."""
        told = f"none of this run's steps reached the ranks: another node asks the model in a way of its own; {INSTEAD}"
        try:
            found = executor(*args, **kwargs)
        except RuntimeError as error:
            if self.num_asked or "meta" not in str(error):
                raise
            raise ValueError(told) from error  # of the shell's weights, which have no memory
        finally:
            if self.num_asked:
                count_ranks()  # what was unloaded between two steps is there again, and not counted
            self._patcher = None  # which holds this border in turn, and is a clone that ends with its prompt
        if not self.num_asked and not self.is_whole:
            self._whole_or_refuse(told)
        return found

    def forward(self, executor: Any, *args: Any, **kwargs: Any) -> Any:
        """In the place of the model itself: what others have put around it goes on in this process."""
        from comfy.patcher_extension import WrapperExecutor

        if self.is_whole:
            return executor(*args, **kwargs)
        ask = functools.partial(self._answer, executor.original, executor.class_obj)
        rest = WrapperExecutor.new_class_executor(ask, executor.class_obj, executor.wrappers, executor.idx + 1)
        return rest.execute(*args, **kwargs)

    def _answer(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        """What `original` gives, from the ranks. Raises `ValueError` for what they would lack."""
        arguments = named(original, args, kwargs)
        options = arguments.pop("transformer_options", None) or {}
        entry = getattr(original, "__name__", "")
        lost = next(patches.lacking_in(options), "") or patches.tampered(module, ours=self._forward)
        if getattr(type(module), entry, None) is not getattr(original, "__func__", None):
            lost = f"another forward of {type(module).__name__}"
        problem = _lost(lost) if lost else ""
        if problem := problem or self._settle(module, arguments):
            self._whole_or_refuse(problem)
            return original(*args, **kwargs)
        self.num_asked += 1
        left_out = [name for name, each in options.items() if name not in OF_THE_HOST and not _is_plain(each)]
        told = {k: v for k, v in options.items() if k not in OF_THE_HOST and k not in left_out}

        def call(*, is_first: bool) -> dict[str, Any]:
            setup = None
            if is_first:
                self.sent = Sent()
                setup = {"host": host_settings(), "carried": patches.carried(self._patcher), "shared": self.shared}
            request = {
                "recipe": self.recipe,
                "told": self._told,
                "plan": str(self._plan),
                "entry": entry,
                "arguments": {k: sendable(v, k, self.sent) for k, v in arguments.items()},
                "options": {k: sendable(v, f"transformer_options.{k}", self.sent) for k, v in told.items()},
                "left_out": left_out,
                "gone": self.sent.gone[:],
                "setup": setup,
            }
            self.sent.gone.clear()
            return request

        out = self._asked(call)["out"]
        device = latents_of(arguments)[0].device
        return [each.to(device) for each in out] if isinstance(out, list) else out.to(device)

    def _asked(self, call: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """The ranks' answer; they are told what they do not hold."""
        is_again = False
        with ranks_at(self.place, ON_RANK, title="Spread Model") as (pool, progress):
            while True:
                try:
                    request = call(is_first=is_again or _state(pool, self._told) != self._ready)
                    answer = pool.call(f"{ON_RANK}:forward", request, progress, num_ranks=self._plan.num_ranks)
                except (BadInput, OutOfMemory) as error:
                    if error.code == EASED:
                        logger.warning("starting again with less on the device: %s", one_line(error))
                    elif error.code != LACKING or is_again:
                        raise
                    is_again = error.code == LACKING
                else:
                    self._ready = _state(pool, self._told)
                    return answer

    def _whole_or_refuse(self, problem: str) -> None:
        if not self.allow_whole:
            raise ValueError(problem)
        if not self.is_whole:
            logger.warning("Spread Model: this model runs whole on the host: %s", problem)
        self.is_whole = True


@contextlib.contextmanager
def ranks_at(place: Place, module: str, *, title: str) -> Iterator[tuple[Pool, ComfyProgress]]:
    """Ranks that have imported `module`, and what tells of them in ComfyUI, whose interrupt is raised as its own."""
    progress = ComfyProgress(title)
    with POOLS.using(place, lambda: [module]) as pool:
        try:
            yield pool, progress
        except Cancelled:
            progress.raise_interrupt()
            raise


def forget(recipe: Mapping[str, Any]) -> None:
    """Have ranks let go of a model that nothing here asks for any more."""
    for pool in list(POOLS.open.values()):
        with contextlib.suppress(ValueError, LoomError):  # it has ended, and its models with it
            pool.call(f"{ON_RANK}:forget", {"recipe": recipe}, num_ranks=pool.size)


def _lost(what: str) -> str:
    return worded("the ranks of Spread Model would not have {}; {}", what, INSTEAD)


def _state(pool: Pool, told: str) -> tuple[Any, ...]:
    """Equal as long as these ranks hold what they were told."""
    return (told, *(rank.pid for rank in pool.states()))


def named(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names; those that stand for all others among them."""
    signature = inspect.signature(function)
    found = dict(signature.bind(*args, **kwargs).arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(parameter.name, {})
    return found


def sendable(value: Any, path: str, sent: Sent) -> Any:
    """Plain data with tensors. Raises `ValueError` that names by its path what is none."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return sent.told(path, value)
    if isinstance(value, list | tuple):
        return [sendable(each, f"{path}.{number}", sent) for number, each in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        rest = {key: each for key, each in value.items() if f"{path}.{key}" not in REBUILT}
        return {key: sendable(each, f"{path}.{key}", sent) for key, each in rest.items()}
    raise ValueError(_lost(f"{path}, a {type(value).__name__}"))


def _is_plain(value: Any) -> bool:
    try:
        sendable(value, MOVING[0], Sent())  # of what moves nothing is compared or copied
    except ValueError:
        return False
    return True
