"""A header of a safetensors file has one meaning, and no more in it than tensors need."""

import json
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.recent import Recent
from latentloom.pipelines.models import regular_file, tensor_file
from latentloom.pipelines.models.tensor_file import read_tensor_file


def write_header(path: Path, header: bytes, *, data: int = 0) -> Path:
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(data))
    return path


@pytest.mark.parametrize(
    ("entry", "data", "words"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, 7, "damaged"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, 9, "damaged"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, 8, "not its shape's"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}, 8, "not its shape's"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, 8, "impossible shape"),
        ({"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}, 8, "impossible shape"),
        ({"dtype": "Q4", "shape": [2], "data_offsets": [0, 8]}, 8, "wrongly"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}, 16, "overlap or leave gaps"),
        ({"dtype": "F32", "shape": [], "data_offsets": [4, 0]}, 8, "not its shape's"),
        ({"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}, 1, "not its shape's"),
        ({"dtype": "U8", "shape": [-1], "data_offsets": [1, 0]}, 1, "impossible shape"),
        ({"dtype": "U8", "shape": [0], "data_offsets": [-1, -1]}, 1, "overlap or leave gaps"),
        ({"dtype": "U8", "shape": [1], "data_offsets": [0, 1.0]}, 1, "wrongly"),
        ({"dtype": "U8", "shape": [1], "data_offsets": [False, True]}, 1, "wrongly"),
        ([1], 8, "wrongly"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, entry: Any, data: int, words: str) -> None:
    path = write_header(tmp_path / "x", json.dumps({"w": entry}).encode(), data=data)
    with pytest.raises(ValueError, match=words):
        read_tensor_file(path)


def test_a_header_tells_where_its_tensors_lie(tmp_path: Path) -> None:
    header = b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    found = read_tensor_file(write_header(tmp_path / "x", header, data=8)).tensors["w"]
    assert (found.numel, found.start) == (2, 8 + len(header))


def empty_tensors(count: int) -> bytes:
    entry = b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return b'{"__metadata__":{"a":"{{{"},' + b",".join(entry % number for number in range(count)) + b"}"


def test_a_header_may_describe_100_000_tensors_counted_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(read_tensor_file(write_header(tmp_path / "most", empty_tensors(100_000))).tensors) == 100_000
    monkeypatch.setattr(tensor_file, "parse_object", None)
    with pytest.raises(ValueError, match=r"more describes more than 100,000 tensors, the most .*; copy it again"):
        read_tensor_file(write_header(tmp_path / "more", empty_tensors(100_001)))


@pytest.mark.parametrize("filler", [b'"",', b'"\\\\",', b'"\\"\\"",', b"[],", b"{},", b"0,", b'"\\u007b":{},'])
def test_a_header_full_of_small_things_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filler: bytes
) -> None:
    monkeypatch.setattr(tensor_file, "parse_object", None)
    path = write_header(tmp_path / "x", b'{"a":[' + filler * 2_000_000 + b"0]}")
    with pytest.raises(ValueError, match=r"more than 100,000 tensors"):
        read_tensor_file(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{}}', "the key 'w' is there twice"),
        (b'{"w":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "nests more than 32 levels"),
        (
            b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
            "overlap or leave gaps",
        ),
    ],
)
def test_a_header_of_one_meaning_only(tmp_path: Path, header: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_tensor_file(write_header(tmp_path / "x", header, data=1))


def test_a_header_is_parsed_once_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_header(tmp_path / "x", empty_tensors(2))
    monkeypatch.setattr(regular_file, "SETTLED_NS", 2**62)  # just written: it may be written again in the same tick
    assert read_tensor_file(path) is not read_tensor_file(path)
    monkeypatch.setattr(regular_file, "SETTLED_NS", -(2**62))
    first = read_tensor_file(path)
    assert read_tensor_file(path) is first
    write_header(tmp_path / "y", empty_tensors(3)).replace(path)
    assert len(read_tensor_file(path).tensors) == 3


@pytest.mark.parametrize("text", ["x" * 200, "\N{GRINNING FACE}" + "x" * 50])
def test_headers_are_kept_by_the_memory_that_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(regular_file, "SETTLED_NS", -(2**62))
    header = json.dumps({"__metadata__": {"a": text}, "w": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})
    paths = [write_header(tmp_path / str(number), header.encode()) for number in range(3)]
    cost = read_tensor_file(paths[0]).kept_bytes
    assert cost > 2 * len(text.encode())
    monkeypatch.setattr(tensor_file, "READ", Recent(2 * cost))
    first, second, third = [read_tensor_file(path) for path in paths]
    assert read_tensor_file(paths[2]) is third and read_tensor_file(paths[1]) is second
    assert read_tensor_file(paths[0]) is not first
    monkeypatch.setattr(tensor_file, "READ", Recent(cost - 1))
    assert read_tensor_file(write_header(tmp_path / "3", header.encode())) is not read_tensor_file(tmp_path / "3")
