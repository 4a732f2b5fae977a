"""What is said of the shipped workflows before they run, recorded, and compared with a later commit's.

    python tests/bench/verdicts.py record before.json [--checkout ../before] [--only flux]     # 4 minutes
    python tests/bench/verdicts.py record after.json
    python tests/bench/verdicts.py compare before.json after.json [--texts]

Each workflow as it is, with a tiny model of its family and where there is one a hollow model of true size, on one
device and through a Parallel Plan on `cpu*2` and `cpu*4`, with wrong sizes, a wrong model, a mask, a wrong mask and
4096 pixels. Recorded are exit codes, problems and values of `check --json`, the answers of `plan --json` for this
machine and four named ones, and the keys under which results are kept.

This machine is one that is assumed: four cores, 24 GiB, 4 in use, busy. Keys depend on the folder of the models, which
is FOLDER, made once and kept.

`compare` tells each difference by its way, and exits with 1 where one is not allowed. Allowed is what comes of one
rule, "`auto` takes nothing that rounds differently" (ring, compiled, rows of a decode), of seconds that nobody measured
and nobody tells, and of `plan` for this machine, which tells what a run takes also where nobody measured. Texts may
differ, and are counted.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.checkouts import call_in, commands, leaves, write_record
from bench.shipped import FOLDER, FRAME, HOLLOW, place_built_in, prepare, small_settings

TIMEOUT_S = 1800
GIB = 1 << 30
MACHINES = ("8xH100-nvlink", "4x4090-pcie4", "2xL40S-pcie4", "1x4090")
LARGE = {"width": 4096, "height": 4096}
FAULTS: Mapping[str, Mapping[str, object]] = {
    "size far too large": {"width": 1000003},
    "size no multiple": {"width": 70, "height": 7},
    "4096 px": LARGE,
    "steps below 0": {"steps": -1},
    "frames no multiple": {"frames": 6},
    "wrong model": {"source": "no_such_model"},
}
# Of the workflow that names its devices: right and wrong ones.
PLANS = ("auto", "auto,compiled", "cfg=2", "ulysses=2", "ring=2", "allgather=2", "ulysses=3", "rings=2")
ASKED = {"": (), "compiled": ("--compiled",), "8 runs": ("--runs", "8"), "int8": ("--quantization", "int8")}
TEXTS = {"message", "error", "why", "hint", "rule", "title", "words", "warnings"}
PRINTED = 40


def main() -> int:
    parser, recording, comparing = commands(__doc__)
    recording.add_argument("--only", default="", help="workflows whose name holds this")
    comparing.add_argument("--texts", action="store_true", help="list the texts that changed")
    comparing.add_argument("--all", action="store_true", help=f"print all differences, not {PRINTED} of a kind")
    chosen = parser.parse_args()
    if chosen.command == "compare":
        return compare(chosen.old, chosen.new, texts=chosen.texts, most=sys.maxsize if chosen.all else PRINTED)
    found = call_in(chosen.checkout, __file__, "verdicts", timeout_s=TIMEOUT_S, only=chosen.only)
    write_record(chosen.file, found)
    return 0


# ---- recording, in the process of one checkout


def verdicts(only: str) -> dict[str, Any]:
    stand_in_machine()
    from latentloom.nodes.headless.workflow_files import SHIPPED

    found: dict[str, Any] = {}
    files = prepare(SHIPPED)
    place_built_in()
    os.chdir(FOLDER)
    for file in files:
        if only not in file.stem:
            continue
        start = time.monotonic()
        found[file.stem] = {
            name: verdict(path, settings, keyed, machines) for name, path, settings, keyed, machines in cases(file)
        }
        print(f"{file.stem}: {len(found[file.stem])} cases, {time.monotonic() - start:.1f} s", file=sys.stderr)
    return found


def stand_in_machine() -> None:
    """What this machine is said to be, for all modules that are imported later."""
    import psutil

    from latentloom.parallel.machine import now

    memory = psutil.virtual_memory()._replace(total=24 * GIB, available=20 * GIB)
    for owner, name, value in (
        (psutil, "virtual_memory", memory),
        (psutil, "getloadavg", (9.0, 9.0, 9.0)),
        (now, "read_container", now.Container()),
        (now, "used_memory_bytes", 4 * GIB),
        (now, "num_cores", 4),
    ):
        assert callable(getattr(owner, name)), f"{name} has gone from {owner.__name__}: mend this"
        setattr(owner, name, lambda *_, told=value, **__: told)


# Its name, file and settings; whether keys are asked for, and the machines to plan for.
Case = tuple[str, Path, dict[str, object], bool, Sequence[str]]


def cases(file: Path) -> Iterator[Case]:
    plain = json.loads(file.read_text())
    yield "as is", file, {}, True, ("here", *MACHINES)
    for family, small in small_settings(file):
        if family:
            own = {name: small[name] for name in {"source", "image", "image_2"} & small.keys()}
            yield f"{family}, small", file, small, True, ("here", *MACHINES)
            yield f"{family}, its own numbers", file, own, True, ("here", *MACHINES)
        of = f"{family}, " if family else ""
        for name, wrong in FAULTS.items():
            settings = _on_nodes({**small, **wrong}, plain)
            if set(settings) != set(small) or settings != small:
                yield f"{of}{name}", file, settings, name == "4096 px", ("here", *MACHINES[:2])
        for devices in ("cpu*2", "cpu*4"):
            if spread := with_plan(plain, devices):
                yield f"{of}on {devices}", _written(file, spread, devices), small, True, ()
                large = _on_nodes({**small, **LARGE}, spread)
                yield f"{of}4096 px on {devices}", _written(file, spread, devices), large, True, ()
        for name, mask in {"a mask": FRAME, "a wrong mask": FOLDER / "no_such_mask.png"}.items():
            if "mask" in plain["params"]:
                yield f"{of}{name}", file, {**small, "mask": mask}, True, ("here",)
            elif masked := with_mask(plain, mask):
                yield f"{of}{name}", _written(file, masked, name), small, True, ("here",)
    if name := HOLLOW.get(file.stem):
        of = {"source": FOLDER / f"hollow_{name}"}
        yield "hollow", file, of, True, ("here", *MACHINES)
        yield "hollow, 4096 px", file, {**of, **LARGE}, True, ("here", *MACHINES)
        for devices in ("cpu*2", "cpu*4"):
            yield f"hollow on {devices}", _written(file, with_plan(plain, devices), devices), of, True, ()
    if "plan" in plain["params"]:
        for plan in PLANS:
            yield f"plan {plan}", file, {"plan": plan}, True, ("here",)
        yield "plan auto on cpu*4", file, {"devices": "cpu*4"}, True, ("here",)
        yield "engine inductor", file, {"load_model.engine": "inductor"}, True, ("here", *MACHINES)
        for plan in ("ring=2", "cfg=2", "nonsense"):
            carrying = {**plain, "meta": {"latentloom_plans": {"denoise": plan}}}
            yield f"carries {plan}", _written(file, carrying, f"carries {plan}"), {}, True, ()


def _on_nodes(settings: Mapping[str, object], plain: Mapping[str, Any]) -> dict[str, object]:
    """Those of no param at the first node that has such a socket; what none has is left out."""
    from latentloom.nodes.registry import SPECS

    found = {}
    for name, value in settings.items():
        if name in plain["params"]:
            found[name] = value
            continue
        nodes = (key for key, node in plain["nodes"].items() if SPECS[node["type"]].input(name) is not None)
        if node := next(nodes, ""):
            found[f"{node}.{name}"] = value
    return found


def with_plan(plain: Mapping[str, Any], devices: str) -> dict[str, Any]:
    """The workflow with its first model through a Parallel Plan, `auto`; {} where it has one, or no model."""
    nodes = plain["nodes"]
    loader = next((name for name, node in nodes.items() if node["type"] == "LoomLoadModel"), "")
    if not loader or any(node["type"] == "LoomParallelPlan" for node in nodes.values()):
        return {}
    changed = {name: {**node, "inputs": dict(node["inputs"])} for name, node in nodes.items()}
    for node in changed.values():
        for socket, entry in node["inputs"].items():
            if isinstance(entry, dict) and entry.get("from") == f"{loader}.model":
                node["inputs"][socket] = {"from": "spread.model"}
    inputs = {"model": {"from": f"{loader}.model"}, "devices": devices, "plan": "auto"}
    return {**plain, "nodes": {**changed, "spread": {"type": "LoomParallelPlan", "version": 1, "inputs": inputs}}}


def with_mask(plain: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The workflow with a mask of a file at each socket for one; {} where there is no such socket."""
    from latentloom.nodes.registry import SPECS

    changed, is_changed = {}, False
    for name, node in plain["nodes"].items():
        inputs = dict(node["inputs"])
        for socket in SPECS[node["type"]].inputs:
            if socket.type == "Mask":
                inputs[socket.name], is_changed = {"from": "the_mask.mask"}, True
        changed[name] = {**node, "inputs": inputs}
    mask = {"type": "LoomLoadMask", "version": 1, "inputs": {"path": str(path), "channel": "luminance"}}
    return {**plain, "nodes": {**changed, "the_mask": mask}} if is_changed else {}


def _written(file: Path, plain: Mapping[str, Any], name: str) -> Path:
    """Beside the workflow's own file, as what it loads lies there; the same whoever writes it."""
    path = file.with_name(f"{file.stem} {name.replace('*', 'x')}.json")
    text = json.dumps(plain)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def verdict(file: Path, settings: Mapping[str, object], is_keyed: bool, machines: Sequence[str]) -> dict[str, Any]:
    options = [option for name, value in settings.items() for option in ("--set", f"{name}={value}")]
    options += ["--allow", str(FOLDER)]
    found: dict[str, Any] = {"check": checked(["check", "--json", str(file), *options])}
    for machine in machines:
        is_hollow = "hollow" in str(settings.get("source", "")) and machine != "here"
        for name, asked in ASKED.items() if is_hollow else (("", ()),):
            of = f"plan {machine}, {name}" if name else f"plan {machine}"
            found[of] = planned(["plan", "--json", str(file), *options, "--machine", machine, *asked])
    if is_keyed and not any(each["kind"] == "error" for each in found["check"].get("problems", {}).values()):
        found["keys"] = keys(file, [f"{name}={value}" for name, value in settings.items()])
    return found


def _told(arguments: Sequence[str]) -> tuple[int, Any]:
    """Exit code and JSON of one command, which knows nothing of those before it."""
    from latentloom.__main__ import main as latentloom

    out = io.StringIO()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            try:
                code = latentloom(arguments)
            except SystemExit as stopped:
                code = int(stopped.code or 0)
    return code, json.loads(out.getvalue() or "{}")


def checked(arguments: Sequence[str]) -> dict[str, Any]:
    code, told = _told(arguments)
    if "problems" not in told:
        return {"exit": code, "result": told}
    problems: dict[str, Any] = {}
    for problem in told["problems"]:
        name = f"{problem['code']} at {problem['node']}.{problem['socket']}"
        count = sum(each.partition(" #")[0] == name for each in problems)
        problems[f"{name} #{count}"] = problem
    return {"exit": code, "problems": problems, "values": told["values"]}


def planned(arguments: Sequence[str]) -> dict[str, Any]:
    code, told = _told(arguments)
    if isinstance(told, dict):
        return {"exit": code, "result": told}
    for denoise in told:
        for kind in ("plans", "rejected"):
            denoise[kind] = {f"{each['plan']} x{each['replicas']}": each for each in denoise[kind]}
        for each in (*denoise["plans"].values(), *denoise["rejected"].values()):
            del each["plan"], each["replicas"]
    return {"exit": code, "denoises": {denoise.pop("node"): denoise for denoise in told}}


def keys(file: Path, settings: Sequence[str]) -> dict[str, Any]:
    """The key of every node, and where a plan that `auto` chose is part of one, what it would be without."""
    from latentloom.nodes.execution import schedule as scheduling
    from latentloom.nodes.files.workspace import Workspace
    from latentloom.nodes.headless.job import split_set, typed_values
    from latentloom.nodes.headless.workflow_files import read_workflow, roots_of
    from latentloom.nodes.registry import SPECS

    def asked() -> dict[str, str]:
        named = [text.partition("=")[2] for text in settings]
        graph, roots = read_workflow(file), roots_of(file, named, [FOLDER])
        workspace = Workspace(roots=roots, host="command line")
        overrides = typed_values(graph, SPECS, split_set(settings), workspace=workspace)
        if not hasattr(scheduling, "Ready"):  # of a commit in which each asker prepared a workflow by itself
            return dict(scheduling.schedule(graph, SPECS, overrides=overrides, workspace=workspace).keys)
        from latentloom.nodes.graph.ready import ready

        prepared = ready(graph, SPECS, overrides, workspace=workspace)
        return dict(scheduling.schedule(prepared, workspace=workspace).keys)

    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        try:
            found = asked()
        except Exception as error:
            return {"refused": type(error).__name__, "error": str(error)}
        return {"with": found, "without": _without_plans(scheduling, asked)}


def _without_plans(scheduling: Any, asked: Any) -> dict[str, str]:
    """{} of a commit in which `auto` chooses nothing that is part of a key."""
    from unittest import mock

    if not hasattr(scheduling, "leeways"):
        return {}
    with (
        mock.patch.object(scheduling, "leeways", lambda *_, **__: {}),
        mock.patch.object(scheduling, "decoders_of", lambda *_, **__: 0),
    ):
        return asked()


# ---- comparing


def compare(old: dict[str, Any], new: dict[str, Any], *, texts: bool, most: int) -> int:
    """Prints what differs and gives 1 where something does that must not."""
    before, after = leaves(old), leaves(new)
    kinds: dict[str, list[str]] = {}
    for way in sorted({*before, *after}):
        if before.get(way, None) == after.get(way, None) and (way in before) == (way in after):
            continue
        told = f"{way}: {_short(before, way)} -> {_short(after, way)}"
        kinds.setdefault(kind_of(way, old, new, before, after), []).append(told)
    changed = kinds.pop("text", [])
    for kind, found in sorted(kinds.items()):
        print(f"{'NOT ALLOWED' if not kind else 'allowed, ' + kind}: {len(found)}")
        for line in found[: most if not kind else min(most, 5)]:
            print(f"    {line}")
    print(f"texts that changed: {len(changed)}")
    if texts:
        pairs = Counter(line.partition(": ")[2] for line in changed)
        print(*(f"    {count} x {pair}" for pair, count in pairs.most_common()), sep="\n")
    num_cases = sum(len(each) for each in new.values())
    print(f"{len(before)} values of {num_cases} cases compared; {len(kinds.get('', []))} differ that must not")
    return int("" in kinds)


def _short(found: Mapping[str, Any], way: str) -> str:
    return str(json.dumps(found[way]))[:160] if way in found else "nothing"


def kind_of(way: str, old: Any, new: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """By what a difference is allowed; "" where it is not, "text" of a text."""
    workflow, case, asked, *rest = way.split("/")
    last = rest[-1] if rest else ""
    if last in TEXTS:
        return "text"
    if asked == "keys":
        if rest[0] == "without":
            return "keys without plans, of old commits only"
        plain = before.get(f"{workflow}/{case}/keys/without/{last}")
        return "keys that a plan of auto was part of" if plain is not None and after.get(way) == plain else ""
    if way in before and after.get(way, 0) is None and (last.endswith("_s") or last == "seconds"):
        return "seconds that nobody measured"
    if asked == "check" and last == "plan" and "compiled" in str(after.get(way)):
        return "plans of auto,compiled, which say so"
    if asked == "check" and " on cpu*" in case and case.split(" on ")[0].endswith("4096 px"):
        # Ranks on a CPU share its memory, of which a decode by rows takes more in all than one rank alone: what was
        # split by them fitted less, or on one rank only, where one by the rule now decodes for several.
        if last == "plan" and way not in before:
            return "plans of several ranks, of which one decodes"
        if "/mends/" in way and way in before and way in after and after[way] > before[way]:
            return "larger sizes that fit, since one rank decodes"
    if not asked.startswith("plan") or rest[0] != "denoises" or len(rest) < 3:
        return ""
    one, other = (each.get(workflow, {}).get(case, {}).get(asked, {}) for each in (old, new))
    one, other = (each.get("denoises", {}).get(rest[1]) for each in (one, other))
    if one is None or other is None:
        return ""
    fewer = {name for name, each in one["plans"].items() if _rows(each) > _rows(other["plans"].get(name, {}))}
    if rest[2] == "plans":
        return "rows of a decode" if rest[3] in fewer and last in OF_ROWS else ""
    if asked.startswith("plan here") and rest[2] in ("chosen", "rejected"):
        return "plans of this machine, which nobody measured: what a run takes"
    if rest[2] in ("chosen", "rejected", "remedies"):
        if one["chosen"] and (one["chosen"]["rounds_differently"] or "ring" in one["chosen"]["plan"]):
            return "plans of auto that rounded differently"
        if rest[2] == "remedies" and "ring" in str(one["remedies"]):
            return "remedies by plans that rounded differently"
        if fewer:
            return "plans of auto among those with rows of a decode"
        if rest[2] == "rejected":
            return "what is told of plans that are not taken"
    return ""


def _rows(candidate: Mapping[str, Any]) -> int:
    return candidate.get("decoders", 0)


OF_ROWS = ("decoders", "decode_s", "seconds", "bytes", "lacking_bytes", "rounds_differently", "new_prompt_s")


if __name__ == "__main__":
    sys.exit(main())
