"""What a denoise is asked for, and the plan `auto` for it by a rule: guidance first, then ulysses as far as the heads
divide, the rest by allgather.

The rule measures nothing: it is exact for every model, and near the fastest where links between all devices are equal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ...parallel.errors import BadInput
from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..models.describe import card_of, check_shareable, compiles
from ..models.facts import heads_of
from ..models.folder import components_of, read_config, read_index
from ..shape import empty_canvas
from ..split_plans import REFUSED, SPLIT_PLANS
from ..values import COMPILING, MARK, Conditioning, Latents, Model

if TYPE_CHECKING:
    from ..requests import Denoise


def plans_for(model: Model, num_devices: int, *, is_guided: bool) -> tuple[ParallelPlan, ...]:
    """Every split of the devices into guidance, ulysses as far as heads divide, and an exchange of keys and values;
    each with weights whole, shared by a sequence's ranks, and shared by all. What guidance and ulysses do comes first;
    last come sections of blocks, each on one device or on several that split the sequence by the rule.
    """
    heads, found = num_heads(Path(model.folder)), []
    for cfg in (2, 1) if is_guided and num_devices % 2 == 0 else (1,):
        sequence = num_devices // cfg
        for ulysses in (each for each in range(sequence, 0, -1) if sequence % each == heads % each == 0):
            rest = sequence // ulysses
            for ring, allgather in ((1, rest), (rest, 1)) if rest > 1 else ((1, 1),):
                # cfg is no divisor of a share: the groups of both branches may hold the weights between them, too
                for weights in sorted({1, sequence, num_devices}):
                    found.append(
                        ParallelPlan(cfg=cfg, ulysses=ulysses, ring=ring, allgather=allgather, weights=weights)
                    )
        for layers in (each for each in range(2, sequence + 1) if sequence % each == 0):
            ulysses = math.gcd(heads, sequence // layers)
            exact = ParallelPlan.exact(cfg=cfg, ulysses=ulysses, exchange=sequence // layers // ulysses)
            found.append(dataclasses.replace(exact, layers=layers))
    return tuple(found)


def why_not(plan: ParallelPlan, model: Model) -> str:
    """Why this model cannot run by this plan; "" if it can. Reads config files only."""
    if not plan.splits_forward:
        return ""
    if not model.family and plan.num_shares > 1:
        return worded(
            "plan {}: each rank holds all of a pipeline that is run whole; leave weights and layers out of the plan",
            plan,
        )
    folder = Path(model.folder)
    if whole := why_whole(folder):
        return worded("plan {}: {}; use one device, or cfg=2 for a model with guidance", plan, whole)
    for class_name in transformers(folder).values() if plan.text != "auto" else ():
        if not SPLIT_PLANS[class_name].either:
            return worded(
                "plan {}: {} has no text stream that could be sharded or replicated; leave text out", plan, class_name
            )
    return why_unshared(plan, model)


def why_unshared(plan: ParallelPlan, model: Model) -> str:
    """Why ranks cannot share the model's weights as the plan says; "" if they can, or do not."""
    try:
        if plan.num_shares > 1:
            check_shareable(model, plan)
    except ValueError as error:
        return str(error)
    return ""


def auto_plan(model: Model, num_devices: int, *, is_guided: bool) -> tuple[ParallelPlan, str]:
    """The plan for up to `num_devices` devices, and one sentence for the user why. Reads config files only.

    `is_guided`: every step runs the transformer for the prompt and for the negative prompt. A transformer that cannot
    be split uses two devices, or one: give the ranks the first `plan.num_ranks` devices.
    """
    if num_devices < 1:
        raise BadInput("plan auto: {} devices were given; give at least one, such as cpu", num_devices)
    if num_devices == 1:
        return ParallelPlan(), "plan auto is one process, because one device was given"
    if whole := why_whole(Path(model.folder)):
        if not is_guided:
            return ParallelPlan(), worded("plan auto is one process on 1 of {} devices: {}", num_devices, whole)
        plan = ParallelPlan(cfg=2)
        return plan, worded(
            "plan auto is {} on 2 of {} devices, one for each branch of guidance: {}", plan, num_devices, whole
        )
    cfg = 2 if is_guided and num_devices % 2 == 0 else 1
    left, heads = num_devices // cfg, num_heads(Path(model.folder))
    ulysses = math.gcd(heads, left)
    plan = ParallelPlan(cfg=cfg, ulysses=ulysses, allgather=left // ulysses)
    return plan, worded("plan auto is {} on {} devices: {}", plan, num_devices, _why_split(plan, heads, is_guided))


def check_plan(plan: ParallelPlan, num_devices: int) -> None:
    """Refuse a plan that the user wrote for another number of devices."""
    if plan.num_ranks != num_devices:
        raise BadInput(
            "plan {} uses {}, but {} {} given; use plan auto, or give {}",
            plan,
            _count(plan.num_ranks, "rank"),
            _count(num_devices, "device"),
            "was" if num_devices == 1 else "were",
            _count(plan.num_ranks, "device"),
        )


def _why_split(plan: ParallelPlan, heads: int, is_guided: bool) -> str:
    """The steps of the rule that made this plan."""
    reasons = []
    if plan.cfg > 1:
        reasons.append(f"each of the two branches of guidance gets {_count(plan.sequence, 'device')}")
    elif is_guided:
        reasons.append("an odd number cannot be halved between the branches of guidance")
    if plan.ulysses > 1:
        reasons.append(f"ulysses={plan.ulysses} divides the transformer's {heads} heads")
    if plan.allgather > 1:
        alone = f"does it all, since {plan.allgather} and the transformer's {heads} heads share no divisor"
        reasons.append(f"allgather={plan.allgather} {'takes the rest' if plan.ulysses > 1 else alone}")
    return ", ".join(reasons)


def why_whole(folder: Path) -> str:
    """Why a transformer of the model cannot be split, as `split_plan_of` would say; "" if all can."""
    for name, class_name in transformers(folder).items():
        if class_name in REFUSED:
            return worded("{} cannot be split, because {}", class_name, REFUSED[class_name])
        if class_name not in SPLIT_PLANS:
            return worded("there is no split plan for {}", class_name)
        config = SimpleNamespace(**read_config(folder, name))
        for reason, is_refused in SPLIT_PLANS[class_name].refused:
            # Files of older diffusers leave keys out: the class's default stands, which none refuses.
            with contextlib.suppress(AttributeError):
                if is_refused(config):
                    return worded("this {} cannot be split, because {}", class_name, reason)
    return ""


def transformers(folder: Path) -> dict[str, str]:
    """The classes of the model's transformers, by their names in model_index.json."""
    named = components_of(read_index(folder))
    return {name: class_name for name, (_, class_name) in named.items() if name.startswith("transformer")}


def num_heads(folder: Path) -> int:
    """What divides this divides the heads of all transformers; 1 where a config does not tell."""
    return math.gcd(*(heads_of(read_config(folder, name)) for name in transformers(folder))) or 1


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# ---- What a denoise is asked for, of a request or of a workflow before it runs.

AUTO = "auto"
LEFT_OPEN = ("", AUTO, COMPILING)
BY_HAND = "it was written by hand"
ALONE = "one process, because neither the workflow nor the run names devices"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Zeros are the model's own."""

    width: int = 0
    height: int = 0
    frames: int = 0
    batch: int = 1
    steps: int = 0
    text_length: int = 0  # tokens of the prompt, padded
    num_references: int = 0
    is_guided: bool = False
    has_step_cache: bool = False

    def canvas(self, model: Model) -> Latents:
        """Raises `ValueError` for a size that the model cannot paint."""
        return empty_canvas(model, width=self.width, height=self.height, frames=self.frames, fps=0.0, batch=self.batch)

    def of_size(self, size: Latents) -> Wanted:
        shape = {name: getattr(size, name) for name in ("width", "height", "frames", "batch")}
        return dataclasses.replace(self, **shape)

    def settled(self, model: Model) -> Wanted:
        """With the model's own numbers where zeros are. Raises as `canvas` does."""
        canvas, card = self.canvas(model), card_of(model)
        steps, text_length = self.steps or card.steps, self.text_length or card.text_length
        return dataclasses.replace(self.of_size(canvas), steps=steps, text_length=text_length)


def wanted_by(request: Denoise, *, is_guided: bool) -> Wanted:
    found = Wanted(
        steps=request.steps,
        text_length=text_length_of(request.conditioning),
        num_references=len(request.conditioning.references),
        is_guided=is_guided,
        has_step_cache=request.step_cache != "none",
    )
    return found.of_size(request.latents)


def is_guided(model: Model, *, guidance: float = 0.0, guidance_2: float = 0.0) -> bool:
    """Whether every step of a denoise asks the transformer twice."""
    return max(guidance or card_of(model).guidance, guidance_2) > 1


def text_length_of(conditioning: Conditioning) -> int:
    """Tokens of the longest text; 0 where there is none."""
    return max((tensor.shape[1] for tensor in conditioning.positive.values() if tensor.ndim == 3), default=0)


def num_steps_of(request: Denoise) -> int:
    """How many steps it will do: fewer than it is asked for where a start picture is painted over in part."""
    from ..requests import first_step

    steps = len(request.sampling.sigmas) or request.steps or card_of(request.model).steps
    return steps - first_step(steps, request.strength)


def at_work(model: Model, *, has_step_cache: bool = False) -> Model:
    """The model as it works by the plan of its place, which may have its transformer compiled whatever it says."""
    compiled = compiles(model, has_step_cache=has_step_cache)
    return dataclasses.replace(model, engine="inductor") if compiled else model


def spelt_at_work(plan: ParallelPlan, model: Model, *, has_step_cache: bool) -> str:
    """`ulysses=2,compiled` where the plan has the transformer compiled."""
    return f"{plan}{MARK * compiles(model, has_step_cache=has_step_cache)}"
