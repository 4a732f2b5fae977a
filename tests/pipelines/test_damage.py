"""300 seeded damaged copies of a model: each gives one ValueError or loads; no other error, no hang, no code run."""

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latentloom.pipelines.components import ComponentStore
from latentloom.pipelines.describe import describe_model
from latentloom.pipelines.inspect_model import inspect_model

NUM_COPIES = 300
PICKLE = b"\x80\x04cos\nsystem\n(S'touch CANARY'\ntR."
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    2**40,
    "",
    "x" * 5000,
    "../../../etc/passwd",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
]


def test_300_damaged_models_give_one_sentence_or_load(
    tiny: Callable[[str], Path], tmp_path: Path, audit: "Audit"
) -> None:
    originals = [tiny("flux"), tiny("wan_i2v")]
    for original in originals:  # imports and first-use caches are not what is watched
        load_everything(original)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.json").write_text("{}")
    outcomes = {"refused": 0, "loaded": 0}
    for seed in range(NUM_COPIES):
        copy = tmp_path / f"copy{seed}"
        shutil.copytree(originals[seed % 2], copy, copy_function=os.link)
        what = damage(copy, random.Random(seed))
        began = time.monotonic()
        with audit.watching(copy):
            outcome = try_to_load(copy, what)
        assert time.monotonic() - began < 20, f"seed {seed}: {what} took too long"
        assert not audit.offences, f"seed {seed}: {what}: {audit.offences[:5]}"
        assert not (tmp_path / "CANARY").exists() and not Path("CANARY").exists(), f"seed {seed}: {what}"
        outcomes[outcome] += 1
        shutil.rmtree(copy)
    assert outcomes["refused"] > 150, outcomes


def try_to_load(folder: Path, what: str) -> str:
    try:
        load_everything(folder)
    except ValueError as error:
        message = str(error)
        assert 20 < len(message) < 1500, f"{what}: {message!r}"
        assert "\n" not in message, f"{what}: {message!r}"
        return "refused"
    return "loaded"


def load_everything(folder: Path) -> None:
    model = describe_model(str(folder), device="cpu", roots=[folder.parent / folder.name])
    ComponentStore().load(model, tuple(inspect_model(folder).components))


def damage(folder: Path, rng: random.Random) -> str:
    """Spoil one thing; says what, for the failing test's message."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    target = rng.choice(files)
    if rng.random() < 0.5:
        target = rng.choice([path for path in files if path.suffix == ".safetensors"])
    how = rng.choice(DAMAGES)
    content = target.read_bytes()
    target.unlink()  # a hard link: the original must not change
    how(target, content, rng)
    return f"{how.__name__} {target.relative_to(folder)}"


def truncate(path: Path, content: bytes, rng: random.Random) -> None:
    path.write_bytes(content[: rng.randrange(len(content))])


def flip_bytes(path: Path, content: bytes, rng: random.Random) -> None:
    spoiled = bytearray(content)
    for _ in range(rng.choice([1, 3, 50])):
        spoiled[rng.randrange(min(len(spoiled), 4000))] = rng.randrange(256)
    path.write_bytes(spoiled)


def delete(path: Path, content: bytes, rng: random.Random) -> None:
    pass


def become_folder(path: Path, content: bytes, rng: random.Random) -> None:
    path.mkdir()
    (path / "inside.json").write_text("{}")


def become_pipe(path: Path, content: bytes, rng: random.Random) -> None:
    os.mkfifo(path)


def link_outside(path: Path, content: bytes, rng: random.Random) -> None:
    root = next(parent for parent in path.parents if parent.name.startswith("copy"))
    path.symlink_to(root.parent / "outside" / "secret.json")


def link_to_itself(path: Path, content: bytes, rng: random.Random) -> None:
    path.symlink_to(path.name)


def become_empty(path: Path, content: bytes, rng: random.Random) -> None:
    path.write_bytes(b"")


def become_pickle(path: Path, content: bytes, rng: random.Random) -> None:
    names = ["diffusion_pytorch_model.bin", "pytorch_model.bin", "model.ckpt", "model.pt", "x.pkl"]
    path.with_name(rng.choice(names)).write_bytes(PICKLE)
    if rng.random() < 0.5:
        path.write_bytes(PICKLE)


def huge_header(path: Path, content: bytes, rng: random.Random) -> None:
    path.write_bytes(rng.choice([2**62, 2**31, 10**8, len(content)]).to_bytes(8, "little") + content[8:])


def nested_json(path: Path, content: bytes, rng: random.Random) -> None:
    path.write_bytes(b'{"a":' * 20_000 + b"1" + b"}" * 20_000)


def append_bytes(path: Path, content: bytes, rng: random.Random) -> None:
    path.write_bytes(content + rng.randbytes(100))


def overlap_tensors(path: Path, content: bytes, rng: random.Random) -> None:
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
        entry = header[rng.choice([name for name in header if name != "__metadata__"])]
        entry["data_offsets"] = [number + rng.choice([-8, 8, 10**12]) for number in entry["data_offsets"]]
    except (ValueError, LookupError):
        return become_empty(path, content, rng)
    changed = json.dumps(header).encode()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + content[8 + length :])
    return None


def change_json(path: Path, content: bytes, rng: random.Random) -> None:
    """Junk in place of one value, or a key that asks for code."""
    if path.suffix != ".json":
        return flip_bytes(path, content, rng)
    plain = json.loads(content)
    if isinstance(plain, dict) and rng.random() < 0.3:
        plain |= rng.choice(
            [
                {"auto_map": {"AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}},
                {"evil": ["evil_library", "Evil"]},
                {"vocab_file": "/etc/passwd"},
                {"transformers_weights": "../../outside/x.safetensors"},
                {"quantization_config": {"quant_method": "bitsandbytes"}},
                {"_class_name": "EvilPipeline"},
            ]
        )
        (path.parent / "evil.py").write_text("open('CANARY', 'w')\nclass Evil: pass\n")
    else:
        place = plain
        while isinstance(place, dict) and place:
            key = rng.choice(sorted(place))
            if isinstance(place[key], dict) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            place[key] = rng.choice(JUNK)
            break
    path.write_text(json.dumps(plain))
    return None


DAMAGES = [
    truncate,
    flip_bytes,
    delete,
    become_folder,
    become_pipe,
    link_outside,
    link_to_itself,
    become_empty,
    become_pickle,
    huge_header,
    nested_json,
    append_bytes,
    overlap_tensors,
    change_json,
    change_json,
    change_json,
    change_json,
]


class Audit:
    """Watches what Python does while a model is loaded: opened files, started programs, unpickling, the network."""

    def __init__(self) -> None:
        self.offences: list[str] = []
        self._folder: Path | None = None
        sys.addaudithook(self._see)  # for the life of the process; idle unless watching

    def watching(self, folder: Path) -> "Audit":
        self.offences.clear()
        self._next = folder
        return self

    def __enter__(self) -> None:
        self._folder = self._next

    def __exit__(self, *_: object) -> None:
        self._folder = None

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        folder = self._folder
        if folder is None:
            return
        if event in (
            "pickle.find_class",
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "socket.connect",
        ):
            self.offences.append(f"{event} {args!r:.200}")
        elif event == "open" and isinstance(args[0], str | bytes):
            path = os.fsdecode(args[0])
            real = os.path.realpath(path)
            if "outside" in real or "evil" in real or "/etc/passwd" in real:
                self.offences.append(f"open {real}")
        elif event == "exec" and str(folder) in str(getattr(args[0], "co_filename", "")):
            self.offences.append(f"exec {args[0]!r:.200}")
        elif event == "import" and "evil" in str(args[0]):
            self.offences.append(f"import {args[0]}")


@pytest.fixture(scope="module")
def audit() -> Iterator[Audit]:
    yield Audit()
