"""The fastest plan among those that fit, what would be faster and rounds differently, and what makes one fit.

What is chosen cannot change a result: plans that compute each number by the same sums are chosen from freely, one that
rounds differently (a ring merges partial answers, a compiled transformer) never, but what it would save is told.
Devices stay idle where twice as many would save next to nothing. A step that is replayed as a CUDA graph has the bits
of one that is not.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ...parallel.plan import ParallelPlan, Text
from ...parallel.wording import worded
from ..components.memory import USABLE_SHARE
from ..costs.chips import COMPILE_S, GIB
from ..costs.machine import Machine
from ..costs.run import Run, duration
from ..costs.step import Demand
from ..families import FAMILIES
from ..models.describe import LEAST_STEPS, card_of, check_engine, why_no_graphs
from ..shape import nearest_size, size_multiple
from ..split_plans import SPLIT_PLANS
from ..values import Latents, Model, Quantization
from .memory import Work, fits
from .plans import Wanted, plans_for, transformers, why_unshared, why_whole
from .weights import Need

ROUNDING_GAIN = 0.1  # which part of the time what rounds differently would save, where it is told; it is never chosen
IDLE_GAIN = 0.05  # which part of the time more devices must save, or they stay idle
AS_FAST = 0.01  # of plans that differ by less, the plainest is taken
DOUBT = 0.25  # which part of the time another plan than the rule's must save by rates that are assumed


C = TypeVar("C")


def spelt(run: Run) -> str:
    plan = "one device" if run.plan.num_ranks == 1 else str(run.plan)
    return f"{run.replicas} replicas of {plan}" if run.replicas > 1 else plan


def possible(model: Model, num_devices: int, *, is_guided: bool) -> list[ParallelPlan]:
    """The plans that the model can run by on so many devices, or on fewer."""
    if why_whole(Path(model.folder)):
        return [ParallelPlan(cfg=cfg) for cfg in (1, 2) if cfg <= min(num_devices, 1 + is_guided)]
    classes = transformers(Path(model.folder)).values()
    texts: tuple[Text, ...] = ("auto",)
    if all(name in SPLIT_PLANS and "text" in SPLIT_PLANS[name].either for name in classes):
        texts = ("auto", "replicated")
    found = [
        replace(plan, text=text) if plan.sequence > 1 else plan
        for count in counts(num_devices)
        for plan in plans_for(model, count, is_guided=is_guided)
        for text in (texts if plan.sequence > 1 else ("auto",))
    ]
    return [plan for plan in found if not why_unshared(plan, model)]


def counts(num_devices: int) -> list[int]:
    """Counts of devices worth a thought: what divides them all, and powers of two."""
    divisors = [each for each in range(1, num_devices + 1) if num_devices % each == 0]
    powers = [1 << power for power in range(num_devices.bit_length())]
    return sorted({*divisors, *powers})


def best(found: Sequence[Run]) -> Run | None:
    """The one to take of those that fit and round alike; None where there is none."""
    return settled(
        [each for each in found if not (each.lacking_bytes or each.rounds_differently)],
        seconds=lambda each: each.all_s,
        num_devices=lambda each: each.num_devices,
        tie=lambda each: (each.streamed_bytes > 0, *plainness(each.plan), each.num_bytes),
    )


def pick(found: Sequence[Run], rule: ParallelPlan, machine: Machine) -> Run | None:
    """The one to take on this machine; None where none fits."""
    fitting = [each for each in found if not (each.lacking_bytes or each.rounds_differently)]
    # Rates that nobody measured are too far off to leave a device idle by them.
    if machine.name == "here" and not machine.is_measured:
        fitting = [each for each in fitting if each.num_devices == machine.num_devices] or fitting
    fastest = best(fitting)
    if fastest is None or not machine.is_assumed:
        return fastest
    plain = next((each for each in fitting if each.plan == rule), None)
    return fastest if plain is None or fastest.all_s <= (1 - DOUBT) * plain.all_s else plain


def plainness(plan: ParallelPlan) -> tuple[float, ...]:
    """Of plans that take as long the one with the lowest key: text where it is by itself, whole weights, one axis."""
    return plan.text != "auto", plan.num_shares, len(plan.strategies) + (plan.cfg > 1)


def settled(
    found: Iterable[C],
    *,
    seconds: Callable[[C], float],
    num_devices: Callable[[C], int],
    tie: Callable[[C], tuple[float, ...]],
) -> C | None:
    """The fastest, but for what the rules of this module say about idle devices and plans that are about as fast."""
    by_count: dict[int, list[C]] = {}
    for each in found:
        by_count.setdefault(num_devices(each), []).append(each)
    chosen: C | None = None
    for count in sorted(by_count):
        least = min(map(seconds, by_count[count]))
        fastest = min((each for each in by_count[count] if seconds(each) <= (1 + AS_FAST) * least), key=tie)
        if chosen is None or seconds(fastest) <= (1 - IDLE_GAIN) * seconds(chosen):
            chosen = fastest
    return chosen


def lacking(needs: Sequence[Need], machine: Machine) -> int:
    """By how many bytes the ranks of one or several groups do not fit on the machine; 0 where they do."""
    devices, beyond = machine.devices[: len(needs)], 0
    if machine.limit_bytes:  # of each rank
        beyond = max(0, math.ceil(max(need.own_bytes for need in needs) / USABLE_SHARE) - machine.limit_bytes)
    room = dict.fromkeys(devices, machine.memory_bytes)
    if all(fits(needs, devices, room)):
        return beyond
    # Ranks that share a memory, and mapped files that they share, make no simple sum; so the least memory that would do
    # is searched for, to a MiB.
    low, high = machine.memory_bytes, 64 * machine.memory_bytes + sum(need.num_bytes for need in needs)
    while high - low > 1 << 20:
        middle = (low + high) // 2
        enough = all(fits(needs, devices, dict.fromkeys(room, middle)))
        low, high = (low, middle) if enough else (middle, high)
    return max(beyond, high - machine.memory_bytes)


def text_encoders(
    work: Work, demand: Demand, plan: ParallelPlan, machine: Machine, *, room: int, replicas: int
) -> tuple[int, int, float]:
    """(how many ranks hold text encoders between them, the bytes that come for each text to whoever encodes, the
    seconds that a new prompt adds).

    Where text encoders and transformer have no room beside each other on the first device, each goes up anew for a new
    prompt, out of files that memory keeps (`components/store.py`); a share of weights stays, and so do blocks that
    stream, at the host. Ranks hold them between them if shares have room beside the transformer, and blocks come over
    the wire between the devices in half the time or less, as no rank denoises meanwhile. On a CPU files are mapped,
    and nothing moves.
    """
    num_devices, count = machine.num_devices // replicas, plan.num_ranks
    streamed, texts = work.streamed_bytes(plan, room), work.streamed_text_bytes(plan, room, num_devices=num_devices)
    if machine.kind == "cpu" or work.together(plan, num_devices=num_devices) <= room:
        return 1, texts, 0.0
    again = demand.transformer_bytes - streamed * len(work.transformers) if plan.num_shares == 1 else 0
    turns_s = (work.encoder_bytes - texts + again) / machine.upload_bytes_per_s
    if count > 1 and not streamed and all(part.streams for part in work.text):
        blocks = sum(part.num_bytes - part.outside_bytes for part in work.text)
        gathered_s = demand.num_texts * blocks / machine.gathering(count * replicas, sharing=count)
        else_s = demand.num_texts * texts / machine.streaming(replicas) + turns_s
        if work.together(plan, encoders=count) <= room and 2 * gathered_s <= else_s:
            return count, blocks, 0.0
    return 1, texts, turns_s


def replicas_of(num_groups: int, num_runs: int) -> list[int]:
    """Counts of groups worth a thought, where there is room for so many."""
    most = min(num_groups, num_runs)
    return sorted({most, *(each for each in counts(num_groups) if each <= most)})


def ring_hint(found: Iterable[Run], chosen: Run | None) -> str:
    """What a ring would save of the choice, or that one alone has room; "" where less than a tenth is saved."""
    rings = [each for each in found if each.rounds_differently and not each.lacking_bytes]
    ring = min(rings, key=lambda each: each.all_s, default=None)
    if ring is None:
        return ""
    if chosen is None:
        return worded("{} would fit, and rounds differently", spelt(ring))
    if (gain := _gain(ring, chosen)) < ROUNDING_GAIN:
        return ""
    return worded("{} would be {:.0%} faster, and rounds differently", spelt(ring), gain)


def compiled_hint(compiled: Sequence[Run], chosen: Run, num_runs: int) -> str:
    """What a compiled transformer would save, and how many runs make up for compiling it; "" where less than a tenth is
    saved.
    """
    swift = best(compiled)
    if swift is None or (gain := _gain(swift, chosen)) < ROUNDING_GAIN:
        return ""
    least = math.ceil(COMPILE_S * num_runs / (chosen.all_s - swift.all_s))
    told = worded("compiled, {} would be {:.0%} faster, and rounds differently", spelt(swift), gain)
    runs = f"{least} runs make" if least > 1 else "one run makes"
    return worded("{}; compiling takes about {} the first time, which {} up for", told, duration(COMPILE_S), runs)


def _gain(other: Run, chosen: Run) -> float:
    return 1 - other.all_s / chosen.all_s


def may_compile(model: Model, wanted: Wanted, machine: Machine) -> bool:
    """Whether what compiling would save is worth a word: nobody has measured that on a CPU."""
    if model.is_compiled or wanted.has_step_cache or machine.kind != "cuda":
        return False
    try:
        check_engine("inductor", device=machine.kind if machine.name == "here" else "")
    except ValueError:
        return False
    return True


def is_captured(model: Model, machine: Machine, *, steps: int, has_step_cache: bool = False) -> bool:
    """Whether steps are replayed as CUDA graphs by plans that share no weights, memory allowing."""
    may = not why_no_graphs(model, ParallelPlan(), has_step_cache=has_step_cache)
    wanted = model.graphs == "on" or (model.graphs == "auto" and may and steps >= LEAST_STEPS)
    return wanted and machine.kind == "cuda"


def graphs_told(model: Model, machine: Machine, plan: ParallelPlan, *, steps: int) -> str:
    """How steps are replayed, or why not; "" where nobody would expect it."""
    if machine.kind != "cuda" or model.graphs == "off":
        return ""
    reason = why_no_graphs(model, plan, has_step_cache=False)
    if not reason and not is_captured(model, machine, steps=steps):
        reason = f"{steps} are too few to pay for them the first time"
    return worded("steps without CUDA graphs: {}", reason) if reason else "steps as CUDA graphs, where memory allows"


# ---- What to ask differently so that a denoise fits: each way is reckoned anew, and told only where it does.

MIB = 1 << 20
SMALLEST = 4  # a picture is not made smaller than the model's own area, divided by this


@dataclass(frozen=True, kw_only=True)
class Mend:
    """One way: what it is in words, and the values by the names of sockets."""

    words: str
    values: Mapping[str, str | int]
    num_bytes: int  # what the fullest device then holds
    plan: str = ""  # the plan that was chosen for it, where one was

    def __str__(self) -> str:
        return f"{self.words} ({amount(self.num_bytes)})"


Fit = tuple[int, str]  # how a denoise fits: bytes on the fullest device, and the plan where one was chosen for it
# How a denoise of that model and size fits; None where it does not, or cannot be.
Ask = Callable[[Model, Latents], Fit | None]


def mends_of(
    model: Model, canvas: Latents, ask: Ask, *, quantizations: Sequence[Quantization], plans: Sequence[Mend] = ()
) -> list[Mend]:
    """The cheapest first: fewer bits, shared weights, a smaller picture, fewer frames, another plan, fewer at once.

    `plans` are those that fit the model as it is. Reads config files and headers only.
    """
    shared = [plan for plan in plans if "weights=" in plan.words][:1]
    others = [plan for plan in plans if "weights=" not in plan.words][:1]
    return [
        *_fewer_bits(model, canvas, ask, quantizations),
        *shared,
        *_smaller(model, canvas, ask),
        *_shorter(model, canvas, ask),
        *others,
        *_largest(model, canvas, ask, [{"batch": batch} for batch in range(canvas.batch - 1, 0, -1)], "batch {batch}"),
    ]


def amount(num_bytes: float) -> str:
    """For people."""
    return f"{num_bytes / GIB:.1f} GiB" if num_bytes >= GIB else f"{num_bytes / MIB:.0f} MiB"


def _fewer_bits(model: Model, canvas: Latents, ask: Ask, quantizations: Sequence[Quantization]) -> list[Mend]:
    if model.quantization != "none":
        return []
    for each in quantizations:
        if fit := ask(dataclasses.replace(model, quantization=each), canvas):
            return [Mend(words=f"quantization {each}", values={"quantization": each}, num_bytes=fit[0], plan=fit[1])]
    return []


def _smaller(model: Model, canvas: Latents, ask: Ask) -> list[Mend]:
    """The largest picture of about this shape."""
    card, num_steps = card_of(model), max(canvas.width, canvas.height) // size_multiple(model)
    sizes = [
        nearest_size(model, canvas.width * step // num_steps, canvas.height * step // num_steps)
        for step in range(num_steps - 1, 0, -1)
    ]
    shapes = [{"width": w, "height": h} for w, h in sizes if SMALLEST * w * h >= card.width * card.height]
    return _largest(model, canvas, ask, shapes, "{width} x {height}")


def _shorter(model: Model, canvas: Latents, ask: Ask) -> list[Mend]:
    """The longest video."""
    family = FAMILIES[model.family]
    step = family.frame_multiple or 1
    lengths = range(canvas.frames - step, family.least_frames - 1, -step) if family.frame_multiple else ()
    return _largest(model, canvas, ask, [{"frames": frames} for frames in lengths], "{frames} frames")


def _largest(model: Model, canvas: Latents, ask: Ask, shapes: Sequence[Mapping[str, Any]], words: str) -> list[Mend]:
    """The first of these shapes that fits, in a list; none where none does."""
    low, high, found = 0, len(shapes), list[Mend]()
    while low < high:  # each takes less than the one before, so that the first that fits is found by halves
        middle = (low + high) // 2
        values = shapes[middle]
        if fit := ask(model, dataclasses.replace(canvas, **values)):
            high = middle
            found = [Mend(words=words.format(**values), values=values, num_bytes=fit[0], plan=fit[1])]
        else:
            low = middle + 1
    return found
