"""A plan in words: one screen for people, and the same as plain data."""

import textwrap
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ...parallel.wording import worded
from ..components.memory import USABLE_SHARE
from ..costs.chips import GIB
from ..costs.run import Run, duration, volume
from ..models.describe import card_of
from ..models.folder import read_index
from ..models.outlines import SIZES_FROM
from .choice import amount, is_captured, spelt
from .forecast import Forecast, of_each_kind
from .history import in_words
from .memory import spares_beside

BAR, WIDTH = 24, 112
SECONDS = ("seconds", "step_s", "text_s", "decode_s", "load_s", "new_prompt_s", "streaming_s")


def as_text(answer: Forecast, *, compares: bool = False) -> str:
    lines = [_headline(answer), ""]
    lines += _chosen(answer, answer.chosen) if answer.chosen else _refused(answer)
    if compares:
        lines += ["", *_table(answer)]
    sizes, unbroken = sizes_from(answer), {"width": WIDTH, "break_long_words": False, "break_on_hyphens": False}
    told = textwrap.wrap(f"not downloaded; sizes from {sizes}", **unbroken) if sizes else ()
    return "\n".join([*lines, "", _source(answer), *told])


def in_brief(answer: Forecast) -> str:
    """One sentence: whether the model fits the machine, and how."""
    run = answer.chosen
    if run is None and answer.mends:
        return worded("does not fit here as it is, but with {}", answer.mends[0].words)
    if run is None:
        return worded("does not fit here: it lacks {} on a device", amount(answer.closest.lacking_bytes))
    if run.streamed_bytes and answer.machine.is_timed:
        return worded("fits here, with blocks from the host's memory: {} a step", duration(run.step.seconds))
    if not answer.machine.is_timed:
        return worded("fits here: {} on a device", amount(run.num_bytes))
    return worded("fits here: {} on a device, {} a step", amount(run.num_bytes), duration(run.step.seconds))


def _headline(answer: Forecast) -> str:
    model, canvas, demand = answer.model, answer.canvas, answer.demand
    size = f"{canvas.width} x {canvas.height}"
    if canvas.frames > 1:
        size += f" x {canvas.frames} frames"
    kind: list[str] = [model.dtype, *([model.quantization] if model.quantization != "none" else [])]
    kind.append(model.engine)
    taken, is_replayed = answer.taken, is_captured(model, answer.machine, steps=demand.steps)
    if is_replayed and taken.plan.num_shares == 1 and not taken.streamed_bytes:
        kind.append("CUDA graphs")
    guided = ", guided" if demand.branches > 1 else ""
    times = f", {answer.num_runs} runs" if answer.num_runs > 1 else ""
    title = card_of(model).name or model.source
    return f"{title}, {size}, {demand.steps} steps{guided}{times}; {', '.join(kind)}; on {answer.machine.title}"


def _chosen(answer: Forecast, chosen: Run) -> list[str]:
    room = answer.machine.memory_bytes / GIB
    where = "the fullest rank, of the memory for all" if answer.machine.kind == "cpu" else "the fullest device"
    used, there = chosen.num_devices, answer.machine.num_devices
    devices = f"all {there} devices" if used == there else f"{used} of {there} devices"
    rows = [
        ("plan", f"{spelt(chosen)}, on {'its one device' if there == 1 else devices}"),
        ("why", answer.why),
        *(_times(answer, chosen) if answer.machine.is_timed else [("time", "not measured yet")]),
        (
            "memory",
            f"{chosen.num_bytes / GIB:.3g} of {room:.3g} GiB on {where}{_spare(answer, chosen)}{_limit(answer)}",
        ),
        ("weights", _weights(answer, chosen)),
    ]
    if answer.work.encoder_bytes:
        rows.append(("encoder", _encoder(answer, chosen)))
    if words := in_words(answer.machine.factors):
        rows.append(("learned", words))
    if answer.rejected:
        width = max(len(spelt(each)) for each, _ in answer.rejected)
        for each, why in answer.rejected:
            took = f"{duration(each.step.seconds)} a step, " if answer.machine.is_timed else ""
            rows.append(("not", f"{spelt(each):{width}}  {took}{why}"))
    if answer.hint:
        rows.append(("faster", answer.hint))
    wrapped = partial(textwrap.wrap, width=WIDTH, subsequent_indent=" " * 8, break_long_words=False)
    return [line for name, text in rows for line in wrapped(f"{name:8}{text}")]


def _times(answer: Forecast, chosen: Run) -> list[tuple[str, str]]:
    run, step = chosen, chosen.step
    made = "picture" if answer.canvas.frames == 1 else "video"
    parts = [
        (step.linear, "matrix products"),
        (step.attention, "attention"),
        (step.memory, "passes over memory"),
        (step.exposed, "waiting for what travels"),
        (step.weights, "waiting for weights"),
        (step.waiting, "waiting for the host"),
        (step.idle, "waiting for blocks of others"),
    ]
    told = ", ".join(f"{name} {duration(seconds)}" for seconds, name in parts if seconds >= 0.005 * step.seconds)
    return [
        ("a step", f"{duration(step.seconds)}: {told}"),
        (
            "a run",
            f"{duration(run.seconds)}: text {duration(run.text_s)}, {run.steps} steps {duration(run.steps_s)}, "
            f"{made} {duration(run.decode_s)}",
        ),
        *([("all", f"{duration(chosen.all_s)} for {answer.num_runs} runs")] if answer.num_runs > 1 else []),
        ("first", f"{duration(run.load_s)} before it, to read {volume(answer.demand.load_bytes)} of weights"),
    ]


def _limit(answer: Forecast) -> str:
    """What a rank on a CPU may take, where somebody limits that."""
    limit = answer.machine.limit_bytes
    return f"; each rank may take {limit / GIB:.3g}, beside files that all map" if limit else ""


def _weights(answer: Forecast, run: Run) -> str:
    """Where they are: whole, shared, or in part at the host, and the least memory with which they could be."""
    machine = answer.machine
    device, link = ("rank", "copying") if machine.kind == "cpu" else ("device", "the link to the host")
    if run.plan.num_shares > 1:
        return f"{'a share' if run.plan.weights > 1 else 'some of the blocks'} on each {device}"
    if not run.streamed_bytes:
        return f"whole on {'each' if run.num_devices > 1 else 'the'} {device}"
    whole, least = (answer.memory_for(run, streams=streams) / GIB for streams in (False, True))
    took = f", in {duration(run.streaming_s)}" if machine.is_timed else ""
    if run.is_from_disk:
        took, link = f"{took}, from the disk, as {machine.host_bytes / GIB:.3g} GiB of the host are too few", "the disk"
    limit = link if run.is_link_bound else "computing"
    return (
        f"streamed, {volume(run.streamed_bytes)} a step{took}: {limit} is the limit; whole they need {whole:.3g} GiB "
        f"on each {device}, and {least:.3g} are the least that will do"
    )


def _spare(answer: Forecast, chosen: Run) -> str:
    """What a spare rank takes on this machine, where it has some and there is room; of others nobody knows."""
    machine = answer.machine
    if machine.name != "here" or machine.kind != "cuda":
        return ""
    device = machine.devices[0]
    spares = spares_beside({device: chosen.num_bytes}, {device: machine.memory_bytes})
    return f"; a spare rank takes {spares[device] / GIB:.3g} more, while there is room" if spares else ""


def _encoder(answer: Forecast, chosen: Run) -> str:
    """Where the text encoders live, and what a new prompt takes for it."""
    if not answer.work.text:
        return f"{answer.work.encoder_bytes / GIB:.3g} GiB on the CPU, as asked, whose speed is assumed"
    there = answer.machine.num_devices // chosen.replicas
    if chosen.encoders > 1:
        whole, share = answer.work.encoder_bytes / GIB, answer.work.shared_text_bytes(chosen.encoders) / GIB
        return (
            f"{whole:.3g} GiB on {chosen.encoders} devices between them, {share:.3g} on each, beside the transformer: "
            "for each text all gather blocks from each other, which is sooner than from the host"
        )
    where = "the last device, which the plan leaves free" if there > chosen.plan.num_ranks else "the first device"
    told = f"{answer.work.encoder_bytes / GIB:.3g} GiB on {where}"
    if streamed := answer.work.streamed_text_bytes(chosen.plan, answer.room, num_devices=there):
        told += f", of which {volume(streamed)} come from the host's memory for each text"
    if not chosen.turns_s:
        return told if there > chosen.plan.num_ranks else f"{told}, beside the transformer"
    both = "both are read" if chosen.plan.num_shares == 1 else "they are read"
    told += f", in turns with the transformer: {both} again for a new prompt"
    told += f", {duration(chosen.turns_s)}" if answer.machine.is_timed else ""
    fitting = [each for each in answer.found if not (each.turns_s or each.lacking_bytes or each.rounds_differently)]
    other = min(fitting, key=lambda each: each.all_s, default=None)
    if other is None or other.all_s >= chosen.all_s + chosen.turns_s:
        return told
    told += f"; by {spelt(other)} they have room beside it"
    return f"{told}, and a run takes {duration(other.seconds)}" if answer.machine.is_timed else told


def _refused(answer: Forecast) -> list[str]:
    closest, there = answer.closest, answer.machine.limit_bytes or answer.machine.memory_bytes
    least, whole = (answer.memory_for(closest, streams=streams) for streams in (True, False))
    lines = [
        f"no plan fits: {spelt(closest)} comes closest, and lacks {amount(closest.lacking_bytes)} on a device "
        f"(it needs {amount(USABLE_SHARE * (there + closest.lacking_bytes))}, {amount(there)} are there)",
        f"least: {amount(least)} on a device{', whose weights are then streamed' if least < whole else ''}",
    ]
    lines += [f"remedy: {each.words}, with which {each.plan} fits" for each in answer.mends]
    return [*lines, *([f"by name: {answer.hint}"] if answer.hint else [])]


def _table(answer: Forecast) -> list[str]:
    """Time and memory over all kinds of plans, the fastest first."""
    shown = of_each_kind(answer)
    slowest = max(each.all_s for each in shown)
    most = max(each.num_bytes for each in shown)
    width = max(len(spelt(each)) for each in shown)
    lines = [f"{'plan':{width}}  {'time':>9}  {'':{BAR}}  {'memory':>9}  a device"]
    for each in shown:
        took, bar = f"{duration(each.all_s):>9}", _bar(each.all_s, slowest)
        if not answer.machine.is_timed:
            took, bar = f"{'-':>9}", " " * BAR
        mark = f"streams {volume(each.streamed_bytes)} a step" if each.streamed_bytes else ""
        mark = f"lacks {each.lacking_bytes / GIB:.1f} GiB" if each.lacking_bytes else mark
        lines.append(
            f"{spelt(each):{width}}  {took}  {bar}  "
            f"{each.num_bytes / GIB:>5.1f} GiB  {_bar(each.num_bytes, most)}  "
            f"{'chosen' if each == answer.chosen else ''}{', ' if each == answer.chosen and mark else ''}{mark}"
        )
    return [line.rstrip() for line in lines]


def _bar(value: float, most: float) -> str:
    return f"{'#' * max(1, round(BAR * value / most)):{BAR}}"


def _source(answer: Forecast) -> str:
    if answer.machine.is_measured:
        return "predicted from what this machine's ranks measured"
    if answer.machine.is_assumed:
        return "chosen by what is assumed of any such machine, as nobody has measured this one: --measure does"
    return "predicted from data sheets and other systems' published times; a real machine measures itself"


def sizes_from(answer: Forecast) -> str:
    """Who says how large a model is that is not on this machine; "" of one whose files tell it."""
    return str(read_index(Path(answer.model.folder)).get(SIZES_FROM, ""))


def to_plain(answer: Forecast) -> dict[str, Any]:
    """What `--json` prints; seconds that follow from assumptions are None."""
    plain = partial(_plain, answer)
    return {
        "model": answer.model.source,
        "width": answer.canvas.width,
        "height": answer.canvas.height,
        "frames": answer.canvas.frames,
        "steps": answer.demand.steps,
        "runs": answer.num_runs,
        "sizes_from": sizes_from(answer),
        "encoder_bytes": answer.work.encoder_bytes,
        "machine": {
            "name": answer.machine.name,
            "title": answer.machine.title,
            "devices": answer.machine.num_devices,
            "memory_bytes": answer.machine.memory_bytes,
            "limit_bytes": answer.machine.limit_bytes,
            "is_measured": answer.machine.is_measured,
        },
        "learned": asdict(answer.machine.factors),
        "chosen": None if answer.chosen is None else plain(answer.chosen),
        "why": answer.why,
        "rejected": [{**plain(each), "why": why} for each, why in answer.rejected],
        "rule": str(answer.rule),
        "remedies": [{**vars(each), "values": dict(each.values)} for each in answer.mends],
        "hint": answer.hint,
        "plans": [plain(each) for each in sorted(answer.found, key=lambda each: (each.all_s, each.num_bytes))],
    }


def _plain(answer: Forecast, run: Run) -> dict[str, Any]:
    plain = {
        "plan": str(run.plan),
        "replicas": run.replicas,
        "devices": run.num_devices,
        "decoders": run.decoders,
        "encoders": run.encoders,
        "seconds": run.all_s,
        "step_s": run.step.seconds,
        "text_s": run.text_s,
        "decode_s": run.decode_s,
        "load_s": run.load_s,
        "sent_bytes": int(run.step.sent_bytes),
        "bytes": run.num_bytes,
        "lacking_bytes": run.lacking_bytes,
        "least_bytes": answer.memory_for(run, streams=True),
        "streamed_bytes": run.streamed_bytes,
        "streaming_s": run.streaming_s,
        "new_prompt_s": run.turns_s,
        "rounds_differently": run.rounds_differently,
    }
    return plain if answer.machine.is_timed else {**plain, **dict.fromkeys(SECONDS)}
