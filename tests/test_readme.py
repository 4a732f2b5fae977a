"""What the documents say is true: their commands parse and run, their Python runs, what they name is there.

Documents are the README, those beside it and those of the folders. Each `latentloom` command of a code block is parsed
by the real parser and then run in this process, as it stands but for `SUBSTITUTED`; those of `NOT_RUN` are only parsed.
"""

import functools
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latentloom import run
from latentloom.__main__ import main, parser
from latentloom.pipelines.placement import POOLS
from latentloom.ui import command as page
from latentloom.ui.service import command as service
from support.outside import latentloom, warm_python

ROOT = Path(__file__).resolve().parent.parent
# What `torchrun --standalone --nproc-per-node 2 spread.py` does, with forks of a process that has imported torch.
TORCHRUN = """
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
def work():
    runpy.run_path("spread.py", run_name="__main__")
nodes = {"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 2}
where = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": "spread"}
elastic_launch(LaunchConfig(**nodes, **where, start_method="fork"), work)()
"""
BOBBIN = ROOT / "pipelines" / "bobbin" / "model"
WINGS = ("parallel", "pipelines", "nodes", "ui")
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for pattern in ("*.md", "*/README.md", "*/*/README.md")
    for path in sorted(ROOT.glob(pattern))
    if path.relative_to(ROOT).parts[0] in (*WINGS, path.name) and path.name != "CHANGELOG.md"
}
README = DOCUMENTS["README.md"]
MOST_LINES = 200

FIRST, GRID, AGAIN, PART = (
    f"workflows/bobbin/{name}.json" for name in ("first_picture", "prompt_grid", "image_to_image", "inpaint")
)
SMALL = ("--set=empty_latents.width=64", "--set=empty_latents.height=64")
FLUX = "workflows/flux/flux_text_to_image.json"
# What stands in for a word of a command.
SUBSTITUTED = {
    "cuda*4": ("cpu*2",),  # no GPU
    "seed=1..4": ("seed=1..2",),
    "seed=1..20": ("seed=1..2",),
    "/models": ("models",),
    "cfg=2,ulysses=2": ("cfg=2,ulysses=2", "--set=denoise.steps=2"),  # on four
    # a fourth of the size, or few steps, where that is not what the command is about
    FIRST: (FIRST, *SMALL),
    GRID: (GRID, *SMALL, *(f"--set=denoise_{row}.steps=2" for row in range(1, 5))),
    **{name: (name, "--set=denoise.steps=2") for name in (AGAIN, PART)},
    # no foreign model: a tiny one of the same family
    FLUX: (FLUX, "--allow=tiny_flux", "--set=source=tiny_flux", "--set=width=64", "--set=height=64", "--set=steps=2"),
}
# By a word of the command, why.
NOT_RUN = {
    "--cluster": "needs Ray's own commands; tests/pipelines/test_cluster.py",
    "pull": "needs the network; tests/pipelines/test_hub.py",
    "--nodes": "a process opens one folder; they run in processes of their own below",
}
# Programs that are not ours; `tests/bench/fresh_clone.py` and CI run the README's two long lines.
OTHERS = {"bash", "cd", "export", "npm", "pip", "ray", "ruff", "pyrefly", "pytest", "python3.11", ".", "&&"}
# How names begin of files that are made or are others'.
ELSEWHERE = re.compile(
    r"(ComfyUI|/loom|output|cells|manifest|model_index|latentloom|utils|helpers|common|spread|mine)\b"
)

Command = tuple[str, ...]


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENTS[document], flags=re.DOTALL | re.MULTILINE)


def spans(document: str) -> list[str]:
    """What stands in backticks in the text."""
    text = re.sub(r"^```.*?^```", "", DOCUMENTS[document], flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def commands_in(text: str) -> Iterator[Command]:
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            words, rest = words[:end], words[end + 1 :]
            words = words[words[0].startswith("PYTHONPATH=") :]
            yield (re.sub(r"^\.venv(-test)?/bin/", "", words[0]), *words[1:])
            words = rest


IN_BLOCKS = {name: [each for block in blocks(name, "bash") for each in commands_in(block)] for name in DOCUMENTS}
NAMED = [
    tuple(re.sub(r"[][]", "", span).split())
    for name in DOCUMENTS
    for span in spans(name)
    if span.startswith(("latentloom ", "python ")) and "'" not in span and '"' not in span
]
COMMANDS = sorted({each for found in IN_BLOCKS.values() for each in found} | set(NAMED))
# What is run: of a command that the README has too, that one.
OURS = {
    name: [
        each
        for each in found
        if each[0] == "latentloom" and (name == "README.md" or each not in IN_BLOCKS["README.md"])
    ]
    for name, found in IN_BLOCKS.items()
}
# Files that are there afterwards.
MADE = {
    "README.md": ("output/repainted.png", "again/picture.png"),
    "nodes/README.md": (
        "quick/picture.png",
        "both/edit_text/edit_text.png",
        "listed/greens/denoise.steps=4/edit_text.png",
    ),
}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_what_the_readme_says_to_type_is_found_where_its_first_command_puts_it() -> None:
    typed = "".join(blocks("README.md", "bash")).splitlines()
    assert [line for line in typed if line.startswith("latentloom ")] == []


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[0] == "latentloom"], ids=" ".join)
def test_a_command_is_one_that_the_parser_takes(command: Command) -> None:
    if len(command) > 2:
        parser().parse_args(command[1:])
    else:  # the command alone, as a text names it
        with pytest.raises(SystemExit, match="0"):
            parser().parse_args([*command[1:], "--help"])


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[0] == "python"], ids=" ".join)
def test_a_script_is_there_and_has_these_options(command: Command) -> None:
    if command[1] == "-c":
        return
    name = command[2].removeprefix("latentloom.").replace(".", "/") + ".py" if command[1] == "-m" else command[1]
    script = ROOT / "tests" / name if name.startswith("bobbin/") else ROOT / name
    known = "".join(path.read_text() for path in {script, *script.parent.glob("command.py")})
    options = [word for word in command[2:] if word.startswith("--")]
    assert [option for option in options if f'"{option}"' not in known] == []


def test_programs_of_the_documents_are_ours_or_well_known() -> None:
    assert {each[0] for each in COMMANDS} - {"latentloom", "python"} <= OTHERS


@pytest.fixture
def folder(tmp_path: Path, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """As a clone of the repository looks to a user, with a model of their own and users for the page."""
    for name in ("workflows", "pipelines"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "models").mkdir()
    (tmp_path / "jobs.jsonl").write_text(blocks("nodes/README.md", "jsonl")[0])
    (tmp_path / "users.txt").write_text("ann:a long password\n")
    (tmp_path / "users.txt").chmod(0o600)
    (tmp_path / "tokens").write_text(f"farm run,read {'0' * 64}\n")
    (tmp_path / "tiny_flux").symlink_to(tiny("flux"))
    monkeypatch.chdir(tmp_path)
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def _pools(warm_pools: None) -> Iterator[None]:
    yield
    POOLS.close()


@pytest.mark.timeout(600)  # the README's, where other work is going
@pytest.mark.parametrize("document", [name for name, found in OURS.items() if found])
def test_commands_of_a_document_run_in_their_order(
    document: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    for command in (page, service):
        monkeypatch.setattr(command, "serve", lambda settings, **_: served.append(settings))
    commands = [each for each in OURS[document] if not NOT_RUN.keys() & set(each)]
    for command in commands:
        words = [word for each in command[1:] for word in SUBSTITUTED.get(each, (each,))]
        few = ["--set=denoise.steps=4"] if FIRST in words and "denoise.steps" not in " ".join(words) else []
        code = main([*words, *few])
        printed = capsys.readouterr()
        assert code in ((0, 1) if command[1] == "doctor" else (0,)), f"{command}: {printed.err}"
        assert "Traceback" not in printed.err
    assert [name for name in MADE.get(document, ()) if not (folder / name).is_file()] == []
    assert len(served) == sum(each[1] in ("ui", "serve") for each in commands)


def test_python_of_the_readme_makes_a_picture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("README.md", "python")
    exec(code, {})  # noqa: S102 (our own text)
    assert (folder / "output" / "ring.png").is_file()
    assert "ring.png" in capsys.readouterr().out


def test_any_pipeline_on_two_devices_makes_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = blocks("pipelines/README.md", "python")[0]
    for size in ("height=128", "width=128", "num_inference_steps=16"):
        assert size in code
        code = code.replace(size, size.replace("128", "64").replace("16", "2"))
    monkeypatch.chdir(tmp_path)
    exec(code, {"__name__": "__main__"})  # noqa: S102 (our own text)
    assert (tmp_path / "star.png").is_file()


def test_blocks_on_two_devices_make_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = substituted(
        blocks("pipelines/README.md", "python")[1],
        ('"black-forest-labs/FLUX.1-dev"', repr(str(BOBBIN))),
        ("torch.bfloat16", "torch.float32"),
        ('"num_inference_steps": 28', '"num_inference_steps": 2, "height": 64, "width": 64, "max_sequence_length": 32'),
    )
    monkeypatch.chdir(tmp_path)
    exec(code, {"__name__": "__main__"})  # noqa: S102 (our own text)
    assert (tmp_path / "lighthouse.png").is_file()


def test_python_of_the_readme_of_nodes_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, Any] = {}
    for code in [each for each in blocks("nodes/README.md", "python") if not re.search("NODES = |hamilton", each)]:
        exec(code.replace("/models", "models"), known)  # noqa: S102 (our own text)
    made = ["ring/picture", "blue/repainted", *(f"seeds/{seed}/picture" for seed in range(1, 5)), "stars/star-0"]
    assert [name for name in made if not (folder / f"{name}.png").is_file()] == []
    assert "\nthe same\n" in capsys.readouterr().out


def test_a_workflow_is_a_graph_of_hamilton_as_the_readme_of_nodes_says(folder: Path) -> None:
    pytest.importorskip("hamilton", reason="apache-hamilton is not installed: pip install apache-hamilton")
    (code,) = [block for block in blocks("nodes/README.md", "python") if "hamilton" in block]
    known: dict[str, Any] = {}
    exec(code, known)  # noqa: S102 (our own text)
    told = {"prompt": "a green ring", "seed": 3}
    assert {"save", "denoise", "prompt"} <= {each.name for each in known["dag"].list_available_variables()}
    whole = run("first_picture", told, out="whole")
    (by_steps,) = (folder / "by_hamilton").glob("*.png")
    assert Image.open(by_steps).tobytes() == Image.open(whole.files[0]).tobytes()


def test_the_node_of_its_readme_is_one_in_a_folder(tmp_path: Path) -> None:
    """As a stranger does it: the code, the workflow and the commands, as they stand."""
    (code,) = [block for block in blocks("nodes/README.md", "python") if "NODES = " in block]
    (tmp_path / "mine").mkdir(mode=0o755)
    (tmp_path / "mine" / "studio.py").write_text(code)
    (tmp_path / "repeated.json").write_text(blocks("nodes/README.md", "json")[2])
    named = [each for name in OURS for each in IN_BLOCKS[name] if "--nodes" in each and each[1] != "ui"]
    asked = {each[1:]: latentloom(*each[1:], cwd=tmp_path) for each in named}
    assert {command: done.stderr for command, done in asked.items() if done.returncode} == {}
    assert {command[0] for command in asked} == {"nodes", "check", "run"}
    printed = {done.stdout for command, done in asked.items() if command[0] == "run"}
    assert printed == {"text: a red star a red star a red star\n"}
    made = json.loads((tmp_path / "output" / "manifest.json").read_text())
    assert (made["state"], [each["value"] for each in made["outputs"]]) == ("ok", ["a red star a red star a red star"])


def test_the_workflow_of_its_readme_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in blocks("nodes/README.md", "json")[:2]:
        (folder / "workflow.json").write_text(text)
        assert main(["check", "workflow.json"]) == 0, capsys.readouterr().out


def test_the_torchrun_script_makes_the_picture_of_one_process(tmp_path: Path) -> None:
    code, plan = blocks("parallel/README.md", "python")
    exec(plan, {})  # noqa: S102
    assert_the_same_picture(
        tmp_path,
        code,
        ('"nccl"', '"gloo"'),
        ("torch.cuda.set_device(dist.get_rank())\n", "torch.set_num_threads(1)\n"),
        ('.to("cuda")', ""),
        ("ulysses=4", "ulysses=2"),
    )


def test_the_script_with_an_accelerator_makes_the_picture_of_one_process(tmp_path: Path) -> None:
    code = blocks("pipelines/README.md", "python")[2]
    assert_the_same_picture(tmp_path, code, ("Accelerator()", "Accelerator(cpu=True)\ntorch.set_num_threads(1)"))


def substituted(code: str, *pairs: tuple[str, str]) -> str:
    for gpu, cpu in pairs:
        assert gpu in code
        code = code.replace(gpu, cpu)
    return code


def assert_the_same_picture(tmp_path: Path, code: str, *pairs: tuple[str, str]) -> None:
    """Of the script on two ranks, and of its pipeline alone afterwards."""
    small = "num_inference_steps=2, height=64, width=64, max_sequence_length=32, generator="
    code = substituted(
        code,
        ('"black-forest-labs/FLUX.1-dev"', repr(str(BOBBIN))),
        ("torch.bfloat16", "torch.float32"),
        ("generator=", small),
        *pairs,
    )
    code += f"whole = pipeline('a lighthouse at dusk', {small}torch.Generator('cpu').manual_seed(0)).images[0]\n"
    code += "assert picture.tobytes() == whole.tobytes()\n"
    (tmp_path / "spread.py").write_text(code)
    result = warm_python(TORCHRUN, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "lighthouse.png").is_file()


@functools.cache
def anchors(document: Path) -> frozenset[str]:
    """What headings are called in links, as GitHub does."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\((?!http)([^)\s]+)\)", DOCUMENTS[document])
    for path, _, anchor in (link.partition("#") for link in links):
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_and_folders_that_a_document_names_exist(document: str) -> None:
    names = [span for span in spans(document) if re.fullmatch(r"[\w.*/-]*(/|\w\.(py|json|md|ts|txt|png|js))", span)]
    beside = [(ROOT / document).parent, ROOT, *(ROOT / wing for wing in WINGS), ROOT / "tests" / "bench"]
    missing = [name for name in names if not ELSEWHERE.match(name) and not any((at / name).exists() for at in beside)]
    assert missing == []


def test_the_house_of_the_readme_has_every_folder() -> None:
    folders = {path.parent.name for wing in WINGS for path in (ROOT / wing).glob("*/__init__.py")}
    (house,) = [text for text in blocks("README.md", "text") if "parallel/" in text]
    assert sorted(name for name in folders if f"{name}/" not in house) == []


def test_ci_runs_the_command_of_the_readme() -> None:
    assert "test command" in (ROOT / ".ci" / "run").read_text()
    assert sum("pytest" in block for block in blocks("README.md", "bash")) == 1
    assert len(re.findall(r"<!-- (?:test|first) command -->\n```bash\n[^\n]+\n```\n<!-- end -->", README)) == 2


def test_no_file_names_the_machine_it_was_written_on() -> None:
    pattern = re.compile(rb"(^|[^A-Za-z0-9_.-])/(work|root|farm)/")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    texts = [ROOT / f for f in listing.splitlines() if not f.endswith((".safetensors", ".png", ".jpg"))]
    assert [str(p) for p in texts if p.name != "test_readme.py" and pattern.search(p.read_bytes())] == []
