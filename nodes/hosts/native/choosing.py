"""The plan `auto` of a MODEL: by the sizes of the model and of the call at hand, with the planner of our own.

Whichever plan it is, each rank holds all weights, so that memory tells plans apart by next to nothing, and seconds
decide. Plans that round differently are none of the choice. Where nobody knows the machine's rates, the rule stands
unless another plan is predicted to save a quarter: conditionings first, then ulysses as far as heads divide.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ....parallel.plan import ParallelPlan
from ....parallel.sharding.split_plan import SplitPlan
from ....pipelines.costs.chips import software_of
from ....pipelines.costs.run import Run, duration, predict, volume
from ....pipelines.costs.step import Demand
from ....pipelines.forecast.choice import pick
from ....pipelines.forecast.known import machine_at, spot_of
from ....pipelines.models.passed import passed_by
from ....pipelines.values import Dtype, Place
from .rows import groups_of, num_rows, rows_apart
from .splits.parts import latents_of, patch_of

# What ComfyUI's classes, or the attention in their blocks, call their heads, and those of keys where these are fewer.
HEADS = ("num_heads", "num_attention_heads", "n_heads", "heads")
KEY_HEADS, HEAD_DIMS = ("kvheads", "n_kv_heads"), ("head_dim", "dim_head")
REFERENCES = ("ref_latents", "reference_latent", "context_latents")
MOST_TOLD = 2  # plans that were not taken
STEPS = 20  # of a run, so that what is around its steps counts little
DTYPES: Mapping[str, Dtype] = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}


def choose(model: nn.Module, split: SplitPlan, given: Mapping[str, Any], place: Place) -> tuple[ParallelPlan, str]:
    """The plan for a group of the place's devices and for calls such as this one, and a sentence why."""
    count, rows = place.group_size, rows_apart(model, given)
    if not split.order:
        plan = ParallelPlan(cfg=groups_of(rows, count))
        return plan, f"plan auto is {plan} for {rows} rows: {type(model).__name__} has no tokens to spread"
    demand = demand_of(model, split, given)
    machine = machine_at(spot_of(place.devices))
    software = software_of(is_compiled=False, sends_pieces=machine.kind == "cpu")

    def run_of(plan: ParallelPlan) -> Run:
        # Each group asks for its rows at once: as many forwards as groups, which go on together.
        batch = rows // plan.cfg
        asked = replace(demand, batch=batch, branches=plan.cfg, latent_bytes=batch * demand.latent_bytes)
        return predict(asked, plan, machine, software)

    found = [run_of(plan) for plan in plans_for(count, rows)]
    cfg = math.gcd(count, rows)
    ulysses = math.gcd(demand.heads, count // cfg)
    rule = ParallelPlan.exact(cfg=cfg, ulysses=ulysses, exchange=count // cfg // ulysses)
    chosen = pick(found, rule, machine)
    assert chosen is not None, "none of the plans rounds differently"
    others = sorted((each for each in found if each is not chosen), key=lambda each: each.step.seconds)[:MOST_TOLD]

    why = "by what is assumed of this machine, which was not measured"
    if machine.is_timed:
        told = [f"{each.plan} {duration(each.step.seconds)}" for each in (chosen, *others)]
        why = f"predicted for a step are {', '.join(told)}" if others else f"predicted are {told[0]} a step"
    size = f"{rows} row{'s' * (rows > 1)} of {demand.tokens} tokens and {demand.heads} heads"
    sent = f"each device sends {volume(chosen.step.sent_bytes)} a step"
    return chosen.plan, f"plan auto is {chosen.plan} for {size}: {why}; {sent}"


def plans_for(count: int, rows: int) -> Iterator[ParallelPlan]:
    """Every exact plan of so many devices by which calls of so many rows can be shared out; of those that take as long
    and are as plain the first is chosen, which sends least."""
    for cfg in (each for each in range(count, 0, -1) if math.gcd(count, rows) % each == 0):
        rest = count // cfg
        for ulysses in (each for each in range(rest, 0, -1) if rest % each == 0):
            yield ParallelPlan.exact(cfg=cfg, ulysses=ulysses, exchange=rest // ulysses)


def demand_of(model: nn.Module, split: SplitPlan, given: Mapping[str, Any]) -> Demand:
    """What one row of this call asks of devices; weights are looked at by their shapes alone."""
    from ....parallel.sharding.hooks import modules_at

    title = type(model).__name__
    blocks = [block for path in split.blocks for block in modules_at(model, path, title)]
    weights = [{name: each for name, each in block.named_parameters() if each.ndim > 1} for block in blocks]
    passed = [passed_by({name: each.numel() for name, each in each.items()}) for each in weights]
    image_weights, text_weights, context_weights = (sum(each[part] for each in passed) for part in range(3))
    width = Counter(each.shape[-1] for block in weights for each in block.values()).most_common(1)[0][0]
    heads = _counted(model, blocks[0], HEADS) or 1
    keys = _counted(model, blocks[0], KEY_HEADS) or heads
    latents, others = latents_of(given), [given.get(name) for name in REFERENCES]
    pictures = [*latents, *(each for more in others for each in (more if isinstance(more, list | tuple) else [more]))]
    tokens = sum(_num_tokens(each, patch_of(model)[-1]) for each in pictures if each is not None)
    context: Any = given.get("context")
    text = int(context.shape[1]) if getattr(context, "ndim", 0) > 2 else 0
    is_joint, is_stream = not split.attention, "text" in split.order  # else in cross attention; among the image's
    return Demand(
        image=tokens + text * (is_joint and not is_stream),
        text=text * (is_joint and is_stream),
        context=text * (not is_joint),
        layers=len(blocks),
        width=width,
        heads=heads,
        kv_heads=keys if heads % keys == 0 else heads,
        head_dim=_counted(model, blocks[0], HEAD_DIMS) or max(1, width // heads),
        image_weights=image_weights,
        text_weights=text_weights,
        context_weights=context_weights,
        latent_bytes=sum(each.nbytes for each in latents) // num_rows(given),
        steps=STEPS,
        dtype=DTYPES.get(str(latents[0].dtype), "fp32"),
    )


def _counted(model: nn.Module, block: nn.Module, names: tuple[str, ...]) -> int:
    """The first count by one of these names that the model has, or its block, or what is in that; 0 where none has."""
    found = (getattr(each, name, 0) for each in (model, *block.modules()) for name in names)
    return next((each for each in found if type(each) is int and each > 0), 0)


def _num_tokens(latents: Tensor, patch: int) -> int:
    """Of one row: of pictures a token for each patch, of sound one for each of its times and channels."""
    if latents.ndim < 4:
        return math.prod(latents.shape[2:])
    *more, height, width = latents.shape[2:]
    return math.prod(more) * -(-height // patch) * -(-width // patch)
