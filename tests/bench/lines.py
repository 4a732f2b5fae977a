"""How large the house is: lines by folder, comments, large files and functions, classes of foresight, names shared.

    python tests/bench/lines.py                    # of the files as they lie here: a second
    python tests/bench/lines.py --beside REV       # and of a commit, without a checkout
    python tests/bench/lines.py --names            # which classes, files and functions the counts are of

Counted are all lines of all files that git knows or would add, by the first of KINDS that a path fits. A comment line
is one that has a `#` comment; strings, those below constants too, are none. It never fails: what cannot be counted is
said. CI prints it.
"""

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON, SCRIPT, STYLE = (".py",), (".ts", ".tsx", ".mts", ".js", ".mjs", ".sh"), (".css",)
# Bobbin's training made the built-in model, and is no part of the product. What is built is left out.
KINDS: Mapping[str, Callable[[str], bool]] = {
    "bobbin's training": lambda path: (
        path.startswith(("pipelines/bobbin/training/", "tests/bobbin/")) and "/test_" not in path
    ),
    "tests": lambda path: path.startswith(("tests/", "ui/web/test/")) and path.endswith((*PYTHON, *SCRIPT)),
    "recipes": lambda path: path.startswith("deploy/") and path.endswith(PYTHON),
    "product Python": lambda path: path.endswith(PYTHON),
    "page, generated": lambda path: path.startswith("ui/web/src/generated/"),
    "page": lambda path: path.startswith("ui/web/") and path.endswith((*SCRIPT, *STYLE)),
}
# Where it is asked what a run would do. Classes with a leading underscore are counted beside.
FORESIGHT = (
    "pipelines/forecast/",
    "pipelines/planning/",
    "pipelines/costs/",
    "pipelines/needs/",
    "nodes/preview/",
    "nodes/execution/preflight.py",
    "nodes/execution/outlook.py",
    "nodes/headless/foretold.py",
    "nodes/headless/plans.py",
    "parallel/pool/measuring.py",
    "ui/views/plan_view.py",
)
LONG_FILE, LONG_FUNCTION = 350, 40


@dataclass
class House:
    """What was counted of one state of the repository."""

    lines: Counter[str] = field(default_factory=Counter)  # by kind, and by "kind: folder"
    files: Counter[str] = field(default_factory=Counter)
    comments: int = 0
    long_files: list[str] = field(default_factory=list)
    long_functions: list[str] = field(default_factory=list)
    num_functions: int = 0
    # By name the files of the product that have one.
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    foresight: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="REV", help="a commit to count too")
    parser.add_argument("--names", action="store_true", help="what the counts are of")
    chosen = parser.parse_args()
    try:
        houses = {"now": counted(here())}
    except Exception as error:  # a table that is missing must not end a run of tests
        print(f"nothing was counted here: {error}")
        return 0
    if chosen.beside:
        try:
            houses = {chosen.beside[:12]: counted(committed(chosen.beside)), **houses}
        except Exception as error:
            print(f"{chosen.beside} was not counted: {error}")
    print("\n".join(table(houses)))
    if chosen.names:
        print("\n".join(names(houses["now"])))
    return 0


# ---- which files


def here() -> Iterable[tuple[str, str]]:
    """Paths and texts as they lie in the folder."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
    for path in sorted(set(filter(_is_counted, listed))):
        if (ROOT / path).is_file():
            yield path, (ROOT / path).read_text(encoding="utf-8")


def committed(rev: str) -> Iterable[tuple[str, str]]:
    """Paths and texts of a commit."""
    found = {}
    for entry in filter(None, _git("ls-tree", "-r", "-z", rev).decode().split("\0")):
        about, path = entry.split("\t", 1)
        if _is_counted(path):
            found[path] = about.split()[2]
    told = io.BytesIO(_git("cat-file", "--batch", given="\n".join(found.values()).encode()))
    for path in found:
        size = int(told.readline().split()[2])  # "hash blob size", the text, an empty line
        yield path, told.read(size + 1)[:-1].decode()


def _git(*arguments: str, given: bytes = b"") -> bytes:
    ended = subprocess.run(["git", *arguments], cwd=ROOT, input=given, capture_output=True)
    if ended.returncode:
        raise OSError(f"git {arguments[0]}: {ended.stderr.decode().strip()[:200]}")
    return ended.stdout


def _is_counted(path: str) -> bool:
    return _kind(path) != ""


def _kind(path: str) -> str:
    return next((kind for kind, fits in KINDS.items() if fits(path)), "")


# ---- counting


def counted(files: Iterable[tuple[str, str]]) -> House:
    house = House()
    for path, text in files:
        kind, num_lines = _kind(path), text.count("\n")
        for name in (kind, f"{kind}: {_folder(path)}"):
            house.lines[name] += num_lines
            house.files[name] += 1
        if kind != "product Python":
            continue
        if num_lines > LONG_FILE:
            house.long_files.append(f"{path} {num_lines}")
        try:
            _look_into(house, path, text)
        except SyntaxError as error:
            house.unread.append(f"{path}: {error}")
    return house


def _folder(path: str) -> str:
    """`pipelines/planning`, `nodes/graph` with what is below; of the page and of tests the first below `src` too."""
    parts = path.split("/")[:-1]
    return "/".join(parts[: 4 if parts[:2] == ["ui", "web"] else 2]) or "(root)"


def _look_into(house: House, path: str, text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            house.classes[node.name].append(path)
            if path.startswith(FORESIGHT):
                house.foresight.append(f"{node.name} ({path})")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            house.num_functions += 1
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if num_lines > LONG_FUNCTION:
                house.long_functions.append(f"{node.name} ({path}) {num_lines}")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    house.comments += sum(token.type == tokenize.COMMENT for token in tokens)  # a line has one at most


# ---- telling


def table(houses: Mapping[str, House]) -> list[str]:
    last = list(houses.values())[-1]
    kinds = [*KINDS]
    rows: list[tuple[str, list[float]]] = []
    for kind in kinds:
        rows.append((kind, [house.lines[kind] for house in houses.values()]))
        folders = sorted({name for house in houses.values() for name in house.lines if name.startswith(f"{kind}: ")})
        if kind in ("product Python", "tests"):
            rows += [(f"    {name.partition(': ')[2]}", [h.lines[name] for h in houses.values()]) for name in folders]
    counts: dict[str, Callable[[House], float]] = {
        "comment lines, % of product Python": lambda h: round(100 * h.comments / max(1, h.lines["product Python"]), 1),
        "files of product Python": lambda h: h.files["product Python"],
        f"of these over {LONG_FILE} lines": lambda h: len(h.long_files),
        "functions": lambda h: h.num_functions,
        f"of these over {LONG_FUNCTION} lines": lambda h: len(h.long_functions),
        "classes": lambda h: sum(map(len, h.classes.values())),
        "class names that exist more than once": lambda h: len(shared(h)),
        "classes of foresight": lambda h: len(own(h.foresight)),
        "and private ones": lambda h: len(h.foresight) - len(own(h.foresight)),
    }
    rows += [(name, [count(house) for house in houses.values()]) for name, count in counts.items()]
    width = max(len(name) for name, _ in rows)
    head = "".join(f"{name:>14}" for name in houses) + (f"{'more':>10}" if len(houses) > 1 else "")
    told = [f"{'lines':{width}}{head}"]
    for name, found in rows:
        more = f"{found[-1] - found[0]:>+10,.4g}" if len(found) > 1 else ""
        told.append(f"{name:{width}}" + "".join(f"{each:>14,}" for each in found) + more)
    return [*told, *(f"not read: {each}" for each in last.unread)]


def names(house: House) -> list[str]:
    told = []
    for title, found in {
        f"files over {LONG_FILE} lines": house.long_files,
        f"functions over {LONG_FUNCTION} lines": house.long_functions,
        "class names that exist more than once": [f"{name}: {', '.join(at)}" for name, at in shared(house).items()],
        "classes of foresight": own(house.foresight),
    }.items():
        told += ["", f"{title}:", *(f"    {each}" for each in found)]
    return told


def shared(house: House) -> dict[str, list[str]]:
    return {name: at for name, at in sorted(house.classes.items()) if len(at) > 1}


def own(classes: Sequence[str]) -> list[str]:
    return [each for each in classes if not each.startswith("_")]


if __name__ == "__main__":
    sys.exit(main())
