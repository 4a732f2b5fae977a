"""Files as strangers send them: JSON with one thing changed, bytes spoilt, model folders damaged; all from a seed."""

# ruff: noqa: E501 -- tables of values, many to a line

import json
import os
import random
import struct
from pathlib import Path
from typing import Any

PICKLE = b"\x80\x04cos\nsystem\n(S'touch CANARY'\ntR."
JUNK: list[Any] = [
    None, True, -1, 0, 1e308, 2**40, "", "x" * 5000, "../../../etc/passwd", [], {}, [[]], [None], {"a": 1},
]  # fmt: skip
STRANGE: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**64, 10**30, -1e308, 1.5, "", "a", "a.b", "n.int", "__import__('os')", "\u0000", "../../etc/passwd",
    "x" * 2000, [], {}, ["n", 0], {"from": "n.int"}, {"from": "n"}, {"from": 3}, {"param": "v"}, {"param": "zz"},
    {"value": {"from": "n.int"}}, {"__value__": [1]}, {"from": "n.int", "x": 1}, {"a": {"b": {"c": {}}}}, "Number", ">=1,<0", "\u202e",
]  # fmt: skip
BYTES = [b"", b"\xff", b'"', b"[" * 999, b"{", b"}", b"NaN", b"1e9999", b"\\ud800", b"\\", b"\x00", b',"nodes":{}']


def places(data: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in nested data."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in places(data[key])]


def mutate(data: Any, dice: random.Random) -> None:
    container, key = dice.choice(places(data))
    action = dice.randrange(5)
    if action == 0:
        container.pop(key)
    elif action == 1:
        container[key] = json.loads(json.dumps(dice.choice(STRANGE)))
    elif action == 2 and isinstance(container, dict):
        container[dice.choice(["zz", "from", "Bad Name", "a" * 99, key + "x"])] = container.pop(key)
    elif action == 3:
        source, other = dice.choice(places(data))
        container[key] = json.loads(json.dumps(source[other]))
    elif isinstance(container, dict):
        container[f"new{dice.randrange(9)}"] = json.loads(json.dumps(dice.choice(STRANGE)))


def damage_text(data: bytes, dice: random.Random) -> bytes:
    at, to = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    junk = dice.choice([*BYTES, data])
    flipped = bytes([b ^ (dice.random() < 0.01) for b in data])
    return dice.choice([data[:at] + junk + data[at:], data[:at] + junk + data[to:], data[:at], flipped])


def damage_model(folder: Path, rng: random.Random) -> str:
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
    *(truncate, flip_bytes, delete, become_folder, become_pipe, link_outside, link_to_itself, become_empty),
    *(become_pickle, huge_header, nested_json, append_bytes, overlap_tensors, *[change_json] * 4),
]
HUGE = (0, 1, 31, 2**16, 2**31, 2**32 - 1, 2**40, 2**61, 2**63, 2**64 - 1)


def damage_gguf(content: bytes, dice: random.Random) -> tuple[str, bytes]:
    """(what was done, the file): a count, length, type, dim or offset of the header is another, or bytes are lost."""
    held, header = bytearray(content), min(len(content), 400)
    place, number = dice.randrange(header - 8), dice.choice(HUGE)
    match dice.randrange(8):
        case 0:
            held[8:16] = struct.pack("<Q", number)
            return f"{number} tensors", bytes(held)
        case 1:
            held[16:24] = struct.pack("<Q", number)
            return f"{number} entries", bytes(held)
        case 2 | 3:
            held[place : place + 8] = struct.pack("<Q", number)
            return f"{number} at {place}", bytes(held)
        case 4:
            held[place : place + 4] = struct.pack("<I", dice.choice([9, 8, 4, 255, number & 0xFFFFFFFF]))
            return f"another type at {place}", bytes(held)
        case 5:
            return f"cut at {place}", content[: dice.choice([place, place, len(content) - 1 - place])]
        case 6:
            del held[place : place + dice.randrange(1, 9)]
            return f"bytes lost at {place}", bytes(held)
        case _:
            for _ in range(4):
                held[dice.randrange(header)] = dice.randrange(256)
            return "four other bytes", bytes(held)
