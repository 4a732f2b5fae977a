"""Make a run again by its manifest: what differs from then is told first, whether its bytes are the same last.

A manifest may be a stranger's: it is read within limits, and its run reads and writes no more than that of a workflow's
file. What it says of a Ray cluster is passed over, since that would say where a request goes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, JsonValue, ValidationError

from ...parallel.machine.now import devices_now
from ...parallel.progress import title_of
from ...parallel.wording import worded
from ...pipelines.models.regular_file import JsonFault, open_regular, parse_strict
from ...pipelines.place import check_cores, checked, names_plan, read_place
from ...pipelines.values import Place
from ..execution.failure import NodeFailed
from ..execution.manifest import MANIFEST_FILE, versions
from ..execution.models_used import ModelFacts
from ..execution.schedule import schedule
from ..files.workspace import Workspace
from ..graph.graph import graph_from_plain
from ..graph.problems import GraphError, short
from ..graph.ready import ready
from ..preview.carried import PLANS_KEY
from ..registry import SPECS
from .job import Headless
from .stream import print_line
from .workflow_files import roots_of

MOST_BYTES = 64 << 20  # of a manifest
MOST_SHOWN = 120  # characters of each part of a difference, in a sentence


class Output(BaseModel):
    """A file by its path, or a value by its name."""

    path: str = ""
    sha256: str | None = None
    name: str = ""
    value: JsonValue = None


class NodeThen(BaseModel):
    """What became of one."""

    values: dict[str, JsonValue] = {}
    stand_ins: list[str] = []
    model: ModelFacts | None = None
    plan: str = ""
    foreseen: JsonValue = None  # of a denoise


class Manifest(BaseModel):
    """What is read of one; the rest is passed over."""

    format: Literal[1]  # `FORMAT`
    graph: dict[str, JsonValue] | None = None
    versions: dict[str, str | None]
    nodes: dict[str, NodeThen]
    outputs: list[Output]
    devices: list[str]
    plan: str | None = None
    place: Place = Place()

    @property
    def devices_asked(self) -> tuple[str, ...]:
        """By the run; of the groups of a sweep those of one."""
        return self.place.devices[: len(self.place.devices) // max(1, self.place.replicas)]

    @property
    def denoised_by(self) -> dict[str, str]:
        """The plans of denoises, by node."""
        return {name: node.plan for name, node in self.nodes.items() if node.foreseen is not None and node.plan}


What = Literal["version", "model", "value", "plan", "device"]


@dataclass(frozen=True)
class Difference:
    """Something that results may depend on, as it was and as it is."""

    what: What
    name: str
    then: str
    now: str

    def __str__(self) -> str:
        whole = ("".join(c if c.isprintable() else "?" for c in text) for text in (self.name, self.then, self.now))
        name, then, now = (text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..." for text in whole)
        return f"{name}: {then} then, {now} now"


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """A run to be made once more."""

    then: Manifest
    job: Headless
    differences: tuple[Difference, ...]


def read_manifest(path: Path) -> Manifest:
    """Raises `ValueError` for what is no manifest of a run."""
    path = path / MANIFEST_FILE if path.is_dir() else path
    try:
        with open_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        return Manifest.model_validate(parse_strict(data, takes_nan=True))
    except OSError as error:
        why = error.strerror or str(error)
    except JsonFault as fault:
        why = fault.reason
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = short(".".join(map(str, first["loc"])))
        why = f"{where}: {first['msg']}"
    except ValueError as error:
        why = str(error)
    raise ValueError(worded("{} is no manifest of a run ({}); give the manifest.json that a run left", path, why))


def again(
    path: Path, *, out: Path, allowed: Sequence[Path], devices: str = "", plan: str = "", cluster: str = ""
) -> Rerun:
    """The run of a manifest, to be made into `out`; with devices and a plan in place of its own, where they are given.

    Raises `ValueError` for what cannot be read, or what is asked for and cannot be.
    """
    then, folder = read_manifest(path), path if path.is_dir() else path.parent
    if then.graph is None:
        raise ValueError(worded("{} holds no workflow, since an older version wrote it; run its workflow's file", path))
    if out.resolve() == folder.resolve():
        raise ValueError(f"--out {out} is the folder of this very run, whose files it would replace; give another")
    place, missing = _place(then, devices, plan, cluster)
    graph = graph_from_plain(then.graph)
    if then.denoised_by:
        graph = graph.model_copy(update={"meta": {**graph.meta, PLANS_KEY: then.denoised_by}})
    job = Headless(graph=graph, overrides={}, sweep=[{}], out=out, roots=roots_of(path, (), allowed), place=place)
    asked = place.plan if plan and place.plan not in then.denoised_by.values() else then.plan
    told: list[tuple[What, str, Any, Any]] = [("plan", "plan", then.plan, asked), *_told_of(then, job, missing)]
    found = (Difference(what, name, str(was or "none"), str(now or "none")) for what, name, was, now in told)
    return Rerun(then=then, job=job, differences=tuple(each for each in found if each.then != each.now))


def _place(then: Manifest, devices: str, plan: str, cluster: str) -> tuple[Place, str]:
    """Where it is made, as far as this machine has what it had; why it has not."""
    was, plans = then.place, {*then.denoised_by.values()}
    own, given = ",".join(then.devices_asked), bool(devices or plan or cluster)
    if not devices:  # the plan that was named, or else the one that was chosen
        plan = plan or (was.plan if names_plan(was) or len(plans) != 1 else min(plans))
    if not own and not given:
        return Place(), ""
    try:
        place = checked(replace(read_place(devices or own, cluster=cluster), plan=plan))
        if not devices:
            check_cores(place)
        return place, ""
    except ValueError as error:
        if given:
            raise
        return Place(), f"none ({error})"


def _told_of(then: Manifest, job: Headless, missing: str) -> Iterator[tuple[What, str, Any, Any]]:
    """What results may depend on, as it was and as it is; the plan apart."""
    for name, now in versions().items():
        yield "version", name, then.versions.get(name), now
    yield "device", "devices", ",".join(then.devices_asked), ",".join(job.place.devices) or missing
    yield "device", "cluster", then.place.cluster, job.place.cluster
    here = {each.name: each.title for each in devices_now()} | {"cpu": title_of("cpu")}
    for told in filter(None, (re.fullmatch(r"(\S+) \((.*)\) of .*", text) for text in then.devices)):
        yield "device", told[1], told[2], here.get("cuda:0" if told[1] == "cuda" else told[1])
    prepared = ready(job.graph, SPECS, workspace=Workspace(roots=job.roots, host="command line"))
    try:
        found = schedule(prepared, workspace=Workspace(output_dir=job.out, roots=job.roots, place=job.place))
    except (GraphError, NodeFailed):
        return  # the run itself will tell
    for name, node in then.nodes.items():
        was, is_now = (_facts(node.model), _facts(found.models.get(name))) if node.model else ({}, {})
        for key in {**was, **is_now}:
            yield "model", f"{name} {key}", was.get(key), is_now.get(key)
        meant = found.values.get(name, {})
        for socket in [socket for socket in node.stand_ins if socket in meant]:
            yield "value", f"{name}.{socket}", json.dumps(node.values.get(socket)), json.dumps(meant[socket])


def _facts(model: ModelFacts | None) -> dict[str, str]:
    """What a model is, by names for people."""
    if model is None:
        return {}
    named = {name: getattr(model, name) for name in ("revision", "fingerprint", "dtype", "quantization")}
    files = {file.name: f"{file.num_bytes} bytes, header {file.header_sha256}" for file in model.files}
    return {**named, **files, **{lora.name: f"{lora.sha256} at {lora.scale:g}" for lora in model.loras}}


# ---- What came of it.

WORDS = {
    "same": "the same bytes",
    "different": "other bytes than then",
    "missing": "not made",
    "unknown": "made, but its hash was not kept then",
}


def compared(again: Rerun) -> tuple[list[dict[str, Any]], list[Difference]]:
    """Of each file, and each value, whether it is as it was: `same`, `different` or `missing`, or `unknown` where its
    hash was not kept; and in what the run differed, with what shows only once it is over."""
    then, now = again.then, read_manifest(again.job.out)
    made, told = {(each.path, each.name): each for each in now.outputs}, list[dict[str, Any]]()
    for was in [each for each in then.outputs if each.path or each.value is not None]:
        found = made.get((was.path, was.name))
        state = "missing" if found is None else "same" if found == was else "different"
        if was.path:
            state = state if was.sha256 else "unknown"
            told.append({"path": was.path, "state": state, "then": was.sha256, "now": found and found.sha256})
        else:
            told.append({"name": was.name, "state": state})
    differences = [*again.differences]
    if then.plan != now.plan and all(each.what != "plan" for each in differences):
        differences.append(Difference("plan", "plan", then.plan or "none", now.plan or "none"))
    return told, differences


def print_differences(again: Rerun, *, as_json: bool, is_strict: bool) -> None:
    """Before the run. Raises `ValueError` where there are some and none may be."""
    found = again.differences
    if as_json:
        print_line({"kind": "differences", "differences": [asdict(each) for each in found]})
    if found and is_strict:
        raise ValueError(
            worded("not as it was: {}; leave out --strict to run it all the same", "; ".join(map(str, found)))
        )
    if not as_json:
        _warn(found)


def print_compared(again: Rerun, *, as_json: bool) -> bool:
    """After the run; whether what came of it is explained: it is the same, or something else was other than then."""
    told, differences = compared(again)
    is_same = all(each["state"] in ("same", "unknown") for each in told)
    if as_json:
        plain = [asdict(each) for each in differences]
        print_line({"kind": "rerun", "same": is_same, "outputs": told, "differences": plain})
    else:
        _warn(differences[len(again.differences) :])
        for each in told:
            print(f"{each.get('path') or each['name']}: {WORDS[each['state']]}")
    if is_same or differences:
        return True
    print("latentloom: other bytes, though nothing that is known of differs; is a node of it random?", file=sys.stderr)
    return False


def _warn(differences: Sequence[Difference]) -> None:
    for each in differences:
        print(f"latentloom: not as it was: {each}", file=sys.stderr)
