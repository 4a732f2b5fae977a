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
from functools import lru_cache
from pathlib import Path

from ...parallel.machine.folders import user_cache
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ..costs.machine import Machine
from ..models.json_file import read_object, write_object
from ..values import Model
from .choice import Candidate, best, rival_of
from .known import Spot, machine_at, spot_of, stamp_of
from .planned import GIB, Planned, duration, planned, reasons, rejected, spelt
from .plans import auto_plan, why_whole
from .wanted import Wanted, by_bucket

FORMAT, MAX_BYTES = 1, 4096
KEPT = "it was chosen before and stays; latentloom plan --relearn chooses anew"
MADE_BY = "the workflow's result was made by it; plan auto, where it is asked for by name, chooses anew"
DOUBT = 0.25
"""Which part of the time another plan than the rule's must save by rates that are assumed."""


logger = logging.getLogger("latentloom")


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What a plan is tried against before it is kept, since it may be as fast (duel.py)."""

    rival: ParallelPlan
    path: Path
    """Where the winner will be kept."""
    is_measured: bool
    """Whether the machine was measured when the two were found."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A plan, and one sentence why."""

    plan: ParallelPlan
    why: str
    rejected: tuple[tuple[str, float, str], ...] = ()
    """Other plans, the seconds of one of their steps, and why not."""
    contest: Contest | None = None

    @property
    def rounds_differently(self) -> bool:
        return self.plan.ring > 1


@dataclass(frozen=True, kw_only=True)
class Leeway:
    """What a denoise may choose of its plan: anything; nothing but what round alike, where nobody has foreseen the
    plan, so that it is no part of the result's key; or nothing at all, since its host has chosen, for a denoise with
    guidance or without.
    """

    choice: Chosen | None = None
    is_guided: bool = False
    may_round: bool = True


FREE, EXACT = Leeway(), Leeway(may_round=False)


def choose(
    model: Model,
    wanted: Wanted,
    *,
    now: Sequence[DeviceNow] | None = None,
    may_round: bool = True,
    keeps: bool = False,
    wish: ParallelPlan | None = None,
) -> Chosen:
    """For the devices of the model's place, on this machine as it is `now` (see `spot_of`). Reads headers and configs
    only, once. `wish` is taken where it is possible and fits. With `keeps` the choice, or the winner of its contest, is
    this user's until `latentloom plan --relearn`. Raises `ValueError` for a size that the model cannot paint.
    """
    place = model.place
    devices, groups = place.devices[: place.group_size], place.replicas
    if len(devices) == 1 and groups > 1:
        return Chosen(plan=ParallelPlan(), why=f"plan auto is one process: {groups} groups work on separate runs")
    if len(devices) <= 1 or why_whole(Path(model.folder)):
        return _by_rule(model, len(devices), wanted.is_guided)
    if not model.family:
        return _by_rule(model, len(devices), wanted.is_guided, "how long a pipeline's steps take is not known")
    if place.cluster:
        return _by_rule(model, len(devices), wanted.is_guided, "the machines of a cluster are not measured")
    spot, folder = spot_of(place.devices, now), choices_folder()
    wanted = by_bucket(wanted, model)
    path = folder and choice_path(folder, model, wanted, spot, groups=groups)
    stamp = stamp_of(path) if path else 0
    choice, is_new, rival = _chosen(model, wanted, spot, groups, path, stamp, may_round, wish)
    if not (keeps and may_round and path and is_new):
        return choice
    is_measured = machine_at(spot).is_measured
    if rival is not None:
        return replace(choice, contest=Contest(rival=rival, path=path, is_measured=is_measured))
    keep_choice(path, KeptChoice(plan=choice.plan, is_measured=is_measured), model)
    return choice


def _by_rule(model: Model, num_devices: int, is_guided: bool, reason: str = "") -> Chosen:
    plan, why = auto_plan(model, num_devices, is_guided=is_guided)
    return Chosen(plan=plan, why=f"{why}; by rule, because {reason}" if reason else why)


@lru_cache(maxsize=256)
def _chosen(
    model: Model,
    wanted: Wanted,
    spot: Spot,
    groups: int,
    path: Path | None,
    stamp: int,
    may_round: bool,
    wish: ParallelPlan | None,
) -> tuple[Chosen, bool, ParallelPlan | None]:
    """For each of so many groups of the spot's devices; and whether it is another than what is kept at the path, which
    changed last at `stamp`, and which other plan may be as fast.
    """
    machine = machine_at(spot)
    group_size = machine.num_devices // groups
    try:
        found = planned(
            model,
            wanted,
            machine,
            groups=groups if groups > 1 else 0,
            pick=lambda found, rule: pick(found, rule, machine, may_round=may_round),
        )
    except ValueError as error:
        return _by_rule(model, group_size, wanted.is_guided, str(error)), False, None
    refused = ""
    if wish is not None:
        asked = kept_candidate(KeptChoice(plan=wish, is_measured=True), found, may_round=may_round)
        if asked is not None and (wish.num_ranks == group_size or asked.rounds_differently):
            return _told(found, asked, why=MADE_BY), False, None
        why_not = "cannot be had here" if asked is None else f"is not for {group_size} devices"
        refused = f"the plan {wish} that the workflow's result was made by {why_not}, so another is chosen: "
    before = read_choice(path) if path and stamp else None
    again = kept_candidate(before, found, may_round=may_round)
    if before is not None and again is None:
        refused += _why_no_more(before, found)
    if again is not None:
        return _told(found, again, why="" if again == found.chosen else KEPT, before=refused), False, None
    if found.chosen is not None:
        is_made = model.compiled or model.cuda_graph  # anew for each plan, which takes longer than it saves
        rival = None if machine.is_assumed or is_made else rival_of(found.chosen, found.found)
        return _told(found, found.chosen, before=refused), True, rival and rival.plan
    exact = [each for each in found.found if not each.rounds_differently]
    least = min(exact, key=lambda each: (each.lacking_bytes, each.seconds))
    return _told(found, least, before=refused), False, None


def as_kept(answer: Planned) -> Planned:
    """A plan for this machine, with the choice that is kept for its devices in place of another one."""
    folder, canvas = choices_folder(), answer.canvas
    size = {"width": canvas.width, "height": canvas.height, "frames": canvas.frames, "batch": canvas.batch}
    wanted = Wanted(**size, is_guided=answer.job.forward.branches > 1)
    path = folder and choice_path(folder, answer.model, wanted, spot_of(answer.machine.devices))
    again = kept_candidate(read_choice(path), answer) if path else None
    if again is None or again == answer.chosen:
        return answer
    why = f"{KEPT}; {reasons(answer, again)}"
    return replace(answer, chosen=again, why=why, rejected=rejected(answer, again), hint="")


def kept_candidate(before: KeptChoice | None, found: Planned, *, may_round: bool = True) -> Candidate | None:
    """What was chosen before, where it is possible and fits. What was chosen without measurements gives way to them,
    unless it rounds differently: results are kept by it.
    """
    if before is None or (before.plan.ring > 1 and not may_round):
        return None
    if found.machine.is_measured and not before.is_measured and before.plan.ring == 1:
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
    return f"the plan {before.plan} that was chosen before {why}, so another is chosen: "


def pick(found: Sequence[Candidate], rule: ParallelPlan, machine: Machine, *, may_round: bool) -> Candidate | None:
    """The one to take of those that fit; None where none does."""
    fitting = [each for each in found if not each.lacking_bytes]
    if not machine.is_measured:
        fitting = [each for each in fitting if each.num_devices == machine.num_devices] or fitting
    if machine.is_assumed or not may_round:
        fitting = [each for each in fitting if not each.rounds_differently]
    fastest = best(fitting)
    if fastest is None or not machine.is_assumed:
        return fastest
    plain = next((each for each in fitting if each.plan == rule), None)
    return fastest if plain is None or fastest.seconds <= (1 - DOUBT) * plain.seconds else plain


def _told(found: Planned, taken: Candidate, *, why: str = "", before: str = "") -> Chosen:
    answer = replace(found, chosen=taken)
    there = found.machine.num_devices
    where = f"{there} devices" if taken.num_devices == there else f"{taken.num_devices} of {there} devices"
    each = "" if taken.replicas == 1 else f" in each of {taken.replicas} groups"
    step = f"a step is predicted to take {duration(taken.run.step.seconds)} ({found.machine.title})"
    if taken.lacking_bytes:
        why = "no plan fits, and it lacks least"
    return Chosen(
        plan=taken.plan,
        why=f"{before}plan auto is {taken.plan}{each} on {where}: {why or reasons(answer, taken)}; {step}",
        rejected=tuple((spelt(each), each.run.step.seconds, words) for each, words in rejected(answer, taken)),
    )


# ---- kept: one small file for each machine, model, size and number format, read as a stranger's


@dataclass(frozen=True, kw_only=True)
class KeptChoice:
    plan: ParallelPlan
    is_measured: bool
    """Whether the machine was measured when the plan was chosen."""


def choices_folder() -> Path | None:
    """None for a user without a home."""
    folder = user_cache()
    return folder and folder / "plans"


def choice_path(folder: Path, model: Model, wanted: Wanted, spot: Spot, *, groups: int = 1) -> Path:
    """Where the choice for this model and these devices, in so many groups, is kept, for as many pixels in all frames
    and pictures, up to the next power of two.
    """
    canvas = wanted.canvas(model)
    pixels = canvas.width * canvas.height * canvas.frames * canvas.batch
    kind = [model.dtype, model.quantization, model.compiled, model.cuda_graph, len(model.loras), wanted.is_guided]
    told = [FORMAT, spot.here.key, list(spot.devices), (pixels - 1).bit_length(), *kind, *[groups] * (groups > 1)]
    return folder / f"{_name_of(model)}-{_hash(json.dumps(told))}.json"


def read_choice(path: Path) -> KeptChoice | None:
    """None where nothing was chosen yet, or what is there cannot be read."""
    try:
        plain = read_object(path, what="kept plan", max_bytes=MAX_BYTES)
        if plain["format"] != FORMAT or type(plain["is_measured"]) is not bool:
            return None
        return KeptChoice(plan=ParallelPlan.parse(str(plain["plan"])), is_measured=plain["is_measured"])
    except (ValueError, KeyError):
        return None


def keep_choice(path: Path, choice: KeptChoice, model: Model) -> None:
    """A folder that cannot be written costs the choice, not the run."""
    plain = {"format": FORMAT, "model": model.source, "plan": str(choice.plan), "is_measured": choice.is_measured}
    try:
        write_object(path, plain)
    except OSError as error:
        logger.warning("the plan %s is not kept for the next run: %s", choice.plan, error.strerror)


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
