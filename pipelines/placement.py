"""Where a stage runs: in this process, or in ranks, one for each of the model's devices.

With ranks, every stage runs in them, and this process computes nothing and opens no accelerator: a denoise takes all
ranks by its plan, text is encoded on the first and pictures on the last, beside the denoise of another job (where the
plan leaves ranks free, both on the last), what is large to decode is decoded by all where that saves enough, and large
text encoders are held by all between them. What was encoded before is not encoded again (kept.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..parallel.errors import EASED, OutOfMemory, one_line
from ..parallel.plan import ParallelPlan
from ..parallel.pool.job import Lane
from ..parallel.pool.pool import Pool
from ..parallel.progress import SILENT, Progress, reset_peak
from ..parallel.ranks.seat import Seat
from ..parallel.wording import worded
from .doors import follow, order
from .families import FAMILIES
from .forecast.auto import decoders_for, encoders_for, foreseen_for
from .forecast.here import measure_first
from .forecast.plans import ALONE, Wanted, at_work, is_guided, spelt_at_work, wanted_by, why_not
from .kept import KEPT, key_of
from .models.folder import components_of, read_config, read_index
from .models.source import resolve_source, split_source
from .place import Measures, logged, plan_for
from .pools import POOLS, preloads
from .requests import Decode, DecodeAudio, Denoise, EncodeImage, EncodeText, Request, Stage, Upscale
from .settling import settled
from .shape import check_pictures
from .values import Audio, Conditioning, Image, Latents, Model, Place, Video, from_plain, to_plain

if TYPE_CHECKING:
    from .cluster.cluster import Cluster
    from .signatures.table import Signature

logger = logging.getLogger("latentloom")
V = TypeVar("V")


def encode_text(request: EncodeText, progress: Progress = SILENT) -> Conditioning:
    """Do `stages.encode_text` where the model works; the next functions are the other stages."""
    _refuse_early(request)
    where = _texts_at(request.model) if request.model.place.group_size > 1 else {"rank": 0}
    if request.references is None:
        return _once(request, Conditioning, progress, **where)
    check_pictures(request.references)
    pictures = key_of(request.model, {"references": to_plain(request.references)}, keeper=progress.keeper)
    if (known := KEPT.get(pictures)) is not None:
        nothing = Conditioning(family=request.model.family, prompt="", negative_prompt="", positive={})
        request = request.resolved(before=dataclasses.replace(nothing, references=known))
    found = _once(request, Conditioning, progress, **where)
    KEPT.keep(pictures, dict(found.references))
    return found


def encode_image(request: EncodeImage, progress: Progress = SILENT) -> Latents:
    _refuse_early(request)
    return _once(request, Latents, progress, rank=-1)


def _texts_at(model: Model) -> dict[str, int]:
    """Which rank encodes text, as `_run` takes it: the first, or the last where a denoise of the model's own size
    leaves that free; or how many do together, which hold the encoders between them.
    """
    wanted = Wanted(is_guided=is_guided(model))
    plan, _ = plan_for(model, wanted)
    if plan.num_ranks < model.place.group_size:
        return {"rank": -1}
    return {"num_ranks": encoders_for(model, wanted, plan)}


def denoise(request: Denoise, progress: Progress = SILENT) -> Latents:
    model = request.model
    guided = is_guided(model, guidance=request.guidance, guidance_2=request.guidance_2)
    if not model.place.devices:
        _foresee(request, ParallelPlan(), ALONE, progress, is_guided=guided)
        return _run(request, Latents, progress)
    _refuse_early(request)
    wanted = wanted_by(request, is_guided=guided)
    plan, why = plan_for(model, wanted, measures=measuring(progress))
    logged(plan, why, model)
    progress.spread(spelt_at_work(plan, model, has_step_cache=wanted.has_step_cache), ())
    _foresee(request, plan, why, progress, is_guided=guided)
    request = request.resolved(plan=plan, model=at_work(model, has_step_cache=wanted.has_step_cache))
    return _run(request, Latents, progress, num_ranks=plan.num_ranks)


def _refuse_early(request: Request) -> None:
    """What a stage would refuse in ranks, before any is started; in this process it does so itself."""
    if request.model.place.devices:
        settled(request)


def _foresee(request: Denoise, plan: ParallelPlan, why: str, progress: Progress, *, is_guided: bool) -> None:
    # Only where somebody hears it: to find out which devices there are may take seconds.
    is_heard = type(progress).foresee is not Progress.foresee
    if is_heard and (found := foreseen_for(request, plan, is_guided=is_guided, why=why)) is not None:
        progress.foresee(found)


def decode(request: Decode, progress: Progress = SILENT) -> Image | Video:
    shown = Image if FAMILIES[request.model.family].output == "image" else Video
    _refuse_early(request)
    num_ranks = _ranks_to_decode(request)
    if num_ranks == 1:
        found = _run(request, shown, progress, lane="side", rank=-1)
    else:
        found = _run(request.resolved(split=num_ranks), shown, progress, num_ranks=num_ranks)
    return dataclasses.replace(found, pixels=found.pixels.cpu())


def upscale(request: Upscale, progress: Progress = SILENT) -> Latents:
    _refuse_early(request)
    return _run(request, Latents, progress, lane="side", rank=-1)


def decode_audio(request: DecodeAudio, progress: Progress = SILENT) -> Audio:
    _refuse_early(request)
    return _run(request, Audio, progress, lane="side", rank=-1)


def run_whole(
    model: Model, signature: Signature, arguments: Mapping[str, Any], progress: Progress = SILENT
) -> dict[str, Any]:
    """A pipeline that is no family's, run whole where the model works: what it gives for these arguments of its call,
    by the names of its output class. Raises as `whole.called.call` does.
    """
    named = {name: getattr(model, name) for name in ("source", "revision", "fingerprint", "dtype")}
    whole = {**named, "class_name": signature.name, "loras": to_plain(model.loras)}
    if not model.place.devices:
        from .whole.called import Whole, call

        return call(from_plain(Whole, {**whole, "device": model.device}), arguments, progress)
    from .whole.pooled import call_on

    plan, why = plan_for(model, Wanted(is_guided=signature.guidance(arguments) > 1))
    logged(plan, why, model)
    if problem := why_not(plan, model):
        raise ValueError(problem)
    progress.spread(str(plan), ())
    with ranks_of(model) as ranks:
        return call_on(ranks, whole, arguments, progress, plan=str(plan), num_ranks=plan.num_ranks)


def measuring(progress: Progress) -> Measures:
    """Measures GPUs that work together for the first time, unless ranks work here; `progress` hears of it."""
    return partial(measure_first, progress=progress, is_free=lambda: not POOLS.has_work())


def num_groups(place: Place) -> int:
    """How many jobs can work at a time: one in each replica, of each machine. Joins the cluster that is named."""
    if not place.cluster:
        return place.replicas
    from .cluster.head import connect, machines_alive

    connect(place.cluster)
    return place.replicas * max(1, len(machines_alive(place.devices)))


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """What a rank is asked for: one stage, on its own device."""
    from .components.store import store
    from .stages import STAGES

    follow(request["doors"])
    store().share_host(request["ranks_here"])
    progress.rank = request["rank"]
    reset_peak(seat.device)
    asked = request["request"]
    model = {**asked["model"], "device": seat.device, "place": to_plain(Place())}
    base = split_source(model["source"])[1]
    if base.startswith("builtin:"):  # another machine may have it elsewhere
        model["folder"] = str(resolve_source(base).folder)
    return to_plain(STAGES[request["stage"]]({**asked, "model": model}, progress))


def _once(
    request: EncodeText | EncodeImage, answer: type[V], progress: Progress, *, rank: int = 0, num_ranks: int = 1
) -> V:
    """The stage's answer to what was asked before, or its new one, which is kept."""
    asked = {name: value for name, value in to_plain(request).items() if name not in ("model", "before", "split")}
    key = key_of(request.model, {"stage": request.stage, **asked}, keeper=progress.keeper)
    if (found := KEPT.get(key)) is not None:
        progress.phase("encoded before")
        return from_plain(answer, found)
    if num_ranks > 1:
        made = _run(request.resolved(split=num_ranks), answer, progress, num_ranks=num_ranks)
    else:
        made = _run(request, answer, progress, lane="side", rank=rank)
    KEPT.keep(key, to_plain(made))
    return made


def _run(
    request: Request, answer: type[V], progress: Progress, *, num_ranks: int = 1, lane: Lane = "main", rank: int = 0
) -> V:
    """The stage's answer; what goes to ranks becomes plain data here and nowhere else, and so does what they give.

    `rank` is the one that works alone where one is enough, counted from the last if it is below 0.
    """
    place = request.model.place
    while True:
        try:
            if not place.devices:  # values go as they are: only another process needs plain data
                return _stage(request.stage, progress)(request, progress)
            plain = {
                "stage": request.stage,
                "request": to_plain(request),
                "ranks_here": len(place.devices),
                "rank": rank % place.group_size if num_ranks == 1 else 0,
                "doors": order(),
            }
            asked: dict[str, Any] = {"num_ranks": num_ranks, "lane": lane, "rank": rank}
            with ranks_of(request.model) as ranks:
                return from_plain(answer, ranks.call(".pipelines.placement:on_rank", plain, progress, **asked))
        except OutOfMemory as error:
            if error.code != EASED:
                raise
            told = worded("starting again with less on the device: {}", one_line(error))
            logger.warning("%s", told)
            progress.again(told)


def _stage(name: Stage, progress: Progress) -> Callable[[Any, Progress], Any]:
    """Done in this process, of which the first stage waits for libraries: seconds, in which it would seem to hang."""
    if f"{__package__}.stages" not in sys.modules:
        progress.phase("loading diffusers", is_loading=True)
    from .stages import STAGES

    return STAGES[name]


@contextlib.contextmanager
def ranks_of(model: Model) -> Iterator[Pool | Cluster]:
    """The ranks of the model's place, warm or starting; they stay at least so long."""
    if model.place.cluster:
        from .cluster.cluster import CLUSTERS

        yield CLUSTERS.of(model.place, preload=preloads(model))
        return
    with POOLS.using(model.place, lambda: preloads(model)) as pool:
        yield pool


def _ranks_to_decode(request: Decode) -> int:
    model, latents = request.model, request.latents
    num_ranks = min(decoders_of(model, latents), model.place.group_size)
    if latents.tensor is None or num_ranks <= 1:
        return 1
    from .spreading.vae import has_rows, why_not

    name, config = _vae_of(model), read_config(Path(model.folder), "vae")
    # What was foretold is of the size that was asked for; whether these latents have rows for all is known here only.
    can_split = why_not(name, config) is None and has_rows(name, config, latents.tensor.shape, num_ranks)
    return num_ranks if can_split else 1


def decoders_of(model: Model, latents: Latents) -> int:
    """How many ranks decode latents of this size together, by the plan of a denoise of the model's own steps and
    guidance. Raises `ValueError`.
    """
    if model.place.group_size <= 1:
        return 1
    wanted = Wanted(is_guided=is_guided(model)).of_size(latents)
    return decoders_for(model, wanted, plan_for(model, wanted)[0])


def row_decoders_of(model: Model, latents: Latents) -> int:
    """How many ranks decode by rows, as `decoders_of` says: part of what is made, since rows round differently. Tiles
    keep the bits: 1.
    """
    from .spreading.vae import OWN_TILES

    return 1 if _vae_of(model) in OWN_TILES else decoders_of(model, latents)


def _vae_of(model: Model) -> str:
    """The class of its VAE; "" if it has none."""
    return components_of(read_index(Path(model.folder))).get("vae", ("", ""))[1]
