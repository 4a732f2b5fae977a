"""Where a stage runs: in this process, or in ranks, one for each of the model's devices.

With ranks, every stage runs in them, and this process computes nothing and opens no accelerator: a denoise takes all
ranks by its plan, text is encoded on the first and pictures on the last, beside the denoise of another job, and what is
large to decode is decoded by all.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..parallel.plan import ParallelPlan
from ..parallel.pool.job import Lane
from ..parallel.pool.pool import Pool
from ..parallel.progress import SILENT, Progress
from ..parallel.ranks.seat import Seat
from .models.describe import card_of
from .models.folder import components_of, read_index
from .models.source import resolve_source, split_source
from .place import named_plan
from .planning.memory import SPLIT_PIXELS
from .planning.plans import auto_plan
from .pools import POOLS, preloads
from .requests import number, seed_of, steps_of
from .shape import check_frames, check_size
from .spreading.measured import reset_peak
from .values import Latents, Model, Place, from_plain, to_plain

if TYPE_CHECKING:
    from .cluster.cluster import Cluster

logger = logging.getLogger("latentloom")


def encode_text(request: Mapping[str, Any], progress: Progress = SILENT) -> dict[str, Any]:
    """As `stages.encode_text`, and so for the other three."""
    return _run("encode_text", request, progress, lane="side")


def encode_image(request: Mapping[str, Any], progress: Progress = SILENT) -> dict[str, Any]:
    return _run("encode_image", request, progress, lane="side", place=-1)


def denoise(request: Mapping[str, Any], progress: Progress = SILENT) -> dict[str, Any]:
    model = from_plain(Model, request["model"])
    if not model.place.devices:
        return _run("denoise", request, progress)
    _check(request, model)
    plan = plan_of(request, model)
    progress.spread(str(plan), ())
    return _run("denoise", {**request, "plan": str(plan)}, progress, num_ranks=plan.num_ranks)


def decode(request: Mapping[str, Any], progress: Progress = SILENT) -> dict[str, Any]:
    model = from_plain(Model, request["model"])
    num_ranks = _ranks_to_decode(model, from_plain(Latents, request["latents"]))
    if num_ranks == 1:
        return _run("decode", request, progress, lane="side", place=-1)
    return _run("decode", {**request, "split": num_ranks}, progress, num_ranks=num_ranks)


def plan_of(request: Mapping[str, Any], model: Model) -> ParallelPlan:
    """The plan of a denoise; the reason for one that was chosen is logged."""
    plan, why = plan_and_reason(request, model)
    if why:
        logger.log(logging.WARNING if plan.num_ranks < model.place.group_size else logging.INFO, "%s", why)
    return plan


def plan_and_reason(request: Mapping[str, Any], model: Model) -> tuple[ParallelPlan, str]:
    """What the place names, and "", or the rule's choice for its devices and why. Reads config files only."""
    if (named := named_plan(model.place)) is not None:
        return named, ""
    return auto_plan(model, model.place.group_size, is_guided=is_guided(request, model))


def is_guided(request: Mapping[str, Any], model: Model) -> bool:
    """Whether every step of the denoise asks the transformer twice."""
    return max(number(request, "guidance") or card_of(model).guidance, number(request, "guidance_2")) > 1


def num_groups(place: Place) -> int:
    """How many jobs can work at a time: one in each replica, of each machine. Joins the cluster that is named."""
    if not place.cluster:
        return place.replicas
    from .cluster.head import connect, machines_alive

    connect(place.cluster)
    return place.replicas * max(1, len(machines_alive(place.devices)))


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """What a rank is asked for: one stage, on its own device."""
    from . import stages
    from .components.store import store

    store().share_host(request["ranks_here"])
    progress.rank = request["rank"]
    reset_peak(seat.device)
    inner = request["request"]
    model = {**inner["model"], "device": seat.device, "place": to_plain(Place())}
    base = split_source(model["source"])[1]
    if base.startswith("builtin:"):  # another machine may have it elsewhere
        model["folder"] = str(resolve_source(base).folder)
    stage = {
        "encode_text": stages.encode_text,
        "encode_image": stages.encode_image,
        "denoise": stages.denoise,
        "decode": stages.decode,
    }[request["stage"]]
    return stage({**inner, "model": model}, progress)


def _run(
    stage: str,
    request: Mapping[str, Any],
    progress: Progress,
    *,
    num_ranks: int = 1,
    lane: Lane = "main",
    place: int = 0,
) -> dict[str, Any]:
    model = from_plain(Model, request["model"])
    if not model.place.devices:
        from . import stages

        return getattr(stages, stage)(request, progress)
    rank = place % model.place.group_size if num_ranks == 1 else 0
    wrapped = {"stage": stage, "request": dict(request), "ranks_here": len(model.place.devices), "rank": rank}
    with _ranks(model) as ranks:
        return ranks.call(
            ".pipelines.placement:on_rank", wrapped, progress, num_ranks=num_ranks, lane=lane, place=place
        )


@contextlib.contextmanager
def _ranks(model: Model) -> Iterator[Pool | Cluster]:
    if model.place.cluster:
        from .cluster.cluster import CLUSTERS

        yield CLUSTERS.of(model.place, preload=preloads(model))
        return
    with POOLS.using(model) as pool:
        yield pool


def _check(request: Mapping[str, Any], model: Model) -> None:
    """What needs no library to be refused, before any rank starts; the stage checks all of it, and more."""
    latents = from_plain(Latents, request["latents"])
    check_size(model, latents.width, latents.height)
    check_frames(model, latents.frames)
    steps_of(request)
    seed_of(request)


def _ranks_to_decode(model: Model, latents: Latents) -> int:
    num_ranks = max(1, model.place.group_size)
    num_pixels = latents.batch * latents.frames * latents.width * latents.height
    if num_ranks == 1 or num_pixels < SPLIT_PIXELS or latents.tensor is None:
        return 1
    from ..parallel.spatial.part import LEAST_ROWS
    from .spreading.vae import DECODERS

    has_rows = latents.tensor.shape[-2] >= LEAST_ROWS * num_ranks
    return num_ranks if has_rows and _vae_class(model) in DECODERS else 1


def _vae_class(model: Model) -> str:
    return components_of(read_index(Path(model.folder))).get("vae", ("", ""))[1]
