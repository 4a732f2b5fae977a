"""What packages and a folder bring from outside: there by every way in, told where it cannot be, never loaded alone."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from latentloom.nodes.files.picture_files import read_metadata
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.registry import SPECS
from latentloom.pipelines import doors
from support.outside import EXAMPLE, install, install_example, latentloom, python, warm_python, workflow, write_model
from support.prepared import check

NODES = ("loom_example_Palette", "loom_example_Tint", "loom_example_Canvas")
FOLDER_MODULE = '''
from latentloom import read_spec

def shout(text: str = "") -> str:
    """Louder."""
    return text.upper()

NODES = {"studio_Shout": read_spec(shout, title="Shout", category="studio")}
'''


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "example")


def written(folder: Path, graph: dict[str, Any]) -> str:
    (folder / "example.json").write_text(json.dumps(graph))
    return str(folder / "example.json")


def test_the_catalog_has_nodes_types_and_outputs_of_the_package_and_imports_no_torch(path: Path) -> None:
    code = "from latentloom.__main__ import main\nmain(['nodes', '--json'])\nprint('torch' in sys.modules)"
    *catalog, has_torch = python(code, path=path).stdout.splitlines()
    found = {node["id"]: node for node in json.loads("\n".join(catalog))}
    assert set(NODES) <= found.keys() and has_torch == "False"
    palette = found["loom_example_Palette"]
    assert palette["origin"] == "loom-example 1.0"
    assert [(each["name"], each["type"]) for each in palette["outputs"]] == [
        ("palette", "loom_example_Palette"),
        ("swatch", "Image"),
    ]
    assert found["LoomDenoise"]["origin"] == ""


def test_help_opens_no_door(tmp_path: Path) -> None:
    install(tmp_path, "loud", "print('I was imported')\nNODES = {}")
    for arguments in (["--help"], ["run", "--help"], ["ui", "--help"], ["--version"]):
        assert "I was imported" not in latentloom(*arguments, path=tmp_path).stdout
    assert "I was imported" in latentloom("nodes", path=tmp_path).stdout


def events(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def cached(done: Any) -> set[str]:
    return {event["node"] for event in events(done) if event["kind"] == "cached"}


ON_RANKS = """
import json
from latentloom.__main__ import main
from latentloom.pipelines.placement import POOLS
for out, *more in (["one"], ["two", "--devices", "cpu*2", "--plan", "ulysses=2"]):
    assert main(["run", *sys.argv[1:], "--out", out, *more]) == 0
(pool,) = POOLS.open.values()
for is_other in (False, True):
    request = {"plan": "ulysses=2", "is_other": is_other}
    print("compared", json.dumps(pool.call_every("loom_example.ranks:compare", request, num_ranks=2)))
POOLS.close()
"""


def test_it_runs_on_one_device_and_in_ranks_where_its_split_plan_holds_by_its_class_or_given_by_hand(
    path: Path, model: Path, tmp_path: Path
) -> None:
    file = written(tmp_path, workflow(model))
    done = warm_python(ON_RANKS, file, "--json", "--no-cache", "--allow", str(model), path=path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    compared = [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("compared")]
    assert [len(answers) for answers in compared] == [2, 2]
    assert all(answer["difference"] < 1e-5 and answer["calls"] for answers in compared for answer in answers)
    for name in ("tinted.png", "swatch.png"):  # in fp32 the ranks' sums may round a step of the picture's
        first, second = (np.asarray(Image.open(tmp_path / out / name), int) for out in ("one", "two"))
        assert np.abs(first - second).max() <= 1
    made = graph_from_plain(json.loads(read_metadata(tmp_path / "one" / "tinted.png")["latentloom"]))
    assert made.requires == {"loom-example": ">=1.0"}


def test_another_version_of_the_package_makes_its_nodes_and_what_its_family_makes_anew(
    model: Path, tmp_path: Path
) -> None:
    code = """
import json, latentloom
latentloom.open_doors()
from latentloom.nodes.execution.schedule import schedule
from latentloom.nodes.files.workspace import HERE
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.registry import SPECS
print(json.dumps(dict(schedule(ready(graph_from_plain(json.loads(sys.argv[1])), SPECS), workspace=HERE).keys)))
"""
    plain = workflow(model)
    ours = {"type": "LoomLoadModel", "inputs": {"source": "builtin:bobbin"}}
    text = {"type": "LoomEncodeText", "inputs": {"model": {"from": "ours.model"}, "prompt": "x"}}
    plain["nodes"] |= {"ours": ours, "plain": text}
    plain["outputs"] = {"plain": {"from": "plain.conditioning"}}
    keys = []
    for version in ("1.0", "1.1"):
        install_example(tmp_path, version=version)
        done = warm_python(code, json.dumps(plain), path=tmp_path)
        assert done.returncode == 0, done.stderr
        keys.append(json.loads(done.stdout))
    changed = {name for name in keys[0] if keys[0][name] != keys[1][name]}
    assert changed == keys[0].keys() - {"ours", "plain"} and "palette" in changed


def test_the_family_is_the_packages_own(path: Path, model: Path) -> None:
    """It paints the negative of what the built-in model paints."""
    code = f"""
import latentloom, torch
latentloom.open_doors()
from latentloom.nodes import decode, denoise, empty_latents, encode_text, load_model
def painted(source):
    model = load_model(source)
    latents = denoise(model, encode_text(model, "a red star"), empty_latents(model), seed=7, steps=1)
    return decode(model, latents).pixels
print(float((painted({str(model)!r}) + painted("builtin:bobbin") - 1).abs().max()) < 1e-6)
"""
    done = warm_python(code, path=path)
    assert done.stdout.strip() == "True", done.stderr


def test_ranks_refuse_what_is_not_what_the_host_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors._Process, "is_open", True)
    monkeypatch.setattr(doors._Process, "origins", {"a": "studio 1.0"})
    doors.follow(doors.order())
    with pytest.raises(ValueError, match=r"a was studio 1\.1 when latentloom .* and is studio 1\.0 in a rank"):
        doors.follow({"folder": "", "origins": {"a": "studio 1.1"}})


CLAIMS = (
    "from latentloom import read_spec\ndef f(x: int = 0) -> int: ...\nNODES = {%s: read_spec(f, title='', category='')}"
)


def test_packages_that_cannot_be_are_told_by_name_and_left_out_and_all_others_work(tmp_path: Path) -> None:
    install_example(tmp_path)
    install(tmp_path, "raises", "raise RuntimeError('no licence')")
    install(tmp_path, "leaves", "raise SystemExit(3)")
    install(tmp_path, "claims", CLAIMS % "'LoomDenoise'")
    install(tmp_path, "poses", CLAIMS % "'loom_example_Other'")
    (tmp_path / "torch.py").touch()  # in the place of the real one, which takes seconds
    install(tmp_path, "heavy", "import torch\n" + CLAIMS % "'heavy_Number'")
    install(tmp_path, "absent", "", nodes="NOTHING")
    install(tmp_path, "vague", "", nodes="no name")
    done = latentloom("nodes", path=tmp_path)
    assert done.returncode == 0 and all(id in done.stdout for id in (*NODES, "heavy_Number"))
    assert "Run the diffusion transformer over the canvas" in done.stdout and "loom_example_Other" not in done.stdout
    told = sorted(line for line in done.stderr.splitlines())
    words = {
        "absent": "left out, because of AttributeError",
        "claims": "it claims LoomDenoise, which another one has",
        "heavy": "torch is imported with it, which makes every command slow",
        "leaves": "left out, because of SystemExit: 3",
        "poses": "is not called poses_NAME",
        "raises": "left out, because of RuntimeError: no licence",
        "vague": "'vague:no name' is not like module:NAME",
    }
    assert len(told) == len(words), done.stderr
    for line, (name, part) in zip(told, words.items(), strict=True):
        assert line.startswith(f"latentloom.nodes {name}") and part in line


def test_families_and_split_plans_that_claim_ours_are_left_out(tmp_path: Path) -> None:
    (folder := tmp_path / "own").mkdir()
    family = "import dataclasses, types\nfrom latentloom.pipelines.families import flux\n"
    (folder / "robber.py").write_text(
        family + "FAMILIES = types.SimpleNamespace(FAMILY=dataclasses.replace(flux.FAMILY, name='robber'))"
    )
    (folder / "thief.py").write_text(
        "from latentloom.pipelines.split_plans import flux\nSPLIT_PLANS = {'FluxTransformer2DModel': flux.FLUX}"
    )
    done = latentloom("nodes", "--nodes", str(folder))
    assert done.returncode == 0
    assert "FAMILIES of robber in" in done.stderr and "family robber claims what another one has" in done.stderr
    assert "SPLIT_PLANS of thief in" in done.stderr and "it claims FluxTransformer2DModel" in done.stderr


def test_a_workflow_without_its_package_names_it_and_loads_nothing(path: Path, model: Path, tmp_path: Path) -> None:
    file = written(tmp_path, workflow(model))
    assert latentloom("check", file, "--allow", str(model.parent), path=path).returncode == 0
    done = latentloom("check", file)
    assert done.returncode == 2
    assert "the workflow needs loom-example >=1.0, and none is installed; install it, or name" in done.stdout
    assert "node type 'loom_example_Palette' is not installed; it comes from loom-example, which is not" in done.stdout
    asks = workflow(model) | {"requires": {"loom-example": ">=9"}}
    done = latentloom("check", written(tmp_path, asks), path=path)
    assert "the workflow needs loom-example >=9, and 1.0 is installed; install that version" in done.stdout


def test_nothing_is_loaded_because_a_workflow_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "studio.py").write_text("raise SystemExit('I was loaded')")
    plain = {"format": 1, "name": "x", "requires": {"studio": ""}, "nodes": {"n": {"type": "studio_Shout"}}}
    done = latentloom("check", written(tmp_path, plain), cwd=tmp_path)
    assert done.returncode == 2 and "I was loaded" not in done.stderr + done.stdout


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir(mode=0o755)
    (tmp_path / "own" / "studio.py").write_text(FOLDER_MODULE)
    return tmp_path / "own"


def shouts(words: str) -> dict[str, Any]:
    nodes = {"n": {"type": "studio_Shout", "inputs": {"text": words}}}
    return {
        "format": 1,
        "name": "x",
        "requires": {"studio": ""},
        "nodes": nodes,
        "outputs": {"o": {"from": "n.string"}},
    }


@pytest.mark.parametrize("way", [pytest.param("option", marks=pytest.mark.by_hand), "variable"])
def test_a_folder_is_named_by_the_owner_of_the_process(way: str, own: Path, tmp_path: Path) -> None:
    named = ["--nodes", str(own)] if way == "option" else []
    more = {"LATENTLOOM_NODES": str(own)} if way == "variable" else {}
    file = written(tmp_path, shouts("hallo"))
    assert latentloom("check", file, *named, **more).stdout.endswith("no problems\n")
    done = latentloom("run", file, "--json", "--cache", "kept", *named, cwd=tmp_path, **more)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_folder_s_node_made_is_kept_until_its_file_is_edited(own: Path, tmp_path: Path) -> None:
    run = ("run", written(tmp_path, shouts("hallo")), "--json", "--cache", "kept", "--nodes", str(own))
    assert cached(latentloom(*run, cwd=tmp_path)) == set()
    assert cached(latentloom(*run, cwd=tmp_path)) == {"n"}
    (own / "studio.py").write_text(FOLDER_MODULE.replace("upper", "title"))
    assert cached(latentloom(*run, cwd=tmp_path)) == set()


def test_a_folder_that_others_could_have_written_is_refused_in_one_sentence(own: Path, tmp_path: Path) -> None:
    (own / "studio.py").chmod(0o666)
    done = latentloom("nodes", "--nodes", str(own))
    assert done.returncode == 2
    assert re.fullmatch(r"latentloom: the folder for nodes .*: every user may write to .*studio\.py; .*\n", done.stderr)


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "world-writable": (lambda own: own.chmod(0o777), "every user may write to"),
    "in a public folder": (lambda own: own.parent.chmod(0o777), "every user may put another folder in its place"),
    "linked out": (
        lambda own: ((own / "other.py").symlink_to(own.parent / "other.py"), (own.parent / "other.py").touch()),
        "leads out of the folder",
    ),
    "a link to nowhere": (lambda own: (own / "other.py").symlink_to(own / "nowhere.py"), "cannot be read"),
    "a link to itself": (lambda own: (own / "other.py").symlink_to(own / "other.py"), "cannot be read"),
}


@pytest.mark.parametrize("case", SPOILT)
@pytest.mark.skipif(os.name == "nt", reason="rights are POSIX")
def test_what_somebody_else_could_have_put_there_is_refused(case: str, own: Path) -> None:
    before, (spoil, words) = doors.hash_of(own), SPOILT[case]
    spoil(own)
    with pytest.raises(ValueError, match=words):
        doors.hash_of(own)
    assert len(before) == 64


@pytest.mark.skipif(os.name == "nt", reason="owners are POSIX")
def test_another_users_file_is_refused(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ValueError, match="belongs to another user, whose code would run as yours"):
        doors.hash_of(own)


def test_what_cannot_be_imported_counts_for_nothing(own: Path) -> None:
    before = doors.hash_of(own)
    (own / ".git").mkdir(mode=0o777)
    (own / ".#studio.py").symlink_to("somebody@somewhere.1")
    (own / "__pycache__").mkdir()
    (own / "__pycache__" / "studio.cpython-311.pyc").write_bytes(b"")
    assert doors.hash_of(own) == before


def test_an_edit_of_the_same_second_and_length_is_seen(own: Path) -> None:
    """Bytecode that Python wrote beside the sources tells neither."""
    code = "from latentloom.__main__ import main\nmain(['nodes', '--nodes', sys.argv[1]])"
    stamp = (own / "studio.py").stat().st_mtime_ns
    for word in ("Louder", "Calmer"):
        (own / "studio.py").write_text(FOLDER_MODULE.replace("Louder", word))
        os.utime(own / "studio.py", ns=(stamp, stamp))
        assert f"{word}." in python(code, str(own)).stdout


def test_no_folder_is_named_by_an_empty_text_and_private_modules_are_no_doors(own: Path) -> None:
    assert "studio_Shout" not in latentloom("nodes", "--nodes", "", cwd=own).stdout
    (own / "__init__.py").write_text("from .studio import NODES")
    (own / "__main__.py").write_text("print('I ran')")
    done = latentloom("nodes", "--nodes", str(own))
    assert "studio_Shout" in done.stdout and "I ran" not in done.stdout and not done.stderr


def test_plain_python_opens_the_folder_of_the_variable_too_and_another_one_by_hand(own: Path) -> None:
    code = """
import latentloom
latentloom.open_doors(*sys.argv[1:])
from latentloom.nodes.registry import SPECS
print("studio_Shout" in SPECS, bool(latentloom.stages))
"""
    assert warm_python(code, LATENTLOOM_NODES=str(own)).stdout == "True True\n"
    assert warm_python(code, str(own), LATENTLOOM_NODES="elsewhere").stdout == "True True\n"


@pytest.mark.parametrize(
    ("inputs", "more", "words"),
    [
        ("x: Literal[1, 2] = 1", "", "choices are texts"),
        ("x: list[Path]", "", "take one Path by itself"),
        ("x=1", "", "x has no annotation"),
        ("*x: int", "", "x cannot be given by name"),
        ("x: Image = 3", "", "comes by a wire"),
        ("x: int = 'a'", "", "x is 'a'; it takes a whole number"),
        ("x: Annotated[float, Socket(max=math.inf)] = 1.0", "", "use finite numbers"),
        ("x: Annotated[str, Socket(widget='wheel')] = ''", "", "there is no widget 'wheel'"),
        ("x: int = 1", ", version='2'", "of another type"),
    ],
)
def test_a_node_that_the_catalog_could_not_tell_is_left_out(
    inputs: str, more: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It would take the page with it."""
    from latentloom.nodes import registry

    code = f"""
import math
from pathlib import Path
from typing import Annotated, Literal
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.spec import Socket
from latentloom.pipelines.values import Image
def good(x: int = 0) -> int: ...
def bad({inputs}) -> int: ...
NODES = {{
    "studio_Good": read_spec(good, title="", category=""),
    "studio_Bad": read_spec(bad, title="", category=""{more}),
}}
"""

    def load() -> Any:
        exec(code, found := {"__name__": "studio"})  # noqa: S102 (our own text)
        return found["NODES"]

    before = dict(SPECS)
    door = doors.Door(title="studio", package="studio", source="studio", version="1", load=load)
    assert not doors.enter(door, registry._add)
    assert words in caplog.text and before == SPECS


def test_a_folder_of_anything_is_refused(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "MAX_FILES", 0)
    with pytest.raises(ValueError, match="holds more than 0 files"):
        doors.hash_of(own)
    with pytest.raises(ValueError, match="is not a folder; give one that exists"):
        doors.hash_of(own / "studio.py")


def test_a_folder_named_later_comes_too_late(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors._Process, "is_open", True)
    with pytest.raises(ValueError, match="comes too late"):
        doors.open_doors(own)


def test_comfyui_gets_the_nodes_by_its_loading_rules(path: Path, own: Path, tmp_path: Path) -> None:
    """Loaded from a folder under a name of the host's, as ComfyUI does."""
    code = """
import asyncio, importlib.util, json, torch
from support.checkout import ROOT
file, found = ROOT / "__init__.py", [str(ROOT)]
spec = importlib.util.spec_from_file_location("custom_node", file, submodule_search_locations=found)
module = sys.modules["custom_node"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
nodes, titles = module.NODE_CLASS_MAPPINGS, module.NODE_DISPLAY_NAME_MAPPINGS
node = nodes["loom_example_Palette"]
assert node.RETURN_TYPES == ("LOOM_LOOM_EXAMPLE_PALETTE", "IMAGE") and node.RETURN_NAMES == ("palette", "swatch")
assert nodes["loom_example_Tint"].INPUT_TYPES()["optional"]["strengths"][0] == "LOOM_LIST_FLOAT"
assert nodes["loom_example_Tint"].INPUT_TYPES()["required"]["palette"][0] == "LOOM_LOOM_EXAMPLE_PALETTE"
assert titles["loom_example_Canvas"] == "Studio Canvas" and titles["studio_Shout"] == "Shout"
async def run():
    with torch.inference_mode():
        palette, swatch = node().run(image=torch.full((1, 4, 4, 3), 0.5), count=1)
        return swatch, *nodes["loom_example_Tint"]().run(image=torch.zeros(1, 4, 4, 3), palette=palette)
swatch, tinted = asyncio.run(run())
print(tuple(swatch.shape), float(tinted.mean()))
"""
    done = warm_python(code, path=path, LATENTLOOM_NODES=str(own))
    assert done.stdout == "(1, 8, 8, 3) 0.25\n", done.stderr


def test_the_example_says_what_it_brings() -> None:
    text = (EXAMPLE / "pyproject.toml").read_text()
    assert all(f'"latentloom.{group}"' in text for group in ("nodes", "families", "split_plans"))


def test_ours_alone_are_here_where_nobody_opened_a_door() -> None:
    plain = {"format": 1, "name": "x", "nodes": {"n": {"type": NODES[0]}}}
    [problem] = check(graph_from_plain(plain), SPECS)
    assert problem.code == "unknown_type"
