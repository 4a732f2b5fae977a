"""Which noise levels a denoise passes through, and which solver takes it from one to the next.

The levels are the model's own (its scheduler makes them, resolution-dependent shift included) unless the user gives a
shift or the levels themselves. These are taken as they are, or as what is shifted yet, as diffusers' pipelines take
their `sigmas`. The solver is the model's own unless the user names another. Only flows: noise levels (sigmas) fall from
1 to 0 and x = sigma * noise + (1 - sigma) * picture.
"""

import copy
import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np
import torch
from diffusers.schedulers.scheduling_dpmsolver_multistep import DPMSolverMultistepScheduler
from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
from diffusers.schedulers.scheduling_flow_match_heun_discrete import FlowMatchHeunDiscreteScheduler
from diffusers.schedulers.scheduling_unipc_multistep import UniPCMultistepScheduler
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...parallel.errors import did_you_mean
from ..values import Sampling

NUM_TRAIN_TIMESTEPS = 1000
# What else in a scheduler's config bends the noise levels; a shift that the user gives replaces it.
PLAIN = {
    "use_dynamic_shifting": False,
    "shift_terminal": None,
    "use_karras_sigmas": False,
    "use_exponential_sigmas": False,
    "use_beta_sigmas": False,
}


def choose(model_scheduler: Any, sampling: Sampling) -> Any:
    """A fresh scheduler for one denoise, from the scheduler that came with the model, which stays as it is: unused."""
    name = type(model_scheduler).__name__
    check(sampling, scheduler=name)
    if name in UPWARD:
        return unwaiting(_walking(_levels(model_scheduler, sampling), sampling))
    own = _own_solver(model_scheduler, sampling)
    levels = _levels(model_scheduler, sampling)
    if sampling.scheduler in ("model", own) and not sampling.sigmas:
        return unwaiting(levels)
    return Solver(levels, own if sampling.scheduler == "model" else sampling.scheduler, sampling)


def choose_beside(model_scheduler: Any, sampling: Sampling, picture: Any) -> Any:
    """The scheduler of a sound (MiniMax H3) beside that of its `picture`, whose levels it has by a shift of its own."""
    sigmas, shift = sampling.sigmas, picture.shift
    if not sampling.shift_sigmas:
        sigmas = tuple(sigma / (shift - (shift - 1) * sigma) for sigma in sigmas)
    return choose(model_scheduler, Sampling(sigmas=sigmas, shift_sigmas=bool(sigmas)))


def check(sampling: Sampling, *, scheduler: str = "") -> None:
    """Refuse options that cannot be followed, by a model with a scheduler of that class."""
    if scheduler in UPWARD and sampling.scheduler != "model":
        raise ValueError(
            f"this model's scheduler, {scheduler}, has levels for picture and sound that no other solver follows; "
            "set scheduler to model"
        )
    if sampling.scheduler != "model" and sampling.scheduler not in SOLVERS:
        hint = did_you_mean(sampling.scheduler, SOLVERS)
        raise ValueError(f"unknown scheduler {sampling.scheduler!r}: {hint}it is one of model, {', '.join(SOLVERS)}")
    if not (math.isfinite(sampling.shift) and sampling.shift >= 0):
        raise ValueError(f"shift {sampling.shift:g}: give a number above 0, or 0 for the model's own")
    if not (sigmas := sampling.sigmas):
        if sampling.shift_sigmas:
            raise ValueError("shift_sigmas is on, but there are no sigmas to be shifted; give some, or turn it off")
        return
    if sampling.shift and not sampling.shift_sigmas:
        told = "shift and sigmas are both given, but sigmas are taken as they are; leave shift at 0, or turn on {}"
        raise ValueError(told.format("shift_sigmas"))
    falls = all(a > b for a, b in itertools.pairwise(sigmas))
    if not (all(math.isfinite(s) and 0 < s <= 1 for s in sigmas) and falls):
        shown = ", ".join(f"{s:g}" for s in sigmas[:8])
        raise ValueError(f"sigmas {shown}: give numbers that fall from at most 1 and stay above 0 (0 comes by itself)")


class Solver:
    """A solver that steps through another scheduler's noise levels; looks like a scheduler to a modular block."""

    def __init__(self, levels: Any, solver: str, sampling: Sampling) -> None:
        self.config = levels.config  # blocks read from it how to shift
        self.levels = levels
        self.solver = solver
        self.inner = SOLVERS[solver][0]()
        self.order: int = self.inner.order
        self.sampling = sampling

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: Any = None, sigmas: Any = None, mu: float | None = None
    ) -> None:
        given = [*self.sampling.sigmas]
        if given and not self.sampling.shift_sigmas:
            table = torch.tensor([*given, 0.0])  # N+1
        else:
            steps, sigmas = (None, np.array(given)) if given else (num_inference_steps, sigmas)
            wanted = {"num_inference_steps": steps, "sigmas": sigmas, "mu": mu}
            self.levels.set_timesteps(device=device, **{k: v for k, v in wanted.items() if v is not None})
            table = self.levels.sigmas.float().cpu()  # N+1
        make, laid = SOLVERS[self.solver]
        self.inner = inner = make()  # a new one: solvers remember their last steps
        inner.sigmas = laid(table, device)
        inner.timesteps = inner.sigmas[:-1].to(device) * NUM_TRAIN_TIMESTEPS
        inner.num_inference_steps = len(table) - 1

    timesteps = property(operator.attrgetter("inner.timesteps"))
    sigmas = property(operator.attrgetter("inner.sigmas"))
    step_index = property(operator.attrgetter("inner.step_index"))
    set_begin_index = property(operator.attrgetter("inner.set_begin_index"))

    def scale_noise(self, sample: Tensor, timestep: Any, noise: Tensor) -> Tensor:
        """Noised to the level that the next step begins with, as FlowMatchEulerDiscreteScheduler does it."""
        index = self.inner.begin_index or 0 if self.step_index is None else self.step_index
        sigma = self.sigmas[index].to(sample, non_blocking=True)
        return sigma * noise + (1.0 - sigma) * sample

    def step(self, model_output: Tensor, timestep: Any, sample: Tensor, return_dict: bool = True, **_: Any) -> Any:
        with Unwaiting():
            return self.inner.step(model_output, timestep, sample, return_dict=return_dict)


class Unwaiting(TorchFunctionMode):
    """Within, what goes from the host to an accelerator is not waited for, nor are linear systems asked whether they
    can be solved. The arithmetic is diffusers', to the bit: only how numbers of the host get to the device is another.
    """

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.to and args[0].device.type == "cpu" and not any(isinstance(each, bool) for each in args):
            kwargs = {"non_blocking": True, **kwargs}
        elif func is torch.linalg.solve and args[0].is_cuda:
            return torch.linalg.solve_ex(*args, **kwargs)[0]  # without a solution no numbers, as the denoise's end sees
        elif func is Tensor.__getitem__ and args[0].is_cuda and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1]).to(args[0].device, non_blocking=True))
        return func(*args, **kwargs)


def unwaiting(scheduler: Any) -> Any:
    """The scheduler itself, whose steps and whose mixing in of noise are now done so."""
    for name in ("step", "scale_noise"):
        if hasattr(scheduler, name):
            # of a copy it is the copy's
            setattr(scheduler, name, MethodType(functools.partial(_without_waiting, name), scheduler))
    return scheduler


def _without_waiting(name: str, scheduler: Any, *args: Any, **kwargs: Any) -> Any:
    with Unwaiting():
        return getattr(type(scheduler), name)(scheduler, *args, **kwargs)


def _levels(scheduler: Any, sampling: Sampling) -> Any:
    """A fresh scheduler of the model's own class, with the user's shift if there is one."""
    if not sampling.shift:
        return fresh(scheduler)  # from_config takes twenty times as long
    shift = {"shift": sampling.shift, "flow_shift": sampling.shift, **PLAIN}
    return type(scheduler).from_config(scheduler.config, **{k: v for k, v in shift.items() if k in scheduler.config})


def _walking(scheduler: Any, sampling: Sampling) -> Any:
    """The scheduler, one of UPWARD, which walks the levels that are given, if some are, whatever it is asked for."""
    if not sampling.sigmas:
        return scheduler
    levels, shift = torch.tensor([*sampling.sigmas, 0.0]), scheduler.shift
    if sampling.shift_sigmas:  # as it bends its own, to the bit
        levels = torch.unique_consecutive(shift * levels / (1 + (shift - 1) * levels))
    own = scheduler.set_timesteps
    scheduler.set_timesteps = lambda *_, device=None, **__: own(device=device, sigmas=levels)
    return scheduler


def fresh(scheduler: Any) -> Any:
    """Another one, of a scheduler that nobody has used: they share nothing that either writes into. Tensors a scheduler
    makes anew, entries of lists it replaces."""
    found = copy.copy(scheduler)
    vars(found).update({name: [*each] for name, each in vars(scheduler).items() if isinstance(each, list)})
    return found


def _own_solver(scheduler: Any, sampling: Sampling) -> str:
    """Which of our solvers the model's scheduler is; refuses one that is no flow or would draw noise by itself."""
    name, config = type(scheduler).__name__, scheduler.config
    is_flow = name.startswith("FlowMatch") or config.get("use_flow_sigmas")
    if name not in OWN or not is_flow:
        raise ValueError(f"this model's scheduler, {name}, is not supported; the flow schedulers {', '.join(OWN)} are")
    if not config.get("stochastic_sampling"):
        return OWN[name]
    if sampling.scheduler == "model":
        raise ValueError(
            f"this model's scheduler, {name} with stochastic_sampling, draws noise in every step that does not come "
            f"from the pictures' seeds; choose one of {', '.join(SOLVERS)} in the sampler options"
        )
    return ""


class _Never:
    """Greater than any noise level, which it does not look at: to look at one waits for the device."""

    def __le__(self, _: Any) -> bool:
        return False


def _heun() -> Any:
    inner: Any = FlowMatchHeunDiscreteScheduler()
    # It asks each level whether noise is to be added there, even if none ever is.
    inner.step = functools.partial(inner.step, s_tmin=_Never())
    inner.prev_derivative = inner.dt = inner.sample = None
    return inner


def _twice(table: Tensor, device: Any) -> Tensor:
    """2N levels: all but the first and last are visited twice, at the end of one step and at the start of the next."""
    return torch.cat([table[:1], table[1:-1].repeat_interleave(2), table[-1:]]).to(device)


def _below_1(table: Tensor, device: Any) -> Tensor:
    """On the host: these solvers take log(1 - sigma)."""
    return table.clamp(max=1 - 1e-6)


FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
# How to make each solver, and the noise levels as it takes them, of a table of N+1 of which the last is 0.
SOLVERS: Mapping[str, tuple[Callable[[], Any], Callable[[Tensor, Any], Tensor]]] = {
    "euler": (FlowMatchEulerDiscreteScheduler, Tensor.to),
    "heun": (_heun, _twice),
    "unipc": (lambda: UniPCMultistepScheduler(**FLOW), _below_1),
    "dpm++2m": (lambda: DPMSolverMultistepScheduler(**FLOW), _below_1),
}
# The schedulers that models come with, and which solver each is.
OWN = {"FlowMatchEulerDiscreteScheduler": "euler", "UniPCMultistepScheduler": "unipc"}
UPWARD = ("MiniMaxH3Scheduler",)  # flows that count time up to the picture, to which their predictions point
