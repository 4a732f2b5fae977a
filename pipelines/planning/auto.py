"""The plan `auto` of a denoise: the planner's for its devices, and kept; the rule's where no time can be predicted.

Of a machine that nobody measured no device stays idle; where its rates are assumed too, the rule stands unless another
plan is predicted to save a quarter.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from ...parallel.machine.folders import user_cache
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ..costs.machine import Machine
from ..models.json_file import read_object, write_object
from ..values import Model, compiled_in_keys
from .choice import Candidate, pick, rival_of, spelt
from .compiling import Compiling, counted, why_not_compiled
from .known import Spot, machine_at, spot_of, stamp_of
from .planned import GIB, NUM_REJECTED, Planned, planned, reasons, rejected
from .plans import auto_plan, why_whole
from .terms import Chosen, Contest, Wanted, Way, by_bucket

FORMAT, MAX_BYTES = 1, 4096
KEPT = "it was chosen before and stays; latentloom plan --relearn chooses anew"
MADE_BY = "the workflow's result was made by it; plan auto, where it is asked for by name, chooses anew"
UNKNOWN = "how long it takes is not known"
NOT_FORETOLD = "what will be denoised is not known beforehand"


logger = logging.getLogger("latentloom")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """For how many groups of the devices a plan is chosen, and what it may be."""

    groups: int = 1
    may_round: bool = True
    num_runs: int = 0
    """Of the sweep, as `counted`, where the transformer may be compiled; else 0."""


PLAIN = Asked()


def choose(
    model: Model,
    wanted: Wanted,
    *,
    now: Sequence[DeviceNow] | None = None,
    may_round: bool = True,
    keeps: bool = False,
    wish: Way | None = None,
    num_runs: int = 1,
) -> Chosen:
    """For the devices of the model's place, on this machine as it is `now` (see `spot_of`). Reads headers and configs
    only, once. `wish` is taken where it is possible and fits. With `keeps` the choice, or the winner of its contest, is
    this user's until `latentloom plan --relearn`. Of so many runs this is one, which counts where it may compile.
    Raises `ValueError` for a size that the model cannot paint.
    """
    place, asks = model.place, model.place.may_compile and not model.is_compiled
    ruled = _ruled(model, wanted, is_all=not asks and not (wish and wish.is_compiled))
    if ruled is not None:
        return _eager(ruled, UNKNOWN) if asks else ruled
    spot, folder = spot_of(place.devices, now), choices_folder()
    wanted = by_bucket(wanted, model)
    why_eager = why_not_compiled(model, wanted, machine_at(spot)) if may_round else NOT_FORETOLD
    asked = Asked(groups=place.replicas, may_round=may_round, num_runs=counted(num_runs) if asks else 0)
    plain = replace(asked, num_runs=0)
    path = folder and choice_path(folder, model, wanted, spot, plain if why_eager else asked)
    stamp = stamp_of(path) if path else 0
    choice, is_new, rival = _chosen(model, wanted, spot, plain if why_eager else asked, path, stamp, wish, why_eager)
    if asks and why_eager and not choice.is_compiled:
        before = read_choice(choice_path(folder, model, wanted, spot, asked)) if folder else None
        choice = _eager(choice, why_eager, was_compiled=before is not None and before.is_compiled)
    if not (keeps and may_round and path and is_new):
        return choice
    is_measured = machine_at(spot).is_measured
    if rival is not None:
        return replace(choice, contest=Contest(rival=rival, path=path, is_measured=is_measured))
    keep_choice(path, KeptChoice(plan=choice.plan, is_compiled=choice.is_compiled, is_measured=is_measured), model)
    return choice


def _eager(choice: Chosen, why: str, *, was_compiled: bool = False) -> Chosen:
    """The choice where it might have been compiled, and why it is not."""
    return replace(choice, why=f"{choice.why}; not compiled{' as before' * was_compiled}, because {why}")


def _ruled(model: Model, wanted: Wanted, *, is_all: bool) -> Chosen | None:
    """The rule's plan, where no time can be predicted or the plan `is_all` that there is to choose; else None."""
    place = model.place
    size, by_rule = place.group_size, partial(_by_rule, model, place.group_size, wanted.is_guided)
    if size == 1 and place.replicas > 1 and is_all:
        return Chosen(
            plan=ParallelPlan(), why=f"plan auto is one process: {place.replicas} groups work on separate runs"
        )
    if (size <= 1 and is_all) or (size > 1 and why_whole(Path(model.folder))):
        return by_rule()
    if not model.family:
        return by_rule("how long a pipeline's steps take is not known")
    return by_rule("the machines of a cluster are not measured") if place.cluster else None


def _by_rule(model: Model, num_devices: int, is_guided: bool, reason: str = "") -> Chosen:
    plan, why = auto_plan(model, num_devices, is_guided=is_guided)
    return Chosen(plan=plan, why=f"{why}; by rule, because {reason}" if reason else why)


def both_planned(
    model: Model, wanted: Wanted, machine: Machine, asked: Asked, *, compiles: bool
) -> tuple[Planned, Planned | None]:
    """With the transformer as it is, and compiled where it may be. Raises `ValueError` where no time can be told."""

    def of(model: Model) -> Planned:
        return planned(
            model,
            wanted,
            machine,
            groups=asked.groups,
            num_runs=max(1, asked.num_runs),
            pick=lambda found, rule: pick(found, rule, machine, may_round=asked.may_round),
        )

    return of(model), of(replace(model, engine="inductor")) if compiles else None


def compared(eager: Planned, compiled: Planned | None, asked: Asked) -> Compiling | None:
    """The best of both; None where there is nothing to compare."""
    if compiled is None or eager.chosen is None or compiled.chosen is None or not asked.num_runs:
        return None
    return Compiling(eager=eager.chosen, compiled=compiled.chosen, num_runs=asked.num_runs)


@lru_cache(maxsize=256)
def _chosen(
    model: Model,
    wanted: Wanted,
    spot: Spot,
    asked: Asked,
    path: Path | None,
    stamp: int,
    wish: Way | None,
    why_eager: str,
) -> tuple[Chosen, bool, ParallelPlan | None]:
    """For each of the groups of the spot's devices; and whether it is another than what is kept at the path, which
    changed last at `stamp`, and which other plan may be as fast. Nothing is compiled where `why_eager` says why.
    """
    machine = machine_at(spot)
    group_size = machine.num_devices // asked.groups
    compiles = not why_eager and (asked.num_runs > 0 or (wish is not None and wish.is_compiled))
    try:
        eager, swift = both_planned(model, wanted, machine, asked, compiles=compiles)
    except ValueError as error:
        return _by_rule(model, group_size, wanted.is_guided, str(error)), False, None
    answers = {False: eager, True: swift}
    refused = ""
    if wish is not None:
        made_by = KeptChoice(plan=wish.plan, is_compiled=wish.is_compiled, is_measured=True)
        again = kept_candidate(made_by, answers[wish.is_compiled], may_round=asked.may_round)
        if again is not None and (wish.plan.num_ranks == group_size or wish.rounds_differently):
            answer = replace(answers[wish.is_compiled] or eager, chosen=again)
            return _told(answer, is_compiled=wish.is_compiled, why=MADE_BY), False, None
        lacks = f" ({why_eager})" if wish.is_compiled and why_eager else ""
        why_not = f"cannot be had here{lacks}" if again is None else f"is not for {group_size} devices"
        refused = f"the plan {wish} that the workflow's result was made by {why_not}, so another is chosen: "
    both = compared(eager, swift, asked)
    is_compiled = both is not None and both.pays
    fresh = (swift if is_compiled else None) or eager
    before = read_choice(path) if path and stamp else None
    answer = answers[before.is_compiled] if before else None
    again = kept_candidate(before, answer, may_round=asked.may_round)
    if before is not None and again is None:
        refused += _why_no_more(before, answer or eager)
    if before is not None and answer is not None and again is not None:
        if before.is_compiled == is_compiled and again == fresh.chosen:
            return _told(fresh, is_compiled=is_compiled, both=both, before=refused), False, None
        return (
            _told(replace(answer, chosen=again), is_compiled=before.is_compiled, why=KEPT, before=refused),
            False,
            None,
        )
    if fresh.chosen is not None:
        is_made = model.is_compiled or is_compiled  # anew for each plan: longer than it saves
        rival = None if machine.is_assumed or is_made else rival_of(fresh.chosen, fresh.found)
        return _told(fresh, is_compiled=is_compiled, both=both, before=refused), True, rival.plan if rival else None
    exact = [each for each in eager.found if not each.rounds_differently]
    least = min(exact, key=lambda each: (each.lacking_bytes, each.seconds))
    return _told(replace(eager, chosen=least), before=refused), False, None


def as_kept(answer: Planned) -> Planned:
    """A plan for this machine, with the choice that is kept for its devices in place of another one."""
    folder, canvas = choices_folder(), answer.canvas
    size = {"width": canvas.width, "height": canvas.height, "frames": canvas.frames, "batch": canvas.batch}
    wanted = Wanted(**size, is_guided=answer.job.forward.branches > 1, has_step_cache=False)
    path = folder and choice_path(folder, answer.model, wanted, spot_of(answer.machine.devices))
    before = read_choice(path) if path else None
    again = kept_candidate(before, answer) if before and not before.is_compiled else None
    if again is None or again == answer.chosen:
        return answer
    why = f"{KEPT}; {reasons(answer, again)}"
    return replace(answer, chosen=again, why=why, rejected=rejected(answer, again), hint="")


def kept_candidate(before: KeptChoice | None, found: Planned | None, *, may_round: bool = True) -> Candidate | None:
    """What was chosen before, where it is possible and fits. What was chosen without measurements gives way to them,
    unless it rounds differently: results are kept by it.
    """
    if before is None or found is None or (before.way.rounds_differently and not may_round):
        return None
    if found.machine.is_measured and not before.is_measured and not before.way.rounds_differently:
        return None
    return next((each for each in found.found if each.plan == before.plan and not each.lacking_bytes), None)


def _why_no_more(before: KeptChoice, found: Planned) -> str:
    """Why what was chosen before is not taken; "" where it only gives way to measurements, or may not round."""
    alike = next((each for each in found.found if each.plan == before.plan), None)
    if alike is not None and not alike.lacking_bytes:
        return ""
    why = "is none for these devices"
    if alike is not None:
        why = f"does not fit any more (it lacks {alike.lacking_bytes / GIB:.1f} GiB on a device)"
    return f"the plan {before.way} that was chosen before {why}, so another is chosen: "


def _told(
    answer: Planned, *, is_compiled: bool = False, both: Compiling | None = None, why: str = "", before: str = ""
) -> Chosen:
    """What the answer has chosen; `both` where it was compared with a compiled transformer, or that with this one. How
    long a step takes is told beside it, corrected by what runs here took.
    """
    taken, there = answer.chosen, answer.machine.num_devices
    assert taken is not None, "who asks has seen that something is chosen"
    devices = "one device" if there == 1 else f"{there} devices"
    where = devices if taken.num_devices == there else f"{taken.num_devices} of {devices}"
    each = "" if taken.replicas == 1 else f" in each of {taken.replicas} groups"
    if taken.lacking_bytes:
        why = "no plan fits, and it lacks least"
    why = why or "; ".join([reasons(answer, taken), *([both.words()] if both else [])])
    told = f"{before}plan auto is {Way(taken.plan, is_compiled)}{each} on {where}: {why}"
    rows = [(spelt(other), other.run.step.seconds, words) for other, words in rejected(answer, taken)]
    return Chosen(
        plan=taken.plan,
        is_compiled=is_compiled,
        why=f"{told}; reckoned for {answer.machine.title}",
        rejected=tuple([*([both.rejected()] if both else []), *rows][:NUM_REJECTED]),
    )


# ---- kept: one small file for each machine, model, size and number format, read as a stranger's


@dataclass(frozen=True, kw_only=True)
class KeptChoice:
    plan: ParallelPlan
    is_compiled: bool = False
    is_measured: bool
    """Whether the machine was measured when the plan was chosen."""

    @property
    def way(self) -> Way:
        return Way(self.plan, self.is_compiled)


def choices_folder() -> Path | None:
    """None for a user without a home."""
    folder = user_cache()
    return folder and folder / "plans"


def choice_path(folder: Path, model: Model, wanted: Wanted, spot: Spot, asked: Asked = PLAIN) -> Path:
    """Where the choice for this model and these devices, as they are asked for, is kept, for as many pixels in all
    frames and pictures, up to the next power of two.
    """
    canvas = wanted.canvas(model)
    pixels = canvas.width * canvas.height * canvas.frames * canvas.batch
    made = [compiled_in_keys(model.engine), model.graphs == "on"]
    kind = [model.dtype, model.quantization, *made, len(model.loras), wanted.is_guided]
    told = [FORMAT, spot.here.key, list(spot.devices), (pixels - 1).bit_length(), *kind]
    told += ["no graphs"] * (model.graphs == "off")
    told += [asked.groups] * (asked.groups > 1) + ["compiled", asked.num_runs] * (asked.num_runs > 0)
    return folder / f"{_name_of(model)}-{_hash(json.dumps(told))}.json"


def read_choice(path: Path) -> KeptChoice | None:
    """None where nothing was chosen yet, or what is there cannot be read."""
    try:
        plain = read_object(path, what="kept plan", max_bytes=MAX_BYTES)
        if plain["format"] != FORMAT or type(plain["is_measured"]) is not bool:
            return None
        way = Way.parse(str(plain["plan"]))
        return KeptChoice(plan=way.plan, is_compiled=way.is_compiled, is_measured=plain["is_measured"])
    except (ValueError, KeyError):
        return None


def keep_choice(path: Path, choice: KeptChoice, model: Model) -> None:
    """A folder that cannot be written costs the choice, not the run."""
    plain = {"format": FORMAT, "model": model.source, "plan": str(choice.way), "is_measured": choice.is_measured}
    try:
        write_object(path, plain)
    except OSError as error:
        logger.warning("the plan %s is not kept for the next run: %s", choice.way, error.strerror)


def forget_choices(model: Model | None = None) -> int:
    """Drop what is kept for a model, or all; how many choices these were. Raises `ValueError` where that may not be."""
    folder = choices_folder()
    found = [] if folder is None else list(folder.glob(f"{_name_of(model)}-*.json" if model else "*.json"))
    try:
        for path in found:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(
            f"kept plans in {folder} cannot be dropped ({error.strerror}); give yourself the right to write there"
        ) from None
    return len(found)


def _name_of(model: Model) -> str:
    return _hash(model.fingerprint or model.source)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
