"""When a denoise is checked first, on which small one, and what comes of it.

The first use of a model by a plan, on a machine and by versions, asks for two steps of the same job at a size of a few
odd rows and columns: the pipeline itself makes the transformer's inputs, with the job's text and its padding, LoRAs,
first frame and guidance. Even sizes hide positions that are counted by a rank's own length, texts without padding a
mask that is lost, and one step a cache that is stale.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ... import __version__
from ...parallel.errors import BadInput, Cancelled
from ...parallel.machine.folders import user_cache, write_object
from ...parallel.mesh import Mesh, mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.progress import SILENT, Progress, finish, title_of
from ...parallel.together import highest
from ..components.store import store
from ..families import FAMILIES
from ..forecast.plans import num_steps_of, text_length_of
from ..models.regular_file import read_object
from ..requests import Denoise
from ..shape import nearest_frames, size_multiple
from ..values import Latents, Model, to_plain
from .passes import DOUBTED, Unproven, Verdict, self_check

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "LATENTLOOM_SELF_CHECK"  # the environment variable that ranks inherit; `--no-self-check` sets it to 0
FOLDER, MAX_BYTES = "self_checks", 4096
STEPS = 2
MOST_SHARE = 0.1  # of the seconds that loading the transformer and the denoise take
FP32_TIMES = 2.0  # as long as in the run's dtype a step takes in fp32, which is assumed

Parts = dict[str, Any]
Lend = Callable[[Denoise, Model, ParallelPlan], AbstractContextManager[Parts]]
Paint = Callable[[Parts, Denoise, Callable[..., None]], object]

logger = logging.getLogger("latentloom")
# What the ranks of a process group know of verdicts already, all alike; gone with the group.
_known: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
_VERDICT = TypeAdapter(Verdict)


class NotTheSame(BadInput):
    """Under a plan a model gives here what one process does not give."""

    code = "not-the-same"


def check_first_use(request: Denoise, progress: Progress, *, lend: Lend, paint: Paint) -> str:
    """Collective with a plan of several ranks: what is known of the plan with this model here, as a line for people;
    checked now if this is its first use. `lend` gives a denoise's parts under a plan, `paint` has them do it.

    Nothing is checked of what is done by hand, which nobody watches, and of built-in models, whose first picture waits
    for nothing else. Raises `NotTheSame` on all ranks where the plan gives another result.
    """
    if request.plan.num_ranks == 1 or progress is SILENT or request.model.source.startswith("builtin:"):
        return ""
    mesh, key = mesh_for(request.plan), _key(request)
    known = _known.setdefault(mesh.voters, {})
    if key not in known:
        verdict = _verdict(request, progress, mesh, key, lend, paint)
        if verdict is not None and not verdict.is_lasting:
            return str(verdict)
        known[key] = "" if verdict is None else str(verdict)
    return known[key]


def _verdict(request: Denoise, progress: Progress, mesh: Mesh, key: str, lend: Lend, paint: Paint) -> Verdict | None:
    """Collective: the verdict that all ranks have kept, or a new one; None where any was told not to check."""
    found, plan = kept(key), request.plan
    # ranks of another machine have a folder and an environment of their own
    is_lacking, is_off = highest(mesh, int(found is None), int(os.environ.get(VARIABLE) == "0"))
    if is_off or not is_lacking:
        return None if is_off else found
    progress.phase("checking the plan against one device")
    # A check that ends the run is not made again: that run is.
    keep(Verdict(state="unproven", why="a check was begun here, and did not come to its end"), key)
    model = dataclasses.replace(request.model, engine="eager", graphs="off")  # compiled for one size more it takes long
    load_s, parts = 0.0, dict[str, Any]()

    @contextlib.contextmanager
    def lent(plan: ParallelPlan, asked: Denoise) -> Iterator[Parts]:
        nonlocal load_s, parts
        began = time.perf_counter()
        with lend(asked, model, plan) as parts:
            load_s = load_s or time.perf_counter() - began
            yield {name: part for name, part in parts.items() if name.startswith("transformer")}
            for handle in parts.get("handles", ()):
                handle.compare_if(lambda: True)  # the run itself is given other inputs

    small_one = functools.cache(lambda: small_of(request))

    def ask(_: object) -> None:
        small, ends = small_one(), [time.perf_counter()]

        def on_step(done: int, *_: object) -> None:
            finish(model.device)
            ends.append(time.perf_counter())
            if done >= STEPS:
                raise Cancelled

        with contextlib.suppress(Cancelled):
            paint(parts, small, on_step)
        step_s = ends[-1] - ends[-2]
        in_fp32 = FP32_TIMES * (1 + plan.num_ranks) if model.dtype != "fp32" else 0.0
        check_s = ends[-1] - ends[0] + STEPS * step_s * (in_fp32 + plan.num_ranks)
        check_s += load_s * plan.num_shares if plan.num_shares > 1 else 0.0  # where ranks have shares, each reads all
        run_s = load_s + num_steps_of(request) * step_s * _num_tokens(request) / _num_tokens(small)
        if check_s > MOST_SHARE * run_s:
            why = f"it would take {check_s:.1f} s, which is much for a run of {run_s:.1f}"
            raise Unproven(why, is_lasting=False)

    whole = ParallelPlan()
    verdict = self_check(ask, mesh=mesh, sharded=lambda: lent(plan, request), whole=lambda: lent(whole, small_one()))
    store().drop_copies()
    if verdict.state != "refused" and verdict.is_lasting:
        keep(verdict, key)
    else:
        with contextlib.suppress(OSError, ValueError):
            _path(key).unlink(missing_ok=True)
    if verdict.state == "refused":
        remedy = f"choose another plan, or go on regardless with --no-self-check ({VARIABLE}=0)"
        raise NotTheSame(f"plan {plan}: {verdict.why}; {remedy}")
    if not mesh.rank and (verdict.state == "unproven" or verdict.ratio > DOUBTED):
        told = logger.info if verdict.state == "unproven" else logger.warning
        told("plan %s: %s", plan, verdict)
    return verdict


def kept(key: str) -> Verdict | None:
    """None where nothing was checked, or is to be checked anew, and where the file cannot be read."""
    try:
        return _VERDICT.validate_python(read_object(_path(key), what="a verdict", max_bytes=MAX_BYTES))
    except ValueError:
        return None


def keep(verdict: Verdict, key: str) -> None:
    """A folder that cannot be written costs the next run a check, not this one its result."""
    try:
        write_object(_path(key), dataclasses.asdict(verdict))
    except (OSError, ValueError) as error:
        logger.info("a self-check is not kept for later: %s", error)


def _path(key: str) -> Path:
    if (folder := user_cache()) is None:
        raise ValueError("this user has no home")
    return folder / FOLDER / f"{key}.json"


def small_of(request: Denoise) -> Denoise:
    """The same job at a size of few rows and columns, which no number of ranks divides; of a first frame the upper left
    corner. Raises `Unproven` where it would be no smaller."""
    latents, model, family = request.latents, request.model, FAMILIES[request.model.family]
    multiple, count = size_multiple(model), max(2, request.plan.sequence)
    # one row more than twice as many as ranks, so that each has some
    height, width, frames = (2 * count + 1) * multiple, (4 * count + 1) * multiple, latents.frames
    if family.frame_multiple:
        frames = nearest_frames(model, 2 * family.frame_multiple + family.frame_rest)[0]
    if width >= latents.width or height >= latents.height or frames > latents.frames:
        raise Unproven("a check is for larger pictures than this", is_lasting=False)
    extras = {name: _corner(each, latents, height, width) for name, each in latents.extras.items()}
    size = {"width": width, "height": height, "frames": frames, "fps": latents.fps}
    canvas = Latents(family=latents.family, **size, batch=1, extras=extras)
    return request.resolved(latents=canvas, strength=1.0, mask=None, step_cache="none")


def _corner(tensor: Tensor, latents: Latents, height: int, width: int) -> Tensor:
    """Of latents, or of pixels, of the canvas those of a smaller one; other tensors as they are."""
    for down, across in ((-2, -1), (-3, -2)):
        if tensor.ndim > 3 and tensor.shape[down] * latents.width == tensor.shape[across] * latents.height:
            tensor = tensor.narrow(down, 0, tensor.shape[down] * height // latents.height)
            return tensor.narrow(across, 0, tensor.shape[across] * width // latents.width)
    return tensor


def _num_tokens(request: Denoise) -> float:
    """About as many as the transformer has."""
    latents, family = request.latents, FAMILIES[request.model.family]
    frames = latents.frames / family.frame_multiple if family.frame_multiple else 1
    across = latents.width * latents.height / size_multiple(request.model) ** 2
    return latents.batch * (across * frames + text_length_of(request.conditioning))


def _key(request: Denoise) -> str:
    """A name for all that a verdict depends on."""
    import diffusers
    import torch

    model, own = request.model, ("source", "folder", "place", "engine", "graphs", "text_encoder", "device")
    told = [
        {name: value for name, value in to_plain(model).items() if name not in own},
        "" if model.fingerprint else model.folder,
        [
            title_of(model.device),
            str(request.plan),
            len(request.conditioning.references),
            *sorted(request.latents.extras),
        ],
        [__version__, torch.__version__, diffusers.__version__],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
