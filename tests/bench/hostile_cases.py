"""The files of `hostile_files.py`: each made from a seed and its number, with what a user would do with it."""

import contextlib
import io
import json
import os
import random
import shutil
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hostile_small import call_of
from safetensors.torch import save

from latentloom.__main__ import main
from latentloom.nodes.files.audio_files import read_audio, write_audio
from latentloom.nodes.files.picture_files import write_picture
from latentloom.nodes.files.thumbnails import (
    checked_picture,
    checked_sound,
    sound_facts,
    sound_thumbnail,
    video_facts,
    video_thumbnail,
)
from latentloom.nodes.files.video_files import write_video
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.registry import SPECS
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import add_lora, describe_model
from latentloom.pipelines.values import Audio, Latents, Model, to_plain
from support.audit import Audit
from support.damage import damage_gguf, damage_model, damage_text, mutate, places
from support.packed_files import write_gguf
from support.tiny_models import write_tiny

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("flux", "wan_i2v", "sd3", "qwen_image")
HEAVY = {id for id, spec in SPECS.items() if spec.uses_device}
ENTRIES = [
    {"auto_map": {"AutoModel": "evil.Evil"}},
    {"_attn_implementation": "some-org/some-kernel"},
    {"attn_implementation": "https://evil.example/kernel"},
    {"use_kernels": True},
    {"trust_remote_code": True, "auto_map": {"AutoConfig": "/outside/evil.py"}},
    {"text_config": {"_attn_implementation": "some-org/some-kernel"}},
    {"_name_or_path": "some-org/some-model"},
    {"custom_pipelines": {"a": "evil"}},
    {"tokenizer_file": "../../outside/secret.json"},
    {"transformers_weights": "../../outside/x.safetensors"},
]
ENDLESS = "([a-z_0-9.]+)+!"  # a regular expression that takes longer than a life to fail on the name of a layer
CODES = {0: "ok", 1: "failed in one sentence", 2: "refused"}
NAMES = ["../x", "/tmp/evil", "a/../../x", ".git/hooks/post", "a\0b", "", ".", "a" * 300, "con", "x\n", "ünï/✓", "-rf"]


class Finding(Exception):
    """The product did what it must not; the first word says what."""


class Bench:
    """The folders of this process, sound files to spoil, and the hook that watches."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.seed = root, seed
        self.audit = Audit()
        self.outside = root / "outside"
        self.outside.mkdir(exist_ok=True)
        (self.outside / "secret.json").write_text("{}")
        self.sound = root / "sound"
        self.tiny = {family: self._tiny(family) for family in FAMILIES}
        self.workflows = [json.loads(path.read_text()) for path in sorted(ROOT.glob("workflows/**/*.json"))]
        self.flux = describe_model(str(self.tiny["flux"]), device="cpu")
        self.layers = self._layers()
        video = self.sound / "video.mp4"
        if not video.exists():
            audio = Audio(waveform=torch.rand(1, 2, 6000) - 0.5, rate=8000)
            write_video(torch.rand(6, 32, 48, 3), video, fps=8, quality=30, metadata={"latentloom": "{}"}, audio=audio)
            for ending in ("wav", "flac"):
                write_audio(audio.waveform[0], self.sound / f"audio.{ending}", rate=8000, metadata={"latentloom": "{}"})
        self.video = video.read_bytes()
        self.audio = {ending: (self.sound / f"audio.{ending}").read_bytes() for ending in ("wav", "flac")}

    def _tiny(self, family: str) -> Path:
        folder = self.sound / family
        if not folder.exists():
            write_tiny(family, folder)
        return folder

    def _layers(self) -> dict[str, tuple[int, int]]:
        transformer = ComponentStore().load(self.flux, ("transformer",))["transformer"]
        linear = {n: m for n, m in transformer.named_modules() if isinstance(m, torch.nn.Linear) and "to_q" in n}
        return {name: (module.in_features, module.out_features) for name, module in linear.items()}


# Makes a file in a folder; gives what is wrong with it, and what reads it.
Case = Callable[[Bench, Path, random.Random], tuple[str, Callable[[], str]]]


def command(*arguments: str) -> str:
    """What the command line says of it: ok, refused, or a traceback. Raises nothing that it should not."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    said = out.getvalue() + err.getvalue()
    if "Traceback (most recent call last)" in said:
        raise Finding(f"traceback: {said[-1500:]}")
    if "run again with --debug" in said:
        raise Finding(f"unforeseen: {err.getvalue()[-600:]}")
    if code not in CODES:
        raise Finding(f"exit {code}: {err.getvalue()[-600:]}")
    return CODES[code]


def sentence(call: Callable[[], Any]) -> str:
    """`ValueError` in one line is how a bad file is refused; all else is a finding."""
    try:
        call()
    except ValueError as error:
        message = str(error)
        if ("\n" in message and not isinstance(error, GraphError)) or not 10 < len(message) < 3000:
            raise Finding(f"unforeseen: no sentence: {message[:600]!r}") from error
        return "refused"
    return "ok"


def workflow(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    data = json.loads(json.dumps(dice.choice(bench.workflows)))
    what = spoil(data, dice)
    text = json.dumps(data).encode()
    roll = dice.random()
    if roll < 0.3:
        what, text = what + ", bytes spoilt", damage_text(text, dice)
    elif roll < 0.34:
        what, text = strange_text(dice)
    file = folder / "w.json"
    file.write_bytes(text)

    def read() -> str:
        checked, shown = command("check", str(file)), command("show", str(file))
        return checked if shown != "refused" else "refused"

    return what, read


def spoil(data: Any, dice: random.Random) -> str:
    times = dice.choice([0, 1, 1, 1, 2, 3, 8])
    for _ in range(times):
        if places(data):
            mutate(data, dice)
    return f"{times} changes"


def strange_text(dice: random.Random) -> tuple[str, bytes]:
    node = {"type": "LoomNote", "inputs": {"text": "x"}}
    many = dice.choice([1_000, 20_000])
    chain = {f"n{i}": {"type": "LoomJoinText", "inputs": {"first": {"from": f"n{i + 1}.text"}}} for i in range(many)}
    kinds: list[tuple[str, Callable[[], bytes]]] = [
        ("a million levels", lambda: b"[" * 1_000_000),
        ("a million objects", lambda: b'{"a":' * 500_000),
        ("many nodes", lambda: json.dumps({"format": 1, "nodes": {f"n{i}": node for i in range(many)}}).encode()),
        ("a long chain or cycle", lambda: json.dumps({"format": 1, "nodes": chain}).encode()),
        ("a number of a million digits", lambda: b'{"format": ' + b"9" * 1_000_000 + b"}"),
        ("a long string", lambda: json.dumps({"format": 1, "name": "x" * 3_000_000, "nodes": {}}).encode()),
        ("many duplicate keys", lambda: b'{"format":1,' + b'"nodes":{},' * 100_000 + b'"name":"x"}'),
        ("five million bytes", lambda: b" " * 5_000_000),
        ("no bytes", lambda: b""),
    ]
    what, make = dice.choice(kinds)
    return what, make()


def light(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    """A workflow that asks for no model, really run, with strange paths, names and sizes in it."""
    write_picture(torch.rand(8, 6, 3), folder / "in.png", {})
    path, name = strange_path(bench, folder, dice), dice.choice([*NAMES, "picture", "a/b", "picture"])
    size = dice.choice([0, -1, 1, 7, 64, 16384, 10**9, "64", None, True, 3.5])
    nodes = {
        "load": {"type": "LoomLoadImage", "inputs": {"path": dice.choice([path, "in.png", "in.png"])}},
        "resize": {
            "type": "LoomResizeImage",
            "inputs": {
                "image": {"from": "load.image"},
                "width": dice.choice([size, 32]),
                "height": dice.choice([size, 24]),
            },
        },
        "grid": {
            "type": "LoomImageGrid",
            "inputs": {"image": {"from": "resize.image"}, "scale": dice.choice([1, 2, size])},
        },
        "save": {"type": "LoomSaveImage", "inputs": {"image": {"from": "grid.image"}, "name": name}},
    }
    data: Any = {"format": 1, "name": "light", "nodes": nodes}
    what = f"path {path!r}, name {name!r}, size {size!r}"
    if dice.random() < 0.4:
        what += ", " + spoil(data, dice)
    file = folder / "w.json"
    file.write_text(json.dumps(data))

    def read() -> str:
        if any(f'"{id}"' in file.read_text() for id in HEAVY):
            return command("check", str(file))
        with contextlib.chdir(folder):
            return command("run", str(file), "--out", str(folder / "out"), "--no-cache")

    return what, read


def strange_path(bench: Bench, folder: Path, dice: random.Random) -> str:
    kind = dice.randrange(12)
    if kind == 0:
        os.mkfifo(folder / "pipe.png")
        return "pipe.png"
    if kind == 1:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as made, contextlib.chdir(folder):
            made.bind("socket.png")
        return "socket.png"
    if kind == 2:
        (folder / "link.png").symlink_to(bench.outside / "secret.json")
        return "link.png"
    if kind == 3:
        (folder / "loop.png").symlink_to("loop.png")
        return "loop.png"
    if kind == 4:
        (folder / "folder.png").mkdir()
        return "folder.png"
    if kind == 5:
        with (folder / "huge.png").open("wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            file.truncate(1 << 40)
        return "huge.png"
    if kind == 6:
        (folder / "device.png").symlink_to(dice.choice(["/dev/zero", "/dev/stdin", "/dev/tty", "/proc/self/mem"]))
        return "device.png"
    return dice.choice(
        ["/dev/zero", "/etc/passwd", "../outside/secret.json", "\0", "a" * 5000, "", "~", "in.png/x", "nul"]
    )


def picture(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    file = folder / "in.png"
    what, data = strange_picture(bench, dice)
    file.write_bytes(data)
    base = {
        "format": 1,
        "name": "base",
        "nodes": {
            "load": {"type": "LoomLoadImage", "inputs": {"path": "in.png"}},
            "resize": {
                "type": "LoomResizeImage",
                "inputs": {"image": {"from": "load.image"}, "width": 64, "height": 64},
            },
            "save": {"type": "LoomSaveImage", "inputs": {"image": {"from": "resize.image"}}},
        },
    }
    (folder / "w.json").write_text(json.dumps(base))

    def run() -> str:
        with contextlib.chdir(folder):
            return command("run", "w.json", "--out", str(folder / "out"), "--no-cache")

    uses: list[Callable[[], str]] = [
        run,
        lambda: command("show", str(file)),
        lambda: sentence(lambda: checked_picture(file, name="in.png")),
    ]
    read = dice.choice(uses)

    return what, read


def strange_picture(bench: Bench, dice: random.Random) -> tuple[str, bytes]:
    from PIL import Image

    roll = dice.random()
    if roll < 0.04:
        side = dice.choice([4000, 7900, 11500, 30000, 100_000])
        return f"a png of {side} x {side} zeros", bomb(side, side, full=side < 9000)
    if roll < 0.06:
        side = dice.choice([3000, 7900])
        mode, kind = dice.choice(["RGB", "RGBA", "L"]), dice.choice(["WEBP", "JPEG", "BMP"])
        buffer = io.BytesIO()
        options = {"lossless": True, "method": 0} if kind == "WEBP" else {"progressive": True} if kind == "JPEG" else {}
        Image.new("RGB" if kind != "WEBP" else mode, (side, side), 1).save(buffer, format=kind, **options)
        return f"a {kind} of {side} x {side}", buffer.getvalue()
    kind = dice.choice(["PNG", "PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"])
    mode = dice.choice(["RGB", "RGBA", "L", "LA", "P", "1", "I;16"]) if kind == "PNG" else "RGB"
    size = (dice.choice([1, 17, 64]), dice.choice([1, 5, 64]))
    image = Image.frombytes("RGBA", size, dice.randbytes(size[0] * size[1] * 4))
    image = Image.new("I;16", size) if mode == "I;16" else image.convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **({"pnginfo": strange_chunks(bench, dice)} if kind == "PNG" else {}))
    data = buffer.getvalue()
    if dice.random() < 0.75:
        data = spoil_bytes(data, dice)
    return f"{kind} {mode} {size}", data


def strange_chunks(bench: Bench, dice: random.Random) -> Any:
    from PIL import PngImagePlugin

    chunks = PngImagePlugin.PngInfo()
    inner = json.loads(json.dumps(dice.choice(bench.workflows)))
    spoil(inner, dice)
    texts = [json.dumps(inner), "NaN", '{"1": {"class_type": "Evil"}}', "x" * 3_000_000, "[" * 100_000, "\u202e{}"]
    for key in dice.sample(["latentloom", "prompt", "workflow", "parameters"], k=dice.randrange(3)):
        text = dice.choice(texts)
        add = dice.choice([chunks.add_itxt, lambda key, text: chunks.add_itxt(key, text, zip=True)])
        add(key, text)
    return chunks


def spoil_bytes(data: bytes, dice: random.Random) -> bytes:
    spoilt = bytearray(data)
    for _ in range(dice.choice([1, 4, 60])):
        spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
    cut = dice.randrange(len(spoilt)) if dice.random() < 0.3 else len(spoilt)
    return bytes(spoilt[:cut]) + (dice.randbytes(500) if dice.random() < 0.1 else b"")


def bomb(width: int, height: int, *, full: bool) -> bytes:
    """A PNG of black pixels that packs to almost nothing; not `full`: the pixels are not even there."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = b"\0" * (1 + 3 * width)
    body = b"".join(packer.compress(row) for _ in range(height)) if full else packer.compress(b"\0" * 100)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body += packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def video(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    file = folder / "in.mp4"
    os.mkfifo(folder / "victim.mp4")
    lists = [
        b"ffconcat version 1.0\nfile 'victim.mp4'\n",
        b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/evil.ts\n",
        b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        b"<?xml version='1.0'?><MPD><BaseURL>http://127.0.0.1:9/</BaseURL></MPD>",
        b"v=0\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n",
    ]
    data = dice.choice(lists) if dice.random() < 0.2 else spoil_bytes(bench.video, dice)
    file.write_bytes(data)

    def read() -> str:
        shown = command("show", str(file))
        sentence(lambda: video_facts(file))
        sentence(lambda: video_thumbnail(file, side=64))
        sentence(lambda: read_audio(file))
        return shown

    return f"{len(data)} bytes", read


def audio(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    ending = dice.choice(list(bench.audio))
    file = folder / f"in.{dice.choice([ending, ending, 'mp3', 'ogg', 'm4a'])}"
    data = spoil_bytes(bench.audio[ending], dice)
    file.write_bytes(data)

    def read() -> str:
        shown = command("show", str(file))
        sentence(lambda: sound_facts(file))
        sentence(lambda: sound_thumbnail(file, side=64))
        sentence(lambda: checked_sound(file, name=file.name))
        return shown

    return f"{len(data)} bytes as {file.suffix}", read


def model(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    copy = folder / "copy"
    shutil.copytree(bench.tiny[dice.choice(FAMILIES)], copy, copy_function=os.link)
    if dice.random() < 0.35:
        target = dice.choice(sorted(copy.rglob("*.json")))
        plain = json.loads(target.read_text())
        entry = dice.choice(ENTRIES)
        if isinstance(plain, dict):
            plain |= entry
        target.unlink()
        target.write_text(json.dumps(plain))
        (target.parent / "evil.py").write_text("open('CANARY', 'w')\n")
        what = f"{target.relative_to(copy)} with {entry}"
    else:
        what = damage_model(copy, dice)

    def load() -> None:
        found = describe_model(str(copy), device="cpu", roots=[copy])
        ComponentStore().load(found, tuple(inspect_model(copy).components))

    return what, lambda: sentence(load)


def lora(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    file = folder / "lora.safetensors"
    rank = dice.choice([0, 1, 2, 2, 2, 300])
    shift = dice.choice([0, 0, 0, 1, 1000])
    fill = dice.choice([0.1, 0.1, float("nan"), float("inf"), 1e38])
    tensors = {}
    for name, (wide, tall) in bench.layers.items():
        tensors[f"transformer.{name}.lora_A.weight"] = torch.full((rank, wide + shift), fill)
        tensors[f"transformer.{name}.lora_B.weight"] = torch.full((tall, rank), 0.1)
    ask = {
        "r": dice.choice([rank, 10**9, -1]),
        "lora_alpha": 10**9,
        "target_modules": dice.choice([["to_q"], ".*", "(" * 50, ENDLESS]),
        "rank_pattern": {dice.choice(["to_q", "^to_q", ENDLESS]): rank},
    }
    if dice.random() < 0.1:
        tensors |= {f"transformer.{ENDLESS}.lora_{half}.weight": torch.ones(rank + 1, rank + 1) for half in "AB"}
    metadata = {"lora_adapter_metadata": json.dumps({f"transformer.{k}": v for k, v in ask.items()})}
    data = save(tensors, metadata if dice.random() < 0.5 else None)
    if dice.random() < 0.35:
        data = spoil_bytes(data, dice)
    file.write_bytes(data)

    def use() -> None:
        carried = add_lora(bench.flux, str(file), dice.choice([1.0, 0.0, 100.0]))
        if dice.random() < 0.3:
            paint(carried)
        else:
            ComponentStore().load(carried, ("transformer",))

    return f"rank {rank}, shift {shift}, of {fill}, {ask}", lambda: sentence(use)


def paint(carried: Model) -> None:
    plain = to_plain(carried)
    text = stages.encode_text({"model": plain, "prompt": "a red circle", "text_length": 64})
    canvas = to_plain(Latents(family="flux", width=64, height=64))
    denoised = stages.denoise({"model": plain, "conditioning": text, "latents": canvas, "steps": 1, "guidance": 1.0})
    if not bool(torch.isfinite(denoised.tensor).all()):
        raise Finding("NaN left the denoise")


def header(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    file = folder / "lora.safetensors"
    count = dice.choice([10, 5_000, 90_000, 100_001, 300_000])
    entry = dice.choice(
        [
            {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
            {"dtype": "Q9", "shape": [2**62], "data_offsets": [-1, 2**63]},
            {"dtype": "F32", "shape": [2**40] * 20, "data_offsets": [0, 4]},
        ]
    )
    name = dice.choice(["transformer.a{}.lora_A.weight", "a", "x" * 50 + "{}"])
    pairs = ",".join(f"{json.dumps(name.format(i))}:{json.dumps(entry)}" for i in range(count))
    text = b"{" + pairs.encode() + b"}"
    length = dice.choice([len(text), len(text), len(text), 2**63, len(text) + 1, 0])
    file.write_bytes(struct.pack("<Q", length) + text + b"\0" * 4)
    return f"{count} tensors of {entry}", lambda: sentence(lambda: add_lora(bench.flux, str(file), 1.0))


def gguf(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    """A small transformer's, and what a reader that believes a header would make of it."""
    whole = folder / "whole.gguf"
    write_gguf(whole, {f"blocks.{index}.weight": torch.ones(4, 64) for index in range(dice.choice([1, 3, 200]))})
    what, data = damage_gguf(whole.read_bytes(), dice)
    file = folder / "one.gguf"
    file.write_bytes(data)
    return what, lambda: sentence(lambda: describe_model(f"{file}@{bench.flux.folder}", device="cpu"))


def comfyui(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    from latentloom.nodes.graph.graph import read_graph
    from latentloom.nodes.hosts.comfy_file import from_comfy
    from support.prepared import to_comfy

    data = to_comfy(read_graph(json.dumps(dice.choice(bench.workflows)).encode()), SPECS)
    what = spoil(data, dice)
    return what, lambda: sentence(lambda: from_comfy(data, SPECS, "x"))


def small(bench: Bench, folder: Path, dice: random.Random) -> tuple[str, Callable[[], str]]:
    what, call = call_of(dice)
    return what, lambda: sentence(call)


CASES: dict[str, Case] = {
    "workflow": workflow,
    "light": light,
    "picture": picture,
    "video": video,
    "audio": audio,
    "model": model,
    "lora": lora,
    "header": header,
    "gguf": gguf,
    "comfyui": comfyui,
    "small": small,
}
