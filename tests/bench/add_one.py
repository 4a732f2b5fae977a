"""Add a node, a family and an attention strategy to a copy of the checkout: does the house follow, without node.js?

    python tests/bench/add_one.py [node] [family] [strategy]

Each is what CONTRIBUTING says and nothing besides; then the tests run that hold the lists, the texts, the built page
and the wheel together, and those that try what was added. Green, or which were red, and exit 1. Five minutes on two
cores that have nothing else to do.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", "node_modules", "__pycache__", "build", "*.egg-info", ".*_cache")
HOUSE = ("tests/test_house.py", "tests/test_layers.py", "tests/test_packaging.py", "tests/test_public_names.py")
PAGE = ("tests/ui/test_words.py", "tests/ui/test_bundle.py")

# Looks at what a host finds when the checkout is not on the path, as the copy is here.
OFF_THE_PATH = "tests/test_packaging.py::test_comfyui_needs_nothing_of_what_its_registry_leaves_out"

NODE = '''
@checked
def count_words(text: Text) -> Annotated[int, Socket(name="count")]:
    """How many words a text has."""
    return len(text.split())


NODES = {
    "LoomCountWords": read_spec(count_words, title="Count Words", category="text"),
'''
FAMILY = """
ANIMA = Row(
    name="anima",
    title="Anima",
    pipelines=(),
    variants=(Variant(Card(name="Anima", licence="none", steps=30, guidance=4.0), "AnimaModularPipeline"),),
    longest_text=512,
    text=("tokenizer", "text_encoder", "t5_tokenizer"),
    denoise=("transformer", "scheduler", "text_conditioner"),
    takes_image="start",
)

ROWS: dict"""


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times, not once"
    path.write_text(text.replace(old, new), encoding="utf-8")


def add_node(copy: Path) -> None:
    """In one file."""
    change(copy / "nodes/steps/small/texts.py", "\nNODES = {\n", NODE)


def add_family(copy: Path) -> None:
    """In one file, which had it and is first made to be without; the zoo has a tiny pipeline of it."""
    rows = copy / "pipelines/families/rows.py"
    rows.write_text(re.sub(r"^ANIMA_CARD = .*?^\)\n", "", rows.read_text(encoding="utf-8"), flags=re.S | re.M), "utf-8")
    change(copy / "pipelines/families/rows.py", "\nROWS: dict", FAMILY)


def add_strategy(copy: Path) -> None:
    """A module that does what another one does, its line in STRATEGIES, its degree in the plan's table."""
    folder, plan, cases = (
        copy / "parallel/attention",
        copy / "parallel/plan.py",
        copy / "tests/bodies/operator_cases.py",
    )
    shutil.copy(folder / "allgather.py", folder / "relay.py")
    change(folder / "__init__.py", "\nring: ", "\nrelay: What is tried here.\nring: ")
    change(folder / "__init__.py", "import allgather, local, ring", "import allgather, local, relay, ring")
    change(folder / "__init__.py", '"allgather": allgather}', '"allgather": allgather, "relay": relay}')
    change(
        plan,
        '"allgather": Exchange(rounds=False)}',
        '"allgather": Exchange(rounds=False), "relay": Exchange(rounds=False)}',
    )
    change(plan, "    allgather: int = 1\n", "    allgather: int = 1\n    relay: int = 1\n")
    cases.write_text(re.sub(r'"(.*)allgather=', r'"\1relay=', cases.read_text(encoding="utf-8")), encoding="utf-8")


ADDED: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "node": (add_node, (*HOUSE, *PAGE, "tests/nodes/test_spec.py", "tests/nodes/test_comfyui.py")),
    "family": (add_family, (*HOUSE, "tests/pipelines/test_rows.py", "tests/pipelines/test_noise.py")),
    "strategy": (
        add_strategy,
        (*HOUSE, "tests/parallel/test_plan.py", "tests/parallel/test_mesh.py", "tests/parallel/test_operator.py"),
    ),
}


def without_node(folder: Path) -> Path:
    """All that the PATH has, but for node.js."""
    folder.mkdir()
    for each in (each for part in reversed(os.get_exec_path()) if Path(part).is_dir() for each in Path(part).iterdir()):
        if each.name not in ("node", "npm", "npx"):
            link = folder / each.name
            link.unlink(missing_ok=True)
            link.symlink_to(each)
    return folder


def is_green(name: str) -> bool:
    """The copy's parent comes first on the path: it is `latentloom`, whatever is installed."""
    add, tests = ADDED[name]
    with tempfile.TemporaryDirectory(prefix="added-") as folder:
        copy = Path(shutil.copytree(ROOT, Path(folder) / "latentloom", ignore=LEFT_OUT, symlinks=True))
        add(copy)
        subprocess.run(["git", "init", "-q"], cwd=copy, check=True)  # tests ask it what is ignored
        command = [
            sys.executable,
            "-B",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--deselect",
            OFF_THE_PATH,
            *tests,
        ]
        env = {**os.environ, "PYTHONPATH": str(copy.parent), "PATH": str(without_node(Path(folder, "bin")))}
        env.pop("CI", None)  # which would have the page built
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    print(f"{name}: {'green' if done.returncode == 0 else 'RED'}, {done.stdout.splitlines()[-1]}", flush=True)
    red = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    print("\n".join(red or [done.stdout[-2000:] + done.stderr[-2000:]]) if done.returncode else "", end="", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(not all(list(map(is_green, sys.argv[1:] or ADDED))))
