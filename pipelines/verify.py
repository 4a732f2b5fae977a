"""Does a plan give the user's own model what one process gives? A small call, done both ways.

Random weights in a test cannot know every config, LoRA and library version: this asks the model itself, here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..parallel.group import Count
from ..parallel.plan import SHARDING, ParallelPlan
from ..parallel.pool.limits import Limits
from ..parallel.pool.pool import Pool
from ..parallel.pool.trial import Deadline
from ..parallel.progress import Progress
from ..parallel.ranks.seat import Seat
from .doors import follow, order
from .families import FAMILIES
from .models.describe import DtypeChoice, describe_model, pick_device, pick_dtype
from .models.folder import components_of, read_config, read_index
from .models.source import resolve_source
from .pools import preloads, preloads_of
from .requests import Denoise, EncodeImage, EncodeText
from .shape import size_multiple
from .split_plans import is_denoiser, plan_named
from .values import Latents, Model, References, from_plain, to_plain

if TYPE_CHECKING:
    from torch import Tensor

# How much of the largest latent a difference may be, by number format. fp32 is our promise; below it, both ways are
# rounded, and differently.
TOLERANCES = {"fp32": 1e-5, "bf16": 3e-2, "fp16": 4e-3}
PIXELS = 256
PROMPT = "a lighthouse on a cliff at dusk, waves below, a long exposure"
GUIDANCE = 3.0


@dataclass(frozen=True)
class Apart:
    """How far two results are apart."""

    difference: float
    largest: float  # of the values wanted

    @property
    def share(self) -> float:
        """The difference as a part of the largest value, or of 1 if that is smaller; infinite where one is a NaN."""
        share = self.difference / max(1.0, self.largest)
        return math.inf if math.isnan(share) else share


def farthest(pairs: Iterable[Apart]) -> Apart:
    return max(pairs, key=lambda each: each.share, default=Apart(0.0, 0.0))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came out of one plan."""

    plan: str
    difference: float
    largest: float
    tolerance: float
    sent_bytes: tuple[int, ...]
    calls: tuple[int, ...]
    is_same_everywhere: bool
    note: str = ""  # what else there is to say

    @property
    def is_equal(self) -> bool:
        return Apart(self.difference, self.largest).share <= self.tolerance and self.is_same_everywhere

    def plain(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "is_equal": self.is_equal}

    def __str__(self) -> str:
        bits = "the same bits on every rank" if self.is_same_everywhere else "ANOTHER RESULT ON EACH RANK"
        sent = max(self.sent_bytes) / 1e6
        return (
            f"{self.plan}: {'pass' if self.is_equal else 'FAIL'}, largest difference {self.difference:.2g} of "
            f"{self.largest:.3g} (allowed {self.tolerance:g} of it), {bits}; "
            f"each rank sent {sent:.2f} MB in {max(self.calls)} exchanges"
            f"{'; ' if self.note else ''}{self.note}"
        )


def size_of(text: str) -> tuple[int, int]:
    """`512x768` as two numbers; zeros where nothing was given."""
    if not text:
        return 0, 0
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise ValueError(f"--size is {text[:50]!r}; write width and height in pixels, like 512x768")
    return int(width), int(height)


def plans_of(device: str, named: Sequence[str]) -> list[ParallelPlan]:
    """The plans named, or each strategy over all GPUs of this machine, or over two processes on a CPU."""
    if named:
        return [ParallelPlan.parse(plan) for plan in named]
    num_ranks = 2
    if device.startswith("cuda"):
        import torch

        num_ranks = torch.cuda.device_count()
    if num_ranks < 2:
        raise ValueError("this machine has one GPU, and one device is always the same as itself; give --device cpu")
    return [ParallelPlan.parse(f"{name}={num_ranks}") for name in SHARDING]


def verify(
    source: str,
    plans: Sequence[str],
    *,
    dtype: DtypeChoice = "auto",
    device: str = "auto",
    width: int = 0,
    height: int = 0,
    timeout_s: float = 900.0,
) -> list[Verdict]:
    """A small call of the model under each plan on new ranks, against the same on each rank alone.

    Width and height are in pixels; 0 stands for a small picture. Raises ValueError for what cannot be split or does not
    fit this machine, `RankFailed` if a rank died or was silent.
    """
    found = resolve_source(source)
    index = read_index(found.folder)
    name, chosen = index["_class_name"], pick_device(device)
    number = pick_dtype(dtype, device=chosen)
    parsed = plans_of(chosen, plans)
    _check_plans(parsed, chosen)
    # Of a family one step of a denoise, whose latents are compared; of others each call of their transformers.
    if any(name in family.pipelines for family in FAMILIES.values()):
        model = describe_model(source, dtype=dtype, device=device)
        function, preload = ".pipelines.verify:on_rank", preloads(model)
        asked = {"model": to_plain(model), "latents": to_plain(_canvas(model, width, height))}
    else:
        _check_split(index, parsed)
        function, preload = ".pipelines.whole.verified:on_rank", preloads_of(index)
        asked = {"source": found.id, "pipeline": name, "dtype": number, "width": width, "height": height}
    request = {**asked, "plans": to_plain(parsed), "doors": order()}
    answers = _answers(function, request, chosen, num_ranks=parsed[0].num_ranks, preload=preload, timeout_s=timeout_s)
    return [
        verdict_of(plan, each, tolerance=TOLERANCES[number])
        for plan, each in zip(parsed, zip(*answers, strict=True), strict=True)
    ]


def _answers(
    function: str, request: Mapping[str, Any], device: str, *, num_ranks: int, preload: list[str], timeout_s: float
) -> list[Any]:
    devices = [f"cuda:{place}" for place in range(num_ranks)] if device.startswith("cuda") else [device] * num_ranks
    with Pool(devices, preload=preload, limits=Limits(work_s=timeout_s)) as pool:
        words = f"the ranks did not answer in {timeout_s:g} s; give them longer with --timeout"
        progress = Deadline(timeout_s, close=pool.close, words=words)
        return pool.call_every(function, request, progress, num_ranks=num_ranks)


def verdict_of(plan: ParallelPlan, answers: Sequence[Mapping[str, Any]], *, tolerance: float) -> Verdict:
    """Of what each rank found under a plan: that of the rank which is farthest from itself alone."""
    worst = farthest(Apart(float(found["difference"]), float(found["largest"])) for found in answers)
    return Verdict(
        plan=str(plan),
        **dataclasses.asdict(worst),
        tolerance=tolerance,
        sent_bytes=tuple(found["sent_bytes"] for found in answers),
        calls=tuple(found["calls"] for found in answers),
        is_same_everywhere=len({found["mark"] for found in answers}) == 1,
        note=answers[0].get("note", ""),
    )


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> list[dict[str, Any]]:
    """Collective: what `verify` runs on every rank; one dict per plan."""
    from ..parallel.mesh import mesh_for
    from ..parallel.ranks.rank_job import mark
    from . import stages

    follow(request["doors"])
    model = dataclasses.replace(from_plain(Model, request["model"]), device=seat.device)
    canvas = from_plain(Latents, request["latents"])
    plans = [from_plain(ParallelPlan, plan) for plan in request["plans"]]
    text = EncodeText(model=model, prompt=PROMPT, negative_prompt="blurred", references=_references(model))
    job = Denoise(
        model=model,
        conditioning=stages.encode_text(text),
        latents=_first_frame(model, canvas) or canvas,
        steps=1,
        guidance=GUIDANCE if any(plan.cfg > 1 for plan in plans) else 0.0,
    )
    whole = _tensor(job)
    found = []
    for plan in plans:
        before = mesh_for(plan).sent
        split = _tensor(job.resolved(plan=plan))
        apart = Apart(float((split - whole).abs().max()), float(whole.abs().max()))
        found.append(answer(apart, mark(split), before, mesh_for(plan).sent))
    return found


def answer(apart: Apart, mark: Any, before: Count, after: Count) -> dict[str, Any]:
    """What a rank answers of one plan, for `verdict_of`: `mark` is of its result, the counts are of what it sent."""
    sent = {"sent_bytes": after.sent_bytes - before.sent_bytes, "calls": after.calls - before.calls}
    return {**dataclasses.asdict(apart), "mark": mark, **sent}


def _tensor(job: Denoise) -> Tensor:
    from . import stages

    made = stages.denoise(job).tensor
    assert made is not None, "a denoise paints its canvas"
    return made


def _check_plans(plans: Sequence[ParallelPlan], device: str) -> None:
    num_ranks = plans[0].num_ranks
    if odd := next((plan for plan in plans if plan.num_ranks != num_ranks), None):
        raise ValueError(
            f"plan {odd} uses {odd.num_ranks} ranks and {plans[0]} uses {num_ranks}; verify them one by one"
        )
    if num_ranks == 1:
        raise ValueError(f"plan {plans[0]} uses one rank, which always equals itself; verify one of several: ulysses=2")
    if not device.startswith("cuda"):
        return
    import torch

    num_devices = torch.cuda.device_count()
    if num_ranks > num_devices:
        raise ValueError(
            f"plan {plans[0]} uses {num_ranks} GPUs, but this machine has {num_devices}; "
            "give a smaller plan, or --device cpu to try it on processes"
        )


def _check_split(index: Mapping[str, Any], plans: Sequence[ParallelPlan]) -> None:
    """Refuse a pipeline whose transformers a plan cannot split, before anything of it is loaded."""
    if all(plan.sequence == 1 for plan in plans):
        return
    for component, (_, name) in components_of(index).items():
        if is_denoiser(component, name):
            plan_named(name)


def _canvas(model: Model, width: int, height: int) -> Latents:
    from .shape import empty_canvas

    family, multiple = FAMILIES[model.family], size_multiple(model)
    side = PIXELS if family.least_frames == 1 else PIXELS // 4  # the more frames, the fewer pixels
    small = max(multiple, side // multiple * multiple)
    frames = max(family.frame_multiple + family.frame_rest, family.least_frames) if family.frame_multiple else 1
    # not square: rows and columns that are mixed up show
    return empty_canvas(model, width=width or small, height=height or small + multiple, frames=frames, fps=0.0, batch=1)


def _references(model: Model) -> References | None:
    """Grey pictures, as many as the model does not work without."""
    import torch

    fewest, _ = FAMILIES[model.family].references
    return References(pictures=(torch.full((PIXELS, PIXELS, 3), 0.5),) * fewest) if fewest else None


def _first_frame(model: Model, canvas: Latents) -> Latents | None:
    """The latents of a grey first frame, for a model that continues a picture."""
    import torch

    from . import stages
    from .values import Image

    family, config = FAMILIES[model.family], read_config(Path(model.folder), "transformer")
    is_told = family.takes_image == "first_frame" and not family.reads_frame
    if not is_told or config.get("in_channels", 0) <= config.get("out_channels", 0):
        return None
    image = Image(pixels=torch.full((1, canvas.height, canvas.width, 3), 0.5))
    fewest, _ = family.last_images(functools.partial(read_config, Path(model.folder)))
    last = image if fewest else None
    request = EncodeImage(model=model, image=image, last_image=last, frames=canvas.frames, fps=canvas.fps)
    return stages.encode_image(request)
