"""The house: no folder too wide, no circle among its rooms, no room without a reason to be one, a map in each wing."""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path, PurePosixPath

import pytest

from support.statements import held_by

ROOT = Path(__file__).resolve().parent.parent
WINGS = ("parallel", "pipelines", "nodes", "ui")
MOST_MODULES = 14
MOST_SOURCES = 20
SMALL = 60
ROWS = ("pipelines/families/", "pipelines/split_plans/")  # folders whose modules are the rows of a table
# Small modules with one importer, and why each is a room of its own; at most 15.
CHAMBERS = {
    "pipelines/fusing/rotary_kernel.py": "imports Triton, which not every machine has",
    "ui/canvas.py": "the only Gradio component",
}
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for wing in WINGS
    for path in sorted((ROOT / wing).rglob("*.py"))
    if "web" not in path.relative_to(ROOT).parts
} | {name: (ROOT / name).read_text() for name in ("__init__.py", "__main__.py")}
FOLDERS = sorted({str(PurePosixPath(name).parent) for name in SOURCES} - {"."})


@functools.cache
def imported(name: str) -> frozenset[str]:
    """The modules of ours that a module imports, inside functions too, but not those it needs for typing only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in held_by(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.ImportFrom) and child.level:
                base = PurePosixPath(name).parents[child.level - 1].joinpath(*(child.module or "").split("."))
                for alias in child.names:
                    paths = (
                        base / f"{alias.name}.py",
                        base / alias.name / "__init__.py",
                        f"{base}.py",
                        base / "__init__.py",
                    )
                    found.update([path for path in map(str, paths) if path in SOURCES][:1])
            visit(child)

    visit(ast.parse(SOURCES[name]))
    return frozenset(found - {name})


def users(name: str) -> set[str]:
    return {user for user in SOURCES if name in imported(user)}


def arrows(folder: str) -> dict[str, set[str]]:
    """What the children of a folder, modules and folders, import of each other."""
    found: dict[str, set[str]] = defaultdict(set)

    def child(name: str) -> str:
        return PurePosixPath(name).relative_to(folder).parts[0]

    inside = [name for name in SOURCES if PurePosixPath(name).is_relative_to(folder)]
    for name in inside:
        for used in imported(name):
            if used in inside and child(used) != child(name):
                found[child(name)].add(child(used))
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph, or nothing."""
    done: set[str] = set()

    def follow(node: str, path: tuple[str, ...]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for other in sorted(graph.get(node, ())):
            if found := follow(other, (*path, node)):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := follow(node, ()))), [])


# The steps that prepare a workflow, whose order matters.
PREPARING = {
    "nodes/graph/ready.py": {"effective", "settled", "specs_of"},
    "nodes/graph/resolve.py": {"upgrade", "with_overrides"},
    "nodes/graph/unfolding/unfold.py": {"unfold"},
}
PREPARERS = {
    "nodes/graph/ready.py": "prepares",
    "nodes/graph/unfolding/unfold.py": "a list that a for-each goes through may be set for one run",
}


def test_a_workflow_is_prepared_by_one_function() -> None:
    by_step = {name: room for room, names in PREPARING.items() for name in names}
    for name, text in SOURCES.items():
        found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module)
        steps = {
            alias.name
            for node in found
            for alias in node.names
            if alias.name in by_step and f"{node.module.replace('.', '/')}.py" in f"/{by_step[alias.name]}"
        }
        assert name in PREPARERS or not steps, f"{name} prepares a workflow by {steps}; let it be handed a Ready"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_holds_few_modules(folder: str) -> None:
    modules = [name for name in SOURCES if str(PurePosixPath(name).parent) == folder and "__init__" not in name]
    assert len(modules) <= MOST_MODULES, modules


def test_a_folder_of_the_page_holds_few_files() -> None:
    held: dict[str, int] = defaultdict(int)
    for path in (ROOT / "ui" / "web" / "src").rglob("*"):
        held[path.parent.relative_to(ROOT).as_posix()] += path.is_file()
    assert {folder: number for folder, number in held.items() if number > MOST_SOURCES} == {}


def test_the_page_s_map_names_each_folder_and_no_other() -> None:
    source = ROOT / "ui" / "web" / "src"
    listed = re.findall(r"^\| `(.+?)/`", (source / "README.md").read_text(), re.MULTILINE)
    folders = {path.parent.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert sorted(listed) == sorted(
        folders - {".", "texts/en", "texts/de", "texts/specs", "texts/sentences"} | {"texts"}
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_rooms_import_each_other_in_a_circle(folder: str) -> None:
    assert circle(arrows(folder)) == []


def test_a_circle_would_be_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []


def test_a_small_module_has_two_users_or_a_reason() -> None:
    lonely = {
        name
        for name, text in SOURCES.items()
        if len(text.splitlines()) < SMALL
        and len(users(name)) < 2
        and not name.endswith(("__init__.py", "__main__.py"))
        and not name.startswith(ROWS)
        and '\nif __name__ == "__main__":' not in text
    }
    assert lonely == set(CHAMBERS)
    assert len(CHAMBERS) <= 15


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_s_docstring_is_its_map(folder: str) -> None:
    text = ast.get_docstring(ast.parse(SOURCES[f"{folder}/__init__.py"])) or ""
    rooms = {PurePosixPath(name).relative_to(folder).parts[0] for name in SOURCES if name.startswith(f"{folder}/")}
    names = {room.removesuffix(".py") for room in rooms} - {"__init__"}
    assert {name for name in names if f"\n{name}:" not in f"\n{text}" and f"\n{name}/:" not in text} == set()
