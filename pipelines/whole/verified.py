"""Does a plan give a pipeline of any class what one process gives? Each call of its transformers, both ways.

The inputs of the calls are those of a run by itself: a whole run under a plan would make differences larger, step by
step, that a change of the noise by its last bit makes as well. What guidance is shared out is seen in the first step of
a run under the plan, whose inputs are still the same.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ...parallel.errors import LoomError, is_out_of_memory
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Progress
from ...parallel.ranks.rank_job import mark
from ...parallel.ranks.seat import Seat
from ...parallel.sharding.sections.waiting import finished, is_waited_for
from ..denoising.inside import derive
from ..doors import follow
from ..signatures.table import parameters_of
from ..spreading.handed import to_wire
from ..spreading.pipeline import denoisers_of, spread
from ..values import from_plain
from ..verify import PROMPT, Apart, answer, farthest
from .assembled import load_pipeline, pipeline_class, required_of, without_bars
from .called import asked, taken


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> list[dict[str, Any]]:
    """Collective: what `latentloom verify` runs on every rank for what is no family of ours; one dict per plan."""
    follow(request["doors"])
    kind = pipeline_class(request["pipeline"])
    calls = calls_of(kind, width=request["width"], height=request["height"])  # refused before anything is loaded
    progress.phase("loading the pipeline", is_loading=True)
    pipe = load_pipeline(request["source"], dtype=request["dtype"], device=seat.device)
    without_bars(pipe)
    recorder = CallRecorder(pipe)
    call, alone = _alone(recorder, pipe, calls)
    plans = [from_plain(ParallelPlan, plan) for plan in request["plans"]]
    return [_under(plan, recorder, pipe, call, alone) for plan in plans]


def _alone(
    recorder: CallRecorder, pipe: Any, calls: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], list[TransformerCall]]:
    """The first of these calls that the pipeline does not refuse, and what it asked its transformers then."""
    title, problems = type(pipe).__name__, dict[str, None]()
    for call in calls:
        with recorder.recorded() as alone:
            try:
                run(pipe, call)
            except Exception as error:  # whatever a pipeline raises where an argument is missing
                if isinstance(error, LoomError) or is_out_of_memory(error):
                    raise
                problems[str(error)] = None
                continue
        if not alone:
            raise ValueError(f"{title} did not ask its transformer in a call of {', '.join(call)}")
        return call, alone
    raise ValueError(
        f"{title} refuses a call that is made of its signature alone ({', '.join(calls[-1])}): {'; '.join(problems)}; "
        "call it from Python with and without latentloom.spread, and compare"
    )


def _under(
    plan: ParallelPlan, recorder: CallRecorder, pipe: Any, call: Mapping[str, Any], alone: list[TransformerCall]
) -> dict[str, Any]:
    """Collective: what comes out of one plan."""
    steps: list[int] = []
    with spread(pipe, plan, on_step=lambda done, total: steps.append(done)) as handle:
        if plan.cfg > 1:
            run(pipe, call)  # from which is learnt what a step asks
        steps.clear()
        before = handle.sent
        with recorder.recorded() as free:
            made = run(pipe, call)
        after = handle.sent
        differences = [apart(recorder.again(each), each.output) for each in alone]
        worst = farthest([*differences, first_step(free, alone, max(1, len(steps)))])
        note = f"guidance is not shared out, because {why}" if (why := handle.why_whole()) else ""
        return {**answer(worst, mark(to_wire(made)), before, after), "note": note}


# ---- what a pipeline asks its transformers


@dataclass(frozen=True)
class TransformerCall:
    """One call of a transformer."""

    part: str
    inputs: Any  # positional and named; None where they wait
    output: Any  # what the pipeline was given, which may wait
    processors: dict[nn.Module, Any]  # attention processors of the pipeline's own, as in perturbed attention guidance


class CallRecorder:
    """What a pipeline asks its transformers from now on; that of a spread one too."""

    def __init__(self, pipe: Any) -> None:
        self.parts = denoisers_of(pipe)
        self._usual = {each: found for part in self.parts.values() for each, found in _processors(part).items()}

    @contextmanager
    def recorded(self) -> Iterator[list[TransformerCall]]:
        """The calls within it, in order, with copies of what they took and gave."""
        seen: list[TransformerCall] = []
        with ExitStack() as stack:
            for name, part in self.parts.items():
                stack.callback(derive(part, __call__=self._recording(name, type(part), seen)))
            yield seen

    def again(self, call: TransformerCall) -> Any:
        """Collective where it is split: the same call of the transformer as it is now, by every group of guidance."""
        args, kwargs = _copy(call.inputs)
        with torch.no_grad(), ExitStack() as stack:
            for each, own in call.processors.items():
                stack.callback(setattr, each, "processor", each.processor)
                each.processor = own
            return nn.Module.__call__(self.parts[call.part], *args, **kwargs)

    def _recording(self, name: str, kind: type, seen: list[TransformerCall]) -> Callable[..., Any]:
        def call(part: Any, *args: Any, **kwargs: Any) -> Any:
            given = None if is_waited_for((args, kwargs)) else _copy(finished((args, kwargs)))
            output = kind.__call__(part, *args, **kwargs)
            own = {each: found for each, found in _processors(part).items() if found is not self._usual.get(each)}
            seen.append(TransformerCall(name, given, output if is_waited_for(output) else _copy(finished(output)), own))
            return output

        return call


def first_step(free: Sequence[TransformerCall], alone: Sequence[TransformerCall], num_steps: int) -> Apart:
    """How far apart the calls of the first of `num_steps` steps are: as many as a step has on average.

    A guider asks on each rank for its own branches only: then each is compared with that which is nearest, of calls
    that give values of its shape (what comes before a segment's first step may give others).
    """
    if len(free) < len(alone):
        wanted = [call.output for call in alone[: math.ceil(len(alone) / num_steps)]]
        found = [finished(call.output) for call in free[: math.ceil(len(free) / num_steps)]]
        return farthest(_nearest(one, [each for each in wanted if _shapes(each) == _shapes(one)]) for one in found)
    wanted = [call.output for call in alone[: max(1, len(alone) // num_steps)]]
    found = [finished(call.output) for call in free[: len(wanted)]]
    return farthest(apart(one, other) for one, other in zip(found, wanted, strict=True))


def _nearest(found: Any, wanted: Sequence[Any]) -> Apart:
    return min((apart(found, each) for each in wanted), key=lambda each: each.share)


def _shapes(output: Any) -> list[torch.Size]:
    return [each.shape for each in pytree.tree_leaves(output) if is_value(each)]


def apart(found: Any, wanted: Any) -> Apart:
    """How far two outputs of a transformer are apart: where they are farthest, by the largest value of each tensor."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True)
    return farthest(Apart(float((a - b).abs().max()), float(b.abs().max())) for a, b in pairs if is_value(b))


def is_value(value: Any) -> bool:
    """Whether it is a tensor of numbers that may differ."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 0


def _copy(tree: Any) -> Any:
    return pytree.tree_map(copy.deepcopy, tree)


def _processors(part: nn.Module) -> dict[nn.Module, Any]:
    return {each: each.processor for each in part.modules() if hasattr(each, "processor")}


# ---- A small call of any pipeline, made of its signature: what it is asked

STEPS = 2
FRAMES = 9  # one more than a multiple of what video VAEs make one latent frame of: four or eight
SECONDS = 1.0
SIDES = (256, 320)  # width and height: not square, so that rows and columns that are mixed up show
LENGTHS = ("num_frames", "frames", "video_length")
# What a call is given where it has a parameter of the name; all else has the pipeline's own default.
GIVEN: dict[str, Any] = {
    "prompt": PROMPT,
    "negative_prompt": "blurred",
    "true_cfg_scale": 3.0,
    "class_labels": [1],
    "output_type": "np",
    # as little work as there can be
    "num_inference_steps": STEPS,
    "pyramid_num_inference_steps_list": [1, 1, 1],
    "guidance_schedule": (3.0,) * STEPS,
    **dict.fromkeys(LENGTHS, FRAMES),
    **dict.fromkeys(("audio_duration", "audio_duration_s", "audio_end_in_s", "duration"), SECONDS),
    # at the size that is asked for, and by the pipeline's own parts alone
    **dict.fromkeys(("use_resolution_binning", "_auto_resize"), False),
    **dict.fromkeys(("clean_caption", "enable_prompt_rewrite"), False),
}
SCENES = ("image", "control_image", "cond_image")
MASKS = ("mask_image", "mask", "control_mask")
VIDEOS = ("video", "control_video", "pose_video", "face_video")


def calls_of(kind: type, *, width: int, height: int) -> list[dict[str, Any]]:
    """Arguments for a pipeline of this class: of a text alone, then with all the pictures and videos that it takes.
    Then both as long as it likes, for one that makes no video so short.

    No signature says what a call needs besides its required parameters: the first that is not refused will do. Zeros
    stand for a small size. Raises ValueError for a size that the call does not take, or a required parameter that
    nobody can make up.
    """
    wanted = parameters_of(kind)
    size = {"width": width or SIDES[0], "height": height or SIDES[1]}
    if width and not size.keys() <= wanted.keys():
        raise ValueError(f"--size is {width}x{height}, but {kind.__name__} takes no width and height; leave --size out")
    given = {**size, **GIVEN, "max_area": size["width"] * size["height"]}
    if 0 < getattr(wanted.get("strength"), "default", 1.0) < 1:
        given["num_inference_steps"] = 2 * STEPS  # some of which are left out
    drawn = _drawn(**size)
    required = required_of(wanted)
    if missing := sorted(required - given.keys() - drawn.keys()):
        raise ValueError(
            f"the call of {kind.__name__} needs {', '.join(missing)}, which verify cannot make up; call it from Python "
            "with and without latentloom.spread, and compare"
        )
    if "image" in wanted.keys() - required:
        drawn.pop("video")  # one or the other
    text = {name: value for name, value in {**given, **_of(required, drawn)}.items() if name in wanted}
    pictures = {**text, **_of(wanted, drawn)}
    short = [text, pictures] if len(pictures) > len(text) else [text]
    long = [{name: value for name, value in call.items() if name not in LENGTHS} for call in short]
    return short if long == short else short + long


def run(pipe: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """What the pipeline gives, by name; the same random numbers each time, its own and torch's."""
    torch.manual_seed(0)
    seeded: dict[str, Any] = {}
    if "generator" in parameters_of(type(pipe)):
        seeded["generator"] = torch.Generator().manual_seed(0)
    given = {**call, **seeded}
    return asked(pipe, taken(pipe, given))


def _of(names: Any, drawn: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drawn.items() if name in names}


def _drawn(width: int, height: int) -> dict[str, Any]:
    """Pictures, masks, videos and a sound, by the names of the parameters that take them."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 3 % 256, y * 2 % 256, (x + y) % 256], -1).astype("uint8")
    picture = Image.fromarray(pixels)
    video = [Image.fromarray(np.roll(pixels, 8 * number, axis=1)) for number in range(FRAMES)]
    mask = Image.fromarray(np.uint8(255) * (x > width // 4).astype("uint8"))
    drawn = {**dict.fromkeys(SCENES, picture), **dict.fromkeys(MASKS, mask), **dict.fromkeys(VIDEOS, video)}
    return {**drawn, "images": [picture], "audio": torch.sin(torch.arange(48_000) * 0.05).expand(1, 2, -1)}
