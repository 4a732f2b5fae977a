"""Make a run again by its manifest: what differs from then is told first, whether its bytes are the same last.

A manifest may be a stranger's: it is read within limits, and its run reads and writes no more than that of a workflow's
file. What it says of a Ray cluster is passed over, since that would say where requests go.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, JsonValue, ValidationError

from ...parallel.errors import BadInput
from ...parallel.machine.now import devices_now
from ...parallel.progress import title_of
from ...pipelines.models.regular_file import open_regular, parse_strict
from ...pipelines.place import check_cores, checked, names_plan, read_place
from ...pipelines.values import Place
from ..execution.failure import NodeFailed
from ..execution.manifest import MANIFEST_FILE, Told, versions
from ..execution.models_used import ModelFacts
from ..execution.schedule import schedule
from ..files.workspace import Workspace
from ..graph.graph import Graph, graph_from_plain
from ..graph.problems import GraphError, short
from ..preview.carried import PLANS_KEY
from ..registry import SPECS
from .headless import Tally
from .job import Headless, points_of
from .job_list import as_job
from .stream import print_line
from .terminal import run_shown
from .workflow_files import roots_of

MOST_BYTES = 64 << 20  # of a manifest
MOST_SHOWN = 120  # characters of what was and what is, in a sentence
# What results may depend on: `what` it is (version, model, value, plan, device), its `name`, `then` and `now`.
Difference = dict[str, str]


class Made(BaseModel):
    """An output: a file by its path and node, or a value by its name."""

    node: str = ""
    path: str = ""
    sha256: str | None = None
    name: str = ""
    value: JsonValue = None


class Manifest(Told):
    """What is read of one; the rest is passed over."""

    format: Literal[1]
    graph: dict[str, JsonValue] | None = None
    outputs: list[Made]
    devices: list[str]
    plan: str | None = None
    place: Place = Place()


def rerun_shown(
    path: Path,
    *,
    # where it is made, in place of what the manifest says
    out: Path,
    devices: str = "",
    plan: str = "",
    allowed: Sequence[Path] = (),
    # how
    is_strict: bool = False,
    is_forced: bool = False,
    command: tuple[str, ...] | None = None,
    as_json: bool = False,
    is_quiet: bool = False,
    debug: bool = False,
) -> tuple[Tally, bool]:
    """The tally of the run, and whether what came of it is explained: it is as it was, or something differs that it may
    depend on.

    Raises `ValueError` for what cannot be read or done, and where something differs and it `is_strict`.
    """
    then, folder = read_manifest(path), path if path.is_dir() else path.parent
    if then.graph is None:
        raise BadInput("{} holds no workflow, since an older version wrote it; run its workflow's file", path)
    if out.resolve() == folder.resolve():
        raise ValueError(f"--out {out} is the folder of this very run, whose files it would replace; give another")
    place, missing = _place(then, devices, plan)
    graph = graph_from_plain(then.graph)
    if plans := _plans(then):
        graph = graph.model_copy(update={"meta": {**graph.meta, PLANS_KEY: plans}})
    points = points_of(graph, {}, [{}], file=path, roots=roots_of(path, (), allowed), out=out)
    asked: dict[str, Any] = {"place": place, "is_forced": is_forced, "command": command, **_shown(then, graph)}
    job = replace(as_job(points, out=out), overwrites=True, **asked)  # so that names are those of then
    is_other = plan != "" and place.plan not in plans.values()
    found = differences(
        [("plan", "plan", then.plan, place.plan if is_other else then.plan), *_beside(then, job, missing)]
    )
    if as_json:
        print_line({"kind": "differences", "differences": found})
    if found and is_strict:
        raise ValueError(f"not as it was: {'; '.join(map(_words, found))}; leave out --strict to run it all the same")
    _warn(() if as_json else found)
    tally = run_shown(job, as_json=as_json, debug=debug, stops_on_error=True, is_quiet=is_quiet)
    if tally.state != "ok":
        return tally, True
    now = read_manifest(out)
    more = [] if is_other else differences([("plan", "plan", then.plan, now.plan)])
    return tally, _tell(compared(then, now), found, more, as_json=as_json)


def read_manifest(path: Path) -> Manifest:
    """Raises `ValueError` for what is no manifest of a run."""
    path = path / MANIFEST_FILE if path.is_dir() else path
    try:
        with open_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        return Manifest.model_validate(parse_strict(data, takes_nan=True))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = f"{short('.'.join(map(str, first['loc'])))}: {first['msg']}"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or str(error)
    raise BadInput("{} is no manifest of a run ({}); give the manifest.json that a run left", path, why)


def differences(told: Iterable[tuple[str, str, Any, Any]]) -> list[Difference]:
    """Of what results may depend on: what it is, its name, as it was and as it is."""
    found = ({"what": a, "name": b, "then": str(then or "none"), "now": str(now or "none")} for a, b, then, now in told)
    return [each for each in found if each["then"] != each["now"]]


def compared(then: Manifest, now: Manifest) -> list[dict[str, Any]]:
    """Of each file, and each value, whether it is as it was: `same`, `different` or `missing`, or `unknown` where its
    hash was not kept."""
    made, told = {(each.path, each.name): each for each in now.outputs}, list[dict[str, Any]]()
    for was in [each for each in then.outputs if each.path or each.value is not None]:
        found = made.get((was.path, was.name))
        state = "missing" if found is None else "same" if found == was else "different"
        hashes = {"then": was.sha256, "now": found and found.sha256} if was.path else {}
        name = {"path": was.path} if was.path else {"name": was.name}
        told.append({**name, "state": "unknown" if was.path and not was.sha256 else state, **hashes})
    return told


def _shown(then: Manifest, graph: Graph) -> dict[str, Any]:
    """Whether it left files of nodes that save none, as the page's runs do, and which nodes alone it was asked for."""
    makers = (graph.nodes.get(each.node) for each in then.outputs if each.path)
    if all(node is None or node.type not in SPECS or SPECS[node.type].is_output for node in makers):
        return {}
    names = {each.name for each in then.outputs if each.name}
    return {"shows": True, "targets": None if names <= graph.outputs.keys() else sorted(names)}


def _plans(then: Manifest) -> dict[str, str]:
    """Of denoises, by node."""
    return {name: node.plan for name, node in then.nodes.items() if node.foreseen is not None and node.plan}


def _place(then: Manifest, devices: str, plan: str) -> tuple[Place, str]:
    """Where it is made, as far as this machine has what it had; and why it has not."""
    plans, own = {*_plans(then).values()}, ",".join(_asked(then.place))
    if own and not devices:  # the plan that was named, or else the one that was chosen
        plan = plan or (then.place.plan if names_plan(then.place) or len(plans) != 1 else min(plans))
    if not (own or devices or plan):
        return Place(), ""
    try:
        place = checked(replace(read_place(devices or own), plan=plan))
        if not devices:
            check_cores(place)
        return place, ""
    except ValueError as error:
        if devices or not own:
            raise
        return Place(), f"none ({error})"


def _asked(place: Place) -> tuple[str, ...]:
    """Its devices; of the groups of a sweep those of one."""
    return place.devices[: len(place.devices) // max(1, place.replicas)]


def _beside(then: Manifest, job: Headless, missing: str) -> Iterator[tuple[str, str, Any, Any]]:
    """All that results may depend on but the plan, for `differences`."""
    for name, now in versions().items():
        yield "version", name, then.versions.get(name), now
    yield "device", "devices", ",".join(_asked(then.place)), ",".join(job.place.devices) or missing
    yield "device", "cluster", then.place.cluster, ""
    here = {each.name: each.title for each in devices_now()} | {"cpu": title_of("cpu")}
    for told in filter(None, (re.fullmatch(r"(\S+) \((.*)\) of .*", text) for text in then.devices)):
        yield "device", told[1], told[2], here.get("cuda:0" if told[1] == "cuda" else told[1])
    (point,) = job.points
    try:
        workspace = Workspace(output_dir=job.out, roots=point.roots, place=job.place)
        found = schedule(point.ready(), workspace=workspace, targets=job.targets)
    except (GraphError, NodeFailed):
        return  # the run itself will tell
    for name, node in then.nodes.items():
        was, is_now = (_facts(node.model), _facts(found.models.get(name))) if node.model else ({}, {})
        yield from (("model", f"{name} {key}", was.get(key), is_now.get(key)) for key in {**was, **is_now})
        source = found.nodes.get(name)
        if source and source.spec.fingerprint and not (source.links or source.spec.is_output or node.model):
            yield "value", f"what {name} reads", node.key, found.keys[name]
        for socket, value in found.values.get(name, {}).items():
            if socket in node.stand_ins:
                yield "value", f"{name}.{socket}", json.dumps(node.values.get(socket)), json.dumps(value)


def _facts(model: ModelFacts | None) -> dict[str, str]:
    """What a model is, by names for people."""
    if model is None:
        return {}
    named = {name: getattr(model, name) for name in ("revision", "fingerprint", "dtype", "quantization")}
    files = {file.name: f"{file.num_bytes} bytes, header {file.header_sha256}" for file in model.files}
    return {**named, **files, **{lora.name: f"{lora.sha256} at {lora.scale:g}" for lora in model.loras}}


def _tell(
    told: Sequence[dict[str, Any]], found: Sequence[Difference], more: Sequence[Difference], *, as_json: bool
) -> bool:
    """What came of it, and what was found to differ since; whether it is explained."""
    is_same = all(each["state"] in ("same", "unknown") for each in told)
    if as_json:
        print_line({"kind": "rerun", "same": is_same, "outputs": told, "differences": [*found, *more]})
    else:
        _warn(more)
        for each in told:
            print(f"{each.get('path') or each['name']}: {each['state']}")
    if is_same or found or more:
        return True
    print("latentloom: other bytes, though nothing that is known of differs; is a node of it random?", file=sys.stderr)
    return False


def _warn(found: Sequence[Difference]) -> None:
    for each in found:
        print(f"latentloom: not as it was: {_words(each)}", file=sys.stderr)


def _words(difference: Difference) -> str:
    """In words; what a terminal would obey is left out."""
    whole = ("".join(c for c in difference[key] if c.isprintable()) for key in ("name", "then", "now"))
    return "{}: {} then, {} now".format(*(text[:MOST_SHOWN] for text in whole))
