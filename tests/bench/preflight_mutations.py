"""Does checked mean that it runs: mutated workflows of tiny models, checked, and then run as if nobody had checked.

python tests/bench/preflight_mutations.py --seed 1 --each 24        also: --only KIND --index N to repeat one

What the preflight lets pass is run, in one step: where that fails, files and numbers might have told. What it refuses
as an error is run with the preflight switched off: where that works, the error was none. Both are printed, and the exit
is 1 if there are any but those of `UNTOLD`. What it only reckons (memory) counts as neither.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from PIL import Image as Pillow
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.nodes.execution import schedule
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, graph_from_plain
from latentloom.nodes.graph.problems import GraphError, Problem
from latentloom.nodes.registry import SPECS
from latentloom.parallel.machine.now import devices_now
from support.prepared import foretell, run
from support.tiny_models import write_tiny

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
BOBBIN, FAMILIES = "builtin:bobbin", ("flux", "sd3", "qwen_image", "wan")
PARAMS = {"prompt": "a red star", "negative_prompt": "", "seed": 7, "image": "picture.png", "mask": "mask.png"}
NUMBERS = {"blur": 2.0, "strength": 0.8, "devices": "cpu*2", "plan": "auto"}
# Failures that the preflight does not foretell, by words of their sentences, and why.
UNTOLD = {
    "its tensors are not those of this": "a single file's names are only known once diffusers has converted them",
    "cannot be loaded: Cannot load because": "shapes by a config are only known once the class was made",
    "use one made for it": "names of LoRAs of other projects are only known once diffusers has converted them",
    "holds such values itself": "of weights only headers are read",
}
WRONG = ("passed, failed", "refused, ran")
Plain = dict[str, Any]


@dataclass
class World:
    """The files that workflows name, and chance."""

    folder: Path
    chance: random.Random

    def workflow(self, name: str, source: str = BOBBIN) -> Plain:
        plain = json.loads((WORKFLOWS / "bobbin" / f"{name}.json").read_text())
        for param, entry in plain["params"].items():
            entry["default"] = {**PARAMS, **NUMBERS}[param]
        for node in plain["nodes"].values():
            if node["type"] == "LoomLoadModel":
                node["inputs"]["source"] = source
            if node["type"] == "LoomDenoise":
                node["inputs"]["steps"] = 2 if "strength" in node["inputs"] else 1
        return plain

    def pick(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def any_source(self) -> str:
        return self.pick(BOBBIN, *(str(self.folder / family) for family in FAMILIES if family != "wan"))


def made_with(plain: Plain, node: str, **inputs: Any) -> Plain:
    plain["nodes"][node]["inputs"] |= inputs
    return plain


def size(world: World) -> Plain:
    name = world.pick("first_picture", "image_to_image")
    plain = world.workflow(name, world.any_source())
    node = "empty_latents" if name == "first_picture" else "encode_image"
    sides = [world.pick(0, 1, 8, 16, 32, 48, 64, world.chance.randrange(1, 130)) for _ in range(2)]
    return made_with(plain, node, width=sides[0], height=sides[1])


def frames(world: World) -> Plain:
    if world.chance.random() < 0.3:
        plain = world.workflow("first_picture", world.any_source())
        return made_with(plain, "empty_latents", width=64, height=64, frames=world.pick(0, 1, 2, 5, 9))
    plain = world.workflow("first_picture", str(world.folder / "wan"))
    plain["nodes"]["decode"]["type"] = "LoomDecodeVideo"
    video = {"video": {"from": "decode.video"}, "name": "clip"}
    plain["nodes"]["save"] = {"type": "LoomSaveVideo", "version": 1, "inputs": video}
    plain["outputs"] = {}
    long = world.pick(1, 2, 4, 5, 9, 13, world.chance.randrange(1, 20))
    return made_with(plain, "empty_latents", width=32, height=32, frames=long, fps=world.pick(0, 0, 8, 16))


def model(world: World) -> Plain:
    sources = (
        *(f"{world.folder}/{name}" for name in (*FAMILIES, "cut", "no_index", "no_vae", "other_config", "empty")),
        "nobody/has-it",
        "builtin:bobbin2",
        "",
        "/",
        "../..",
        str(world.folder / "picture.png"),
        f"{world.folder}/good.safetensors@{world.folder}/flux",
    )
    plain = world.workflow("first_picture", world.pick(*sources))
    dtype = world.pick("auto", "auto", "bf16", "fp32")
    made_with(made_with(plain, "empty_latents", width=64, height=64), "load_model", dtype=dtype)
    if world.chance.random() < 0.2:
        made_with(plain, "load_model", source=BOBBIN, quantization=world.pick("int8", "int4", "fp8"))
    return plain


def file(world: World) -> Plain:
    paths = ("picture.png", "grey.png", "alpha.png", "cut.png", "text.png", "empty.png", "picture.jpg", "none.png")
    more = (".", "", "/etc/passwd", "sub/picture.png", "../picture.png", "large.png", "pipe", "link.png", "picture.gif")
    plain = world.workflow(world.pick("image_to_image", "inpaint"))
    socket = world.pick(*(param for param in ("image", "mask") if param in plain["params"]))
    plain["params"][socket]["default"] = world.pick(*paths, *more)
    return plain


def lora(world: World) -> Plain:
    names = ("good", "other", "narrow", "kohya", "peft", "no_lora", "cut", "nan", "half", "scaled", "mixed", "none")
    plain = world.workflow("first_picture", world.pick(BOBBIN, BOBBIN, str(world.folder / "sd3")))
    path = world.pick(*(f"{name}.safetensors" for name in names), "picture.png", "flux")
    inputs = {"model": {"from": "load_model.model"}, "path": path, "scale": world.pick(0, 1, 0.5, -1)}
    plain["nodes"]["lora"] = {"type": "LoomLoadLora", "version": 1, "inputs": inputs}
    made_with(plain, "empty_latents", width=64, height=64)
    return made_with(plain, "denoise", model={"from": "lora.model"})


def plan(world: World) -> Plain:
    plain = world.workflow("several_devices", world.any_source())
    devices = world.pick(
        "cpu", "cpu*2", "cpu*2", "cpu,cpu", "cuda", "cuda:0,cuda:1", "all", "cpu*0", "cpu*99", "tpu", ""
    )
    degrees = ("auto", "cfg=2", "ulysses=2", "ring=2", "allgather=2", "ulysses=4", "cfg=3", "weights=2", "replicas=2")
    chosen = world.pick(*degrees, "ulysses=3", "cfg=2,ulysses=2", "fast", "ulysses=0", "vae=2", "")
    made_with(plain, "empty_latents", width=64, height=64)
    plain["params"]["devices"]["default"], plain["params"]["plan"]["default"] = devices, chosen
    return plain


def name(world: World) -> Plain:
    names = ("picture", "sub/picture", "../picture", "/tmp/picture", ".hidden", "", " ", "a\0b", "a" * 300, "blocked/x")
    more = ("blocked", "picture.png", "bad:name", "a/../b", "ü", "folder", "a/", ".", "x" * 250)
    plain = made_with(world.workflow("first_picture"), "save", name=world.pick(*names, *more))
    if world.chance.random() < 0.4:
        inputs = {"image": {"from": "decode.image"}, "name": world.pick(*names, *more)}
        plain["nodes"]["save_2"] = {"type": "LoomSaveImage", "version": 1, "inputs": inputs}
    return made_with(plain, "empty_latents", batch=world.pick(1, 1, 2))


def wire(world: World) -> Plain:
    plain = world.workflow(world.pick("first_picture", "inpaint", "upscale_and_refine"))
    makers = [
        f"{node}.{output.name}" for node, entry in plain["nodes"].items() for output in SPECS[entry["type"]].outputs
    ]
    linked = [
        (node, socket)
        for node, entry in plain["nodes"].items()
        for socket, value in entry["inputs"].items()
        if isinstance(value, dict) and "from" in value
    ]
    node, socket = world.pick(*linked)
    if world.chance.random() < 0.25:
        plain["nodes"][node]["inputs"].pop(socket)
        return plain
    return made_with(plain, node, **{socket: {"from": world.pick(*makers)}})


def number(world: World) -> Plain:
    plain = world.workflow(world.pick("first_picture", "image_to_image", "upscale_and_refine"))
    found = [
        (node, each)
        for node, entry in plain["nodes"].items()
        for each in SPECS[entry["type"]].inputs
        if each.type in ("INT", "FLOAT", "int", "float") and each.name not in ("width", "height", "frames", "columns")
    ]
    node, each = world.pick(*found)
    least, most = each.min if each.min is not None else -9, each.max if each.max is not None else 99
    values = (least, least - 1, least + 1, most + 1, 0, 1, 2, -1, 0.5, "3", None, True)
    if each.name in ("steps", "batch", "scale", "seed"):
        values = tuple(value for value in values if not isinstance(value, int | float) or value <= 4)
    return made_with(plain, node, **{each.name: world.pick(*values)})


KINDS: dict[str, Callable[[World], Plain]] = {
    each.__name__: each for each in (size, frames, model, file, lora, plan, name, wire, number)
}


def write_world(folder: Path) -> None:
    for family in FAMILIES:
        write_tiny(family, folder / family)
    for broken in ("cut", "no_index", "no_vae", "other_config"):
        write_tiny("sd3", folder / broken)
    [weights] = (folder / "cut" / "transformer").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    (folder / "no_index" / "model_index.json").unlink()
    [weights] = (folder / "no_vae" / "vae").glob("*.safetensors")
    weights.unlink()
    config = folder / "other_config" / "transformer" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_layers": 7}))
    (folder / "empty").mkdir()
    write_pictures(folder)
    write_loras(folder)


def write_pictures(folder: Path) -> None:
    picture = Pillow.effect_noise((64, 64), 50)
    for mode, stem in (("RGB", "picture"), ("L", "grey"), ("RGBA", "alpha"), ("L", "mask")):
        picture.convert(mode).save(folder / f"{stem}.png")
    whole = (folder / "picture.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "text.png").write_text("no picture")
    (folder / "empty.png").touch()
    picture.save(folder / "picture.jpg")
    picture.save(folder / "picture.gif")
    Pillow.new("L", (9000, 9000)).save(folder / "large.png")
    os.mkfifo(folder / "pipe")
    (folder / "link.png").symlink_to("/etc/passwd")
    (folder / "sub").mkdir()
    picture.save(folder / "sub" / "picture.png")


def write_loras(folder: Path) -> None:
    layer = "transformer_blocks.0.attn.to_q"

    def write(
        stem: str, down: str, up: str, width: int = 192, *, rank: int = 2, value: float = 0.0, **more: Any
    ) -> None:
        tensors = {down: torch.full((rank, width), value), up: torch.zeros(192, rank), **more}
        save_file(tensors, folder / f"{stem}.safetensors")

    def ends(layer: str) -> tuple[str, str]:
        return f"transformer.{layer}.lora_A.weight", f"transformer.{layer}.lora_B.weight"

    write("good", *ends(layer))
    write("other", *ends("blocks.0.attn1.to_q"))
    write("narrow", *ends(layer), 8)
    write("nan", *ends(layer), value=torch.nan)
    write("kohya", *(f"lora_unet_transformer_blocks_0_attn_to_q.lora_{end}.weight" for end in ("down", "up")))
    write("peft", *(f"base_model.model.{layer}.lora_{end}.weight" for end in "AB"))
    write("scaled", *ends(layer), **{f"transformer.{layer}.alpha": torch.tensor(1.0)})
    down, up = ends("blocks.0.attn1.to_q")
    write("mixed", *ends(layer), **{down: torch.zeros(2, 8), up: torch.zeros(8, 2)})
    save_file({ends(layer)[0]: torch.zeros(2, 192)}, folder / "half.safetensors")
    save_file({"a.weight": torch.zeros(2, 2)}, folder / "no_lora.safetensors")
    (folder / "cut.safetensors").write_bytes((folder / "good.safetensors").read_bytes()[:-50])


@contextmanager
def switched_off() -> Iterator[None]:
    with mock.patch.object(schedule, "refused", lambda *_: ()):
        yield


def outcome(graph: Graph, workspace: Workspace) -> str:
    """Why a run fails, "" where it does not."""
    try:
        made = run(graph, SPECS, workspace=workspace)
    except GraphError as error:
        return str(error)
    if made.state == "ok":
        return ""
    return next((record.message for record in made.nodes.values() if record.state == "failed"), made.state)


def tried(kind: str, seed: int, index: int, folder: Path) -> tuple[list[Problem], str, Plain]:
    """What the preflight says of one mutation, and how its run ended."""
    plain = KINDS[kind](World(folder, random.Random(f"{seed} {kind} {index}")))
    out = folder / "out" / f"{kind}-{index}"
    (out / "folder").mkdir(parents=True)
    (out / "folder.png").mkdir()
    (out / "blocked").touch()
    workspace = Workspace(output_dir=out, roots=(folder,), host="command line", claims={})
    try:
        graph = graph_from_plain(plain)
    except GraphError as error:
        return list(error.problems), str(error), plain
    found = foretell(graph, SPECS, workspace=workspace, machine=devices_now()).problems
    if any(problem.kind == "estimate" for problem in found):
        return found, "not run", plain
    with switched_off():
        return found, outcome(graph, workspace), plain


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=24)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--index", type=int)
    asked = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        write_world(folder)
        os.chdir(folder)
        for kind in [asked.only] if asked.only else KINDS:
            for index in range(asked.each) if asked.index is None else [asked.index]:
                found, why, plain = tried(kind, asked.seed, index, folder)
                is_refused = any(problem.kind == "error" for problem in found)
                said = "refused" if is_refused else "estimate" if found else "passed"
                fell = said if said == "estimate" else f"{said}, {'failed' if why else 'ran'}"
                if fell == "passed, failed" and any(words in why for words in UNTOLD):
                    fell = "passed, untold"
                counts[kind, fell] += 1
                if fell in WRONG or asked.index is not None:
                    print(f"{kind} {index}: {fell}: {'; '.join(map(str, found))} | {why}", flush=True)
                if asked.index is not None:
                    print(json.dumps({name: node["inputs"] for name, node in plain["nodes"].items()}, indent=1))
    columns = ("passed, ran", "passed, untold", "passed, failed", "refused, failed", "refused, ran", "estimate")
    print(f"{'':8}", *(f"{each:>15}" for each in columns))
    for kind in KINDS:
        print(f"{kind:8}", *(f"{counts[kind, each]:15}" for each in columns))
    ran, untold, failed, right, wrong, _ = (sum(counts[kind, each] for kind in KINDS) for each in columns)
    print(f"passed: {ran + untold + failed}, of which failed: {failed}, and {untold} by what is known not to be told")
    print(f"refused: {right + wrong}, of which ran: {wrong}")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
