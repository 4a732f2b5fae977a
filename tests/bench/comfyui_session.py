"""A session with a real ComfyUI on the CPU: our nodes saved, cached, shown and opened again, as its users meet them.

python tests/bench/comfyui_session.py --comfyui DIR [--python PYTHON]

DIR is a checkout of ComfyUI. PYTHON is that of a virtual environment of its own: this package's requirements, then
ComfyUI's `requirements.txt` without torch, torchvision, torchaudio, spandrel, comfy-angle and PyOpenGL, then
`pip install --no-deps torchvision==VERSION`, the one of the installed torch (0.28.0 for 2.13.0). Nothing is fetched
while it runs, the server is on the loopback only, and all that it writes is in a folder that is gone afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SHIMS = Path(__file__).resolve().parent / "comfyui_shims"
START_S, ANSWER_S, RUN_S = 240.0, 60.0, 240.0
FIRST = "workflows/bobbin/first_picture.json"
HUGE = 2**64 - 1
# Nothing is fetched (a fork of ComfyUI installs packages by itself), and pictures are compared at one thread, because
# their last bit depends on the number.
ALONE = {"PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}


class Refused(Exception):
    """ComfyUI's answer to a prompt that it does not take."""


@dataclass(frozen=True)
class Host:
    """A running ComfyUI."""

    url: str
    base: Path
    log: Path
    pid: int = 0

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"} if data else {})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.read().decode(errors="replace")[:2000]) from None
        is_json = "json" in answer.headers.get("Content-Type", "")
        return json.loads(content) if is_json else content

    def run(self, prompt: Any, **more: Any) -> Entry:
        """Run a prompt to its end. Raises `Refused`, or `AssertionError` with ComfyUI's words where a node failed."""
        number = self.ask("/prompt", {"prompt": prompt, **more})["prompt_id"]
        deadline = time.monotonic() + RUN_S
        while time.monotonic() < deadline:
            found = self.ask(f"/history/{number}").get(number)
            if found and found["status"].get("status_str"):
                assert found["status"]["status_str"] == "success", found["status"]["messages"]
                return Entry(self, prompt, found)
            time.sleep(0.1)
        raise AssertionError(f"no end of the run in {RUN_S:.0f} s; the log is {self.log}")


@dataclass(frozen=True)
class Entry:
    """What ComfyUI keeps of a run."""

    host: Host
    prompt: Any
    plain: Any

    @property
    def cached(self) -> set[str]:
        told = [data["nodes"] for kind, data in self.plain["status"]["messages"] if kind == "execution_cached"]
        return {self.prompt[node]["class_type"] for nodes in told for node in nodes}

    @property
    def ran(self) -> set[str]:
        return {node["class_type"] for node in self.prompt.values()} - self.cached

    def shown(self, kind: str = "LoomSaveImage") -> dict[str, Any]:
        """What its page shows at the node of this kind."""
        [node] = [name for name, each in self.prompt.items() if each["class_type"] == kind]
        return self.plain["outputs"][node]

    def file(self, kind: str = "LoomSaveImage") -> bytes:
        [file] = self.files(kind)
        return file

    def files(self, kind: str = "LoomSaveImage") -> list[bytes]:
        ask = "/view?filename={filename}&subfolder={subfolder}&type={type}"
        return [self.host.ask(ask.format(**image)) for image in self.shown(kind)["images"]]


@contextlib.contextmanager
def comfyui(
    checkout: Path, python: str, *more: str, prepare: Callable[[Path], None] = lambda base: None
) -> Iterator[Host]:
    """A server with this repository as its custom node, in a folder of its own, which `prepare` is given first; ended
    when the block ends."""
    with tempfile.TemporaryDirectory(prefix="comfyui-session-") as folder:
        base = Path(folder)
        (base / "custom_nodes").mkdir()
        shutil.copytree(checkout / "input", base / "input")  # with the picture that templates load
        (base / "custom_nodes" / "latentloom").symlink_to(ROOT, target_is_directory=True)
        prepare(base)
        port = free_port()
        command = [python, "main.py", "--cpu", "--listen", "127.0.0.1", "--port", str(port)]
        command += ["--base-directory", str(base), "--disable-auto-launch", "--disable-api-nodes"]
        command += ["--database-url", "sqlite:///:memory:", *more]
        surroundings = os.environ | ALONE | {"PYTHONPATH": str(SHIMS), "PYTHONDONTWRITEBYTECODE": "1"}
        log = base / "comfyui.log"
        with log.open("wb") as out:
            server = subprocess.Popen(command, cwd=checkout, env=surroundings, stdout=out, stderr=subprocess.STDOUT)
        try:
            host = Host(f"http://127.0.0.1:{port}", base, log, server.pid)
            wait_for(host, server)
            yield host
        except BaseException:
            print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
            raise
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait(20)


def wait_for(host: Host, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "ComfyUI ended while it started"
        try:
            host.ask("/system_stats")
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"ComfyUI did not answer in {START_S:.0f} s")


def latentloom(*arguments: str) -> str:
    """Our command line; what it prints."""
    command = [sys.executable, "-m", "latentloom", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | ALONE, capture_output=True, text=True, check=False, timeout=RUN_S
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def pixels(content: bytes) -> bytes:
    from PIL import Image

    return Image.open(io.BytesIO(content)).convert("RGB").tobytes()


def with_seed(prompt: Any, seed: int, **save: Any) -> Any:
    changed = copy.deepcopy(prompt)
    for node in changed.values():
        if node["class_type"] == "LoomDenoise":
            node["inputs"]["seed"] = seed
        if node["class_type"] == "LoomSaveImage":
            node["inputs"].update(save)
    return changed


def exported(file: str, *values: str) -> Any:
    """What `latentloom show --comfyui` gives: without what has its default."""
    prompt = json.loads(latentloom("show", file, "--comfyui"))
    for value in values:
        name, _, text = value.partition("=")
        node, _, socket_name = name.partition(".")
        prompt[node]["inputs"][socket_name] = json.loads(text)
    return prompt


def prompt_of(editor: Any, catalog: Any) -> Any:
    """What ComfyUI's page makes of a file of its editor, by its own rules; `catalog` is its /object_info.

    Raises `AssertionError` where a link, an input or a value does not fit.
    """
    nodes = {node["id"]: node for node in editor["nodes"]}
    assert len(nodes) == len(editor["nodes"]) and editor["last_node_id"] == max(nodes)
    links = {link[0]: link for link in editor["links"]}
    assert len(links) == len(editor["links"]) == editor["last_link_id"]
    for number, source, output, target, slot, kind in links.values():
        assert number in nodes[source]["outputs"][output]["links"] and nodes[target]["inputs"][slot]["link"] == number
        assert catalog[nodes[source]["type"]]["output"][output] == nodes[source]["outputs"][output]["type"] == kind
    prompt = {}
    for number, node in nodes.items():
        listed = catalog[node["type"]]["input"]
        inputs = {**listed.get("required", {}), **listed.get("optional", {})}
        widgets = [name for name, (kind, *_) in inputs.items() if is_widget(kind)]
        sockets = [name for name in inputs if name not in widgets]
        assert [each["name"] for each in node["inputs"]] == sockets + widgets, node["type"]
        values, given = {}, iter(node["widgets_values"])
        for name in widgets:
            values[name] = next(given)
            if inputs[name][1].get("control_after_generate"):
                assert next(given) == "fixed"
        assert next(given, None) is None, f"{node['type']} has more values than widgets"
        for each in node["inputs"]:
            assert each["type"] == ("COMBO" if isinstance(inputs[each["name"]][0], list) else inputs[each["name"]][0])
            assert ("widget" in each) == (each["name"] in widgets)
            if each["link"] is not None:
                _, source, output, *_ = links[each["link"]]
                values[each["name"]] = [str(source), output]
        assert set(listed.get("required", {})) <= set(values), node["type"]
        prompt[str(number)] = {"class_type": node["type"], "inputs": values}
    return prompt


def is_widget(kind: Any) -> bool:
    return isinstance(kind, list) or kind in ("INT", "FLOAT", "STRING", "BOOLEAN", "COMBO")


# -- the session: each step says in a sentence what it saw, or fails

SERIES = (7, 8, 9, 7)


def saves_count_up(host: Host, folder: Path) -> str:
    """Seeds 7, 8, 9, 7, with a cache that forgets: four files, and each run shows its own."""
    prompt = exported(FIRST)
    entries = [host.run(with_seed(prompt, seed, name="counted/a")) for seed in SERIES]
    files = sorted(path.name for path in (host.base / "output" / "counted").iterdir())
    assert files == [f"a_{number:05}_.png" for number in range(1, 5)], files
    return f"{', '.join(files)}; {equal_to_headless(entries, folder)}"


def cached_run_shows_its_own(host: Host, folder: Path) -> str:
    """The same with a cache that remembers: the last run runs nothing, and shows the first one's file."""
    prompt = exported(FIRST)
    entries = [host.run(with_seed(prompt, seed, name="counted/a")) for seed in SERIES]
    assert entries[3].ran == set() and entries[3].shown() == entries[0].shown()
    return f"the fourth run ran nothing and showed {entries[3].shown()['images'][0]['filename']}; " + equal_to_headless(
        entries, folder
    )


def equal_to_headless(entries: list[Entry], folder: Path) -> str:
    shown = [pixels(entry.file()) for entry in entries]
    assert shown[0] == shown[3] and len(set(shown)) == 3
    for seed, each in zip(SERIES[:3], shown, strict=False):
        target = folder / str(seed)
        if not target.exists():
            latentloom("run", FIRST, "--set", f"seed={seed}", "--out", str(target), "--no-cache")
        assert each == pixels((target / "picture.png").read_bytes()), f"seed {seed} differs from headless"
    return "each run shows its seed's picture, every pixel that of the command line"


def exported_prompt_is_cached(host: Host, folder: Path) -> str:
    prompt = exported(FIRST)
    host.run(prompt)
    again = host.run(prompt)
    assert again.ran == set(), again.ran
    other = host.run(with_seed(prompt, 12))
    assert other.ran == {"LoomDenoise", "LoomDecode", "LoomSaveImage"}, other.ran
    return f"second run: nothing ran; another seed: {', '.join(sorted(other.ran))}"


def saved_picture_opens_in_both(host: Host, folder: Path) -> str:
    from PIL import Image

    picture = folder / "from_comfyui.png"
    picture.write_bytes(host.run(with_seed(exported(FIRST), 21)).file())
    chunk = Image.open(picture).text["prompt"]
    entry = host.run(json.loads(chunk, parse_constant=lambda name: sys.exit(f"{name} in the picture's prompt")))
    assert pixels(entry.file()) == pixels(picture.read_bytes())
    assert '"seed": 21' in latentloom("show", str(picture))
    latentloom("run", str(picture), "--out", str(folder / "again"), "--no-cache")
    assert pixels((folder / "again" / "picture.png").read_bytes()) == pixels(picture.read_bytes())
    return "ComfyUI runs its prompt, `show` tells it, `run` makes it anew: every pixel"


def api_file_opens_here(host: Host, folder: Path) -> str:
    file = folder / "exported.json"
    file.write_text(json.dumps(exported(FIRST)))
    assert "no problems" in latentloom("check", str(file)) and '"LoomDenoise"' in latentloom("show", str(file))
    return "`check` and `show` read ComfyUI's API format"


def templates_are_comfyuis(host: Host, folder: Path) -> str:
    catalog = host.ask("/object_info")
    names = host.ask("/workflow_templates")["latentloom"]
    assert sorted(names) == sorted(path.stem for path in (ROOT / "example_workflows").glob("*.json")), names
    for name in names:
        prompt_of(host.ask(f"/api/workflow_templates/latentloom/{name}.json"), catalog)
    first = prompt_of(host.ask("/api/workflow_templates/latentloom/first_picture.json"), catalog)
    assert pixels(host.run(first).file()) == pixels(host.run(exported(FIRST)).file())
    repainted = host.run(prompt_of(host.ask("/api/workflow_templates/latentloom/image_to_image.json"), catalog))
    return f"{len(names)}, all of its editor; first_picture and then image_to_image ran: {repainted.shown()['images']}"


def titles_are_our_own(host: Host, folder: Path) -> str:
    catalog = host.ask("/object_info")
    titles = {name: (info["display_name"] or name).casefold() for name, info in catalog.items()}
    ours = {name for name, info in catalog.items() if info["category"].startswith("latentloom/")}
    others = {title for name, title in titles.items() if name not in ours}
    assert not (clash := {titles[name] for name in ours} & others), clash
    return f"{len(ours)} of ours beside {len(others)} others, none of the same title"


def sub_workflow_and_for_each_run_unfolded(host: Host, folder: Path) -> str:
    """A sub-workflow that goes through a list of prompts, by the API's file and by the editor's."""
    from latentloom.nodes.comfy_editor import editor_file
    from latentloom.nodes.graph.graph import graph_text
    from support.folded import paintings

    graph, file = paintings(steps=2), folder / "paintings.json"
    file.write_text(graph_text(graph))
    prompt = exported(str(file))
    count = sum(each["class_type"] == "LoomEncodeText" for each in prompt.values())
    latentloom("run", str(file), "--out", str(folder / "paintings"), "--no-cache")
    ours = [pixels(path.read_bytes()) for path in sorted((folder / "paintings").glob("paintings*.png"))]
    entry = host.run(prompt)
    assert [pixels(each) for each in entry.files()] == ours and len(set(ours)) == count == 8
    drawn = host.run(prompt_of(editor_file(graph), host.ask("/object_info")))
    assert [pixels(each) for each in drawn.files()] == ours
    changed = copy.deepcopy(prompt)
    changed["paint:5:text"]["inputs"]["prompt"] = "a purple star"
    told = [data["nodes"] for kind, data in host.run(changed).plain["status"]["messages"] if kind == "execution_cached"]
    anew = prompt.keys() - {name for names in told for name in names}
    assert {name for name in anew if name.endswith(("text", "denoise"))} == {"paint:5:text", "paint:5:denoise"}, anew
    picture = folder / "unfolded.png"
    picture.write_bytes(entry.files()[3])
    latentloom("run", str(picture), "--out", str(folder / "unfolded"), "--no-cache")
    again = [pixels(path.read_bytes()) for path in sorted((folder / "unfolded").glob("paintings*.png"))]
    assert again == ours
    return (
        f"{len(prompt)} nodes such as paint:5:text, by the API and by the editor, and a picture of it opened here: "
        f"{count} pictures, every pixel that of the command line; one prompt changed: {', '.join(sorted(anew))}"
    )


def seeds_of_64_bits(host: Host, folder: Path) -> str:
    entry = host.run(with_seed(exported(FIRST), HUGE))
    latentloom("run", FIRST, "--set", f"seed={HUGE}", "--out", str(folder / "huge"), "--no-cache")
    assert pixels(entry.file()) == pixels((folder / "huge" / "picture.png").read_bytes())
    linked = exported(FIRST)
    linked["number"] = {"class_type": "PrimitiveInt", "inputs": {"value": 2**62 + 5}}
    linked["denoise"]["inputs"]["seed"] = ["number", 0]
    host.run(linked)
    return f"{HUGE} gives the command line's picture; a linked {2**62 + 5} runs"


def video_has_its_player(host: Host, folder: Path) -> str:
    from support.tiny_models import write_tiny

    write_tiny("wan", host.base / "models" / "tiny_wan")
    prompt = exported("workflows/wan/wan_text_to_video.json", 'load_model.source="tiny_wan"')
    for node in prompt.values():
        small = {"LoomEmptyLatents": {"width": 64, "height": 64, "frames": 5}, "LoomDenoise": {"steps": 1}}
        node["inputs"].update(small.get(node["class_type"], {}))
    shown = [host.run(with_seed(prompt, seed)).shown("LoomSaveVideo") for seed in (1, 2)]
    assert all(each["animated"] == [True] for each in shown), shown
    return f"{[each['images'][0]['filename'] for each in shown]}, both with animated"


def advice_is_for_comfyui(host: Host, folder: Path) -> str:
    prompt = exported("workflows/bobbin/image_to_image.json", f"load_image.path={json.dumps(str(ROOT / 'README.md'))}")
    try:
        host.run(prompt)
    except (AssertionError, Refused) as failed:
        told = str(failed)
        assert "lies outside the allowed folders" in told and "--" not in told.partition("outside")[2][:300], told
        return "a picture outside its folders is refused, without a word about the command line"
    raise AssertionError("a picture outside ComfyUI's folders was read")


Step = Callable[[Host, Path], str]
FORGETS: tuple[Step, ...] = (saves_count_up,)
REMEMBERS: tuple[Step, ...] = (
    cached_run_shows_its_own,
    exported_prompt_is_cached,
    saved_picture_opens_in_both,
    api_file_opens_here,
    templates_are_comfyuis,
    titles_are_our_own,
    sub_workflow_and_for_each_run_unfolded,
    seeds_of_64_bits,
    video_has_its_player,
    advice_is_for_comfyui,
)


def session(checkout: Path, python: str) -> Iterator[str]:
    """A line for each step. Raises where one fails."""
    with tempfile.TemporaryDirectory() as folder:
        for steps, cache in ((FORGETS, ["--cache-classic"]), (REMEMBERS, ["--cache-lru", "100"])):
            with comfyui(checkout, python, *cache) as host:
                version = host.ask("/system_stats")["system"]["comfyui_version"]
                yield f"ComfyUI {version}, {' '.join(cache)}"
                for step in steps:
                    yield f"  {step.__name__.replace('_', ' ')}: {step(host, Path(folder))}"


def why_not(checkout: Path | None) -> str:
    """Why there can be no session; empty where there can."""
    if checkout is None:
        return "no ComfyUI is named: LATENTLOOM_COMFYUI=DIR, and LATENTLOOM_COMFYUI_PYTHON for its Python"
    return "" if (checkout / "main.py").is_file() else f"{checkout} is no checkout of ComfyUI: it has no main.py"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--comfyui", type=Path, default=None, metavar="DIR", help="a checkout")
    parser.add_argument("--python", default=sys.executable, help="of the environment that ComfyUI's packages are in")
    arguments = parser.parse_args()
    if reason := why_not(arguments.comfyui):
        print(f"skipped: {reason}")
        sys.exit(0)
    for line in session(arguments.comfyui.resolve(), arguments.python):
        print(line, flush=True)
