"""The page's bundle: there, small, complete with licences, made of the locked packages, and built the same again."""

import gzip
import json
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from latentloom.nodes.graph.scalars import can_feed
from latentloom.nodes.registry import SPECS
from latentloom.ui.bundle import read_bundle

ROOT = Path(__file__).parents[2]
WEB, STATIC = ROOT / "ui/web", ROOT / "ui/static"
BUILT = ("loom.js", "loom.css", "loom.de.json", "loom.router.js", "THIRD_PARTY_LICENSES.txt")
MAX_JS_BYTES = 450_000  # of what is read before anything is drawn, each file gzipped
ADDRESSES = {
    "http://www.w3.org": "namespaces of SVG and XHTML, never fetched",
    "https://www.w3.org": "the same",
    "https://react.dev": "in React's error messages",
    "https://huggingface.co": "pages of models and their terms, opened by a click",
    "https://reactflow.dev": "the attribution link, and error messages",
}


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def locked() -> dict[str, dict]:
    packages = json.loads(read(WEB / "package-lock.json"))["packages"]
    return {path.removeprefix("node_modules/"): entry for path, entry in packages.items() if path}


def scripts() -> list[Path]:
    return sorted(STATIC.glob("*.js"))


def read_with(pattern: str) -> set[str]:
    """The page's script with all that it asks for so, and what these ask for."""
    found = ["loom.js"]
    for name in found:
        found += {part for part in re.findall(pattern, read(STATIC / name)) if part not in found}
    return set(found)


def test_bundle_is_there_and_small() -> None:
    for name in BUILT:
        assert (STATIC / name).stat().st_size > 0, f"{name}: cd ui/web && npm ci && npm run build"
    first = read_with(r'(?:from|import)"\./([\w.]+)"')
    assert sum(len(gzip.compress((STATIC / name).read_bytes())) for name in first) <= MAX_JS_BYTES
    assert {"loom.js", *read_bundle().parts} == first
    reached = read_with(r'(?:from|import\(?)"\./([\w.]+)"')
    assert reached > first, "no part of the page is loaded later"
    assert {path.name for path in scripts()} == reached | {"loom.router.js"}, "a script is left from an older build"


@pytest.mark.parametrize("name", ["loom.css", *(path.name for path in scripts())])
def test_bundle_names_no_address_that_a_browser_would_fetch(name: str) -> None:
    found = set(re.findall(r"(?:https?|wss?)://[\w.-]+", read(STATIC / name)))
    assert found <= ADDRESSES.keys(), (
        f"{found - ADDRESSES.keys()}: the page works offline; bundle it, or explain it here"
    )


def test_bundle_runs_no_text_as_code_or_as_html() -> None:
    for path in scripts():
        assert not re.search(r"\beval\(|new Function\(", read(path)), path.name
    sources = [path for path in (WEB / "src").rglob("*.ts*") if path.suffix in (".ts", ".tsx")]
    risky = re.compile(r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write")
    assert [path.name for path in sources if risky.search(read(path))] == []


def test_packages_are_named_with_exact_versions_and_come_from_the_registry() -> None:
    package = json.loads(read(WEB / "package.json"))
    named = {**package["dependencies"], **package["devDependencies"]}
    packages = locked()
    assert {name: packages[name]["version"] for name in named} == named
    for name, entry in packages.items():
        assert entry["resolved"].startswith("https://registry.npmjs.org/"), name
        assert entry["integrity"].startswith("sha512-"), name


def test_licences_are_those_of_the_locked_versions() -> None:
    listed = re.findall(r"^(\S+) (\S+) \((.+)\)\n=+$", read(STATIC / "THIRD_PARTY_LICENSES.txt"), re.MULTILINE)
    versions = {name: version for name, version, _ in listed}
    packages = locked()
    assert {"react", "react-dom", "@xyflow/react", "zustand"} <= versions.keys()
    assert versions == {name: packages[name]["version"] for name in versions}
    assert {licence for _, _, licence in listed} <= {"MIT", "ISC", "BSD-3-Clause"}


def test_page_allows_the_wires_that_the_checker_allows() -> None:
    feeds = json.loads(read(WEB / "src/graph/feeds.json"))
    types = {socket.type for spec in SPECS.values() for socket in (*spec.inputs, *spec.outputs)}
    for output, socket in product(types, types):
        assert can_feed(output, socket) == (output == socket or feeds.get(output) == socket)


def test_page_opens_older_nodes_as_their_migrations_do() -> None:
    renamed = json.loads(read(WEB / "src/graph/file/renamed.json"))
    assert {id: entry["version"] for id, entry in renamed.items()} == {
        id: spec.version for id, spec in SPECS.items() if spec.version > 1
    }
    for id, entry in renamed.items():
        for name, socket in entry["sockets"].items():
            for value, now in socket["values"].items():
                migrate = SPECS[id].migrate
                assert migrate is not None and migrate(1, {name: value == "true"}) == {socket["now"]: now}


def run_npm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("npm") or "npm", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def rebuilt(web: Path) -> Path:
    """The copy of the sources after a build, which begins with the types."""
    (web / "src/generated/contract.ts").write_text("")
    ended = run_npm(web, "run", "build")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return web


@pytest.mark.timeout(600)
def test_bundle_is_what_its_source_builds(rebuilt: Path) -> None:
    static = rebuilt.parent / "static"
    built = sorted(path.name for path in static.iterdir())
    assert built == sorted(path.name for path in STATIC.iterdir() if path.suffix != ".svg")
    for name in built:
        assert (static / name).read_bytes() == (STATIC / name).read_bytes(), f"{name}: build it again"


@pytest.mark.timeout(600)
def test_types_of_the_page_are_those_of_the_contract(rebuilt: Path) -> None:
    """And what is committed was made from the schema that the server's models have now, see `test_contract`."""
    assert read(rebuilt / "src/generated/contract.ts") == read(WEB / "src/generated/contract.ts"), "npm run types"


@pytest.mark.timeout(600)
def test_sources_pass_their_own_check(web: Path) -> None:
    """Formatter, type checker and tests of the TypeScript."""
    checked = run_npm(web, "run", "check")
    assert checked.returncode == 0, checked.stdout[-3000:] + checked.stderr[-1000:]
