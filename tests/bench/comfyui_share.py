"""How much of what people run in ComfyUI its classes with a split plan cover: its templates, by their use.

    [COMFYUI_DIR=DIR[:DIR]] python tests/bench/comfyui_share.py

`comfyui_share.json`, reviewed by hand, says for each family of `share_of_use.json`, and for templates that differ from
theirs, by which classes of ComfyUI 0.33.0 the files that they load are run, or why by none. What counts is the use of
templates whose classes stand there, and of it that whose classes all have a plan. COMFYUI_DIR names checkouts of
ComfyUI, the first of that version: that the classes are in it is read in its source text, nothing is imported; and each
class that its `model_base.py` denoises with is listed, with its plan or why it has none. Exits 1 where the share is
below the goal, a class is not there, or one has neither a plan nor a reason.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.nodes.hosts.native.splits.plans import OF_ROWS, PLANS

HERE = Path(__file__).resolve()
GOAL = 95.0
NO_REASON = "not looked at"


@dataclass(frozen=True)
class Used:
    """A template; `classes` run it, or `why` says why none does."""

    name: str
    usage: int
    family: str
    classes: tuple[str, ...]
    why: str

    @property
    def has_plans(self) -> bool:
        return all(each in PLANS for each in self.classes)


def reviewed() -> dict[str, dict[str, list[str] | str]]:
    return json.loads(HERE.with_suffix(".json").read_text())


def templates() -> list[Used]:
    said = reviewed()
    found = []
    for row in json.loads((HERE.parent / "share_of_use.json").read_text())["rows"]:
        by = said["templates"].get(row["name"]) or said["families"][row["family"]]
        classes, why = ((), by) if isinstance(by, str) else (tuple(by), "")
        found.append(Used(row["name"], row["usage"], row["family"], classes, why))
    return found


def share(some: list[Used]) -> float:
    """Of the use of those whose class is there, in percent."""
    there = [each for each in some if each.classes]
    return 100 * sum(each.usage for each in there if each.has_plans) / (sum(each.usage for each in there) or 1)


def table(some: list[Used]) -> Iterator[str]:
    total, there = sum(each.usage for each in some), [each for each in some if each.classes]
    uses = Counter[str]()
    for each in there:
        uses[" and ".join(each.classes)] += each.usage
    yield f"{'classes by which templates are run':<66}{'templates':>10}{'use, %':>8}  plan"
    for classes, usage in uses.most_common():
        mine = [each for each in there if " and ".join(each.classes) == classes]
        plan = "yes" if mine[0].has_plans else "no"
        yield f"{classes.replace('comfy.ldm.', ''):<66}{len(mine):>10}{100 * usage / total:8.2f}  {plan}"
    yield ""
    reasons = Counter[tuple[str, str]]()
    for each in some:
        if each.why:
            reasons[each.family if each.family != "other" else each.name, each.why] += each.usage
    yield from (f"by none: {name} {100 * usage / total:.2f} %: {why}" for (name, why), usage in reasons.most_common())
    used = sum(each.usage for each in there)
    patched = [each for each in some if each.name in reviewed()["patched"]]
    yield ""
    yield f"{100 * used / total:.1f} % of the use is of the {len(there)} whose classes stand in {reviewed()['version']}"
    yield f"{share(some):.2f} % of that is of classes with a plan; the goal is {GOAL:.0f} %"
    rows = [each for each in there if set(each.classes) & OF_ROWS.keys()]
    told = "are by classes that are spread by their rows alone, where the sampler guides or makes several pictures"
    yield f"{len(rows)} of them, {100 * sum(each.usage for each in rows) / used:.2f} %, {told}"
    words = "put patches into blocks besides, which Spread Model refuses by name"
    yield f"{len(patched)} of them, {100 * sum(each.usage for each in patched) / used:.2f} %, {words}"


def classes_of(checkout: Path) -> dict[str, list[str]]:
    """The classes that ComfyUI denoises with, each with those of `model_base.py` that take it."""
    tree = ast.parse((checkout / "comfy" / "model_base.py").read_text())
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    found: dict[str, list[str]] = {}
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            given: list[ast.expr] = []
            if isinstance(node, ast.Call):
                given = [each.value for each in node.keywords if each.arg == "unet_model"]
            elif isinstance(node, ast.FunctionDef):
                names = [each.arg for each in node.args.args][::-1]
                given = [d for name, d in zip(names, node.args.defaults[::-1], strict=False) if name == "unet_model"]
            for each in given:
                path = ast.unparse(each)
                path = imported.get(path, path)
                if "." in path and kind.name not in found.setdefault(path, []):
                    found[path].append(kind.name)
    return found


def stands(checkout: Path, path: str) -> bool:
    module, _, name = path.rpartition(".")
    file = checkout / f"{module.replace('.', '/')}.py"
    return file.is_file() and re.search(rf"^class {name}\b", file.read_text(), re.MULTILINE) is not None


def version_of(checkout: Path) -> str:
    return "".join(re.findall(r'__version__ *= *"(.*?)"', (checkout / "comfyui_version.py").read_text()))


def listed(checkout: Path, without: Mapping[str, object]) -> Iterator[str]:
    """Each class of a checkout with its plan, or why it has none."""
    for path, kinds in sorted(classes_of(checkout).items()):
        told = "plan" if path in PLANS else f"no plan: {without.get(path, NO_REASON)}"
        told = "plan of rows alone" if path in OF_ROWS else told
        yield f"{path.replace('comfy.ldm.', ''):<62} {told}  ({', '.join(kinds)})"


def wrong_names(some: list[Used]) -> Iterator[str]:
    """What the reviewed file says of no template, or twice."""
    said = reviewed()
    names, families = {each.name for each in some}, {each.family for each in some}
    yield from (f"{name}: no such template" for name in {*said["templates"], *said["patched"]} - names)
    yield from (f"{name}: no such family" for name in said["families"].keys() - families)
    yield from (f"{path}: it has a plan, and a reason why not" for path in said["without"].keys() & PLANS.keys())


def main() -> int:
    some = templates()
    wrong = list(wrong_names(some))
    for line in table(some):
        print(line)
    checkouts = [Path(each) for each in os.environ.get("COMFYUI_DIR", "").split(os.pathsep) if each]
    if not checkouts:
        print("not compared with ComfyUI itself: COMFYUI_DIR names no checkout")
    for checkout in checkouts:
        version = version_of(checkout)
        lines = list(listed(checkout, reviewed()["without"]))
        num_plans = sum(" no plan: " not in line for line in lines)
        print(f"\nComfyUI {version}: {num_plans} of its {len(lines)} classes that denoise have a plan")
        print(*lines, sep="\n")
        if names := [line.split()[0] for line in lines if NO_REASON in line]:
            wrong.append(f"{version}: neither a plan nor a reason: {', '.join(names)}")
        if version == reviewed()["version"]:
            classes = {path for each in some for path in each.classes}
            wrong += [f"{path} is not in {version}" for path in sorted(classes) if not stands(checkout, path)]
    if share(some) < GOAL:
        wrong.append(f"{share(some):.2f} % is below the goal")
    print(*(f"WRONG: {each}" for each in wrong), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
