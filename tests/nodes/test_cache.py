"""Both caches: what they keep, for how long, and what they do about damage."""

import json
import os
import time
from pathlib import Path

import pytest
import torch

from latentloom.nodes.execution.cache import ENTRY_BYTES, DiskCache, MemoryCache
from latentloom.nodes.graph.spec import Saved
from latentloom.parallel.machine.deadline import within
from latentloom.parallel.machine.folders import write_object
from latentloom.pipelines.values import Conditioning, Image, Latents, Lora, Model, Sampling

KB = 1024


def image(num_bytes: int = 12 * KB) -> Image:
    return Image(pixels=torch.rand(1, 1, num_bytes // 12, 3))


def test_shared_storage_counts_once_and_until_its_last_holder_goes() -> None:
    cache = MemoryCache(10**6)
    first = image()
    cache.put("a", first)
    cache.put("b", Image(pixels=first.pixels[:, :, :10]))
    assert cache.recent.used_bytes == 12 * KB + 2 * ENTRY_BYTES
    cache.recent.drop("a")
    assert cache.recent.used_bytes == 12 * KB + ENTRY_BYTES
    cache.recent.drop("b")
    assert cache.recent.used_bytes == 0 and len(cache.recent) == 0


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_saved_counts_only_while_its_files_are_unchanged(kind: str, tmp_path: Path) -> None:
    cache = MemoryCache(10**6) if kind == "memory" else DiskCache(tmp_path / "cache", 10**6)
    file = tmp_path / "picture.bin"
    for change in (lambda: file.write_bytes(b"other"), file.unlink):
        file.write_bytes(b"made")
        cache.put("k", Saved(files=(str(file),)))
        assert cache.get("k") == Saved(files=(str(file),))
        change()
        assert cache.get("k") is None


VALUES = [
    3,
    2.5,
    True,
    "text",
    Model(source="a", folder="/a", family="f", loras=(Lora(path="p", sha256="s", adapter="x"),)),
    Sampling(sigmas=(1.0, 0.5)),
    Saved(files=()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_disk_gives_back_the_same_plain_value(value: object, tmp_path: Path) -> None:
    DiskCache(tmp_path, 10**6).put("k", value)
    assert DiskCache(tmp_path, 10**6).get("k") == value


def test_disk_gives_back_the_same_tensors(tmp_path: Path) -> None:
    shared = torch.rand(4, 4)
    conditioning = Conditioning(
        family="f", prompt="p", negative_prompt="", positive={"a": shared, "b": shared.T}, negative=None
    )
    latents = Latents(family="f", width=8, height=8, seeds=(1, 2), tensor=torch.rand(2, 3).bfloat16())
    cache = DiskCache(tmp_path, 10**6)
    cache.put("c", conditioning)
    cache.put("l", latents)
    again, again_latents = cache.get("c"), cache.get("l")
    assert again is not None and again_latents is not None
    assert torch.equal(again.positive["a"], shared) and torch.equal(again.positive["b"], shared.T)
    assert again.negative is None and again_latents.seeds == (1, 2)
    assert again_latents.tensor.dtype == torch.bfloat16 and torch.equal(again_latents.tensor, latents.tensor)


def test_disk_salt_keeps_versions_apart(tmp_path: Path) -> None:
    DiskCache(tmp_path, 10**6, salt="torch 1").put("k", 3)
    assert DiskCache(tmp_path, 10**6, salt="torch 2").get("k") is None


def test_disk_drops_the_least_recently_used(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 40 * KB)
    (tmp_path / "machines").mkdir()  # what is kept beside results is not theirs to drop
    os.utime(tmp_path / "machines", (0, 0))
    for age, key in enumerate("abc"):
        cache.put(key, image())
        os.utime(cache._entry(key), (age + 1, age + 1))
    assert cache.get("a") is not None
    cache.put("d", image())
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    cache.put("big", image(120 * KB))
    assert cache.get("big") is None and cache.get("d") is not None
    assert (tmp_path / "machines").is_dir()


@pytest.mark.parametrize("name", ["manifest.json", "tensors.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "gone", "nonsense"])
def test_damaged_entry_is_dropped_silently(name: str, damage: str, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10**6)
    cache.put("k", image())
    file = cache._entry("k") / name
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        file.write_bytes({"cut": data[: len(data) // 2], "flip": flipped, "empty": b"", "nonsense": b"[[1]]"}[damage])
    assert cache.get("k") is None
    assert list(tmp_path.iterdir()) == []
    cache.put("k", image())
    assert cache.get("k") is not None


def test_a_pipe_in_place_of_a_manifest_is_not_waited_for(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10**6)
    cache.put("k", image())
    (cache._entry("k") / "manifest.json").unlink()
    os.mkfifo(cache._entry("k") / "manifest.json")
    assert within(lambda: cache.get("k"), timeout_s=10) is None
    cache.put("k", image())
    assert cache.get("k") is not None


def test_what_is_kept_is_for_this_account_alone(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "a" / "b", 10**6)
    cache.put("k", image())
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*") if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*.*") if path.is_file()} == {0o600}
    write_object(tmp_path / "c" / "machines" / "one.json", {"a": 1})
    kept = [tmp_path / "c", tmp_path / "c" / "machines", tmp_path / "c" / "machines" / "one.json"]
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o700, 0o700, 0o600]


def test_manifest_is_json_and_no_file_is_a_pickle(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10**6)
    cache.put("k", image())
    assert {p.name for p in cache._entry("k").iterdir()} == {"manifest.json", "tensors.safetensors"}
    assert json.loads((cache._entry("k") / "manifest.json").read_text())["body"]["type"] == "Image"


def test_leftovers_of_a_dead_process_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".tmp-old").mkdir()
    (tmp_path / ".tmp-new").mkdir()
    old = time.time() - 7200
    os.utime(tmp_path / ".tmp-old", (old, old))
    DiskCache(tmp_path, 10**6)
    assert [p.name for p in tmp_path.iterdir()] == [".tmp-new"]
