"""Uploads: sound pictures only, by their content, and for their own user's runs only."""

import io
import struct
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from latentloom.nodes.files.audio_files import write_audio
from latentloom.nodes.files.thumbnails import checked_picture
from latentloom.nodes.graph.problems import GraphError
from latentloom.ui.errors import NoRoom, NotHere
from latentloom.ui.store.quota import Quota
from latentloom.ui.store.uploads import Uploads
from support.toy_server import finished, graph, png, reset, runs_in

Add = Callable[..., dict[str, Any]]


@pytest.fixture
def shelf(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "data")


@pytest.fixture
def add(shelf: Uploads, tmp_path: Path) -> Add:
    """`add(name, data)` is what Ada's upload becomes."""

    def add(name: str, data: bytes) -> dict[str, Any]:
        file = tmp_path / "sent"
        file.write_bytes(data)
        return shelf.add("ada", name, file)

    return add


def test_nobody_waits_while_a_picture_of_another_is_looked_at(
    shelf: Uploads, add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, looking, go_on = add("a.png", png(6, 4)).path, threading.Event(), threading.Event()

    def slow(*arguments: Any, **named: Any) -> Any:
        looking.set()
        assert go_on.wait(60)
        return checked_picture(*arguments, **named)

    monkeypatch.setattr("latentloom.nodes.files.thumbnails.checked_picture", slow)
    (tmp_path / "bobs").write_bytes(png(6, 4))
    with ThreadPoolExecutor(2) as pool:
        bobs = pool.submit(shelf.add, "bob", "b.png", tmp_path / "bobs")
        assert looking.wait(60)
        try:
            pool.submit(shelf.delete, "ada", kept).result(20)
            assert pool.submit(shelf.list, "ada").result(20) == []
        finally:
            go_on.set()
        assert bobs.result(60).width == 6


def bomb(side: int) -> bytes:
    """A PNG that says it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def kept(tmp_path: Path) -> list[str]:
    return [path.name for path in tmp_path.glob("data/users/*/inputs/*")]


@pytest.mark.parametrize(
    ("name", "format", "ending"),
    [
        ("cat.png", "PNG", "-cat.png"),
        ("../../etc/pass wd.html", "PNG", "-pass_wd.png"),
        ("ünï.exe", "JPEG", "-n.jpg"),
        ("", "WEBP", "-the_picture.webp"),
        ("..", "BMP", "-picture.bmp"),
        ("x" * 500, "PNG", f"-{'x' * 60}.png"),
    ],
)
def test_a_picture_is_kept_under_a_harmless_name(add: Add, tmp_path: Path, name: str, format: str, ending: str) -> None:
    made = add(name, png(6, 4, format=format))
    assert made.path[16:] == ending and (made.width, made.height) == (6, 4)
    assert kept(tmp_path) == [made.path]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a picture"),
        (b"<svg onload=alert(1)>", "not a picture"),
        (b"GIF89a" + b"\0" * 50, "not a picture"),
        (png(6, 4)[:-30], "cut short"),
        (png(640, 640, format="JPEG")[:-200], "cut short"),
        (bomb(60_000), "far too many pixels, and at most 64,000,000 are taken"),
        (bomb(12_000), "12000 x 12000 pixels, and at most 64,000,000 are taken"),
        (bomb(100), "cut short"),
    ],
)
def test_what_is_no_sound_picture_is_refused_by_its_name_and_not_kept(
    add: Add, tmp_path: Path, data: bytes, words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        add("cat.png", data)
    assert str(caught.value).startswith("cat.png ") and str(tmp_path) not in str(caught.value)
    assert kept(tmp_path) == []


def bell(path: Path, samples: int = 4000) -> bytes:
    """A WAV file."""
    write_audio(torch.rand(1, samples), path / "bell.wav", rate=8000, metadata={})
    return (path / "bell.wav").read_bytes()


def test_a_sound_is_kept_with_its_outline_and_found_by_its_kind(add: Add, shelf: Uploads, tmp_path: Path) -> None:
    data = bell(tmp_path)
    made, picture = add("../a bell.WAV", data), add("cat.png", png(6, 4))
    assert made.path[16:] == "-a_bell.wav" and (made.kind, made.length_s, made.width) == ("audio", 0.5, 0)
    assert [row.path for row in shelf.list("ada", kind="audio")] == [made.path]
    assert [row.path for row in shelf.list("ada", kind="image")] == [picture.path]
    assert len(shelf.list("ada")) == 2
    assert Image.open(io.BytesIO(shelf.thumbnail("ada", made.path))).size == (384, 192)
    for name, wrong in (("bell.flac", data), ("bell.wav", png(6, 4)), ("bell.mp3", b"no sound")):
        with pytest.raises(ValueError, match=rf"^{name} is not a sound that can be read"):
            add(name, wrong)


def test_an_uploaded_sound_is_read_in_ranges_by_its_owner(client: Any, tmp_path: Path) -> None:
    data = bell(tmp_path)
    path = client.post("/loom/uploads", content=data, headers={"X-Name": "bell.wav"}).json()["path"]
    whole = client.get(f"/loom/uploads/{path}")
    assert (whole.content, whole.headers["content-type"]) == (data, "audio/wav")
    part = client.get(f"/loom/uploads/{path}", headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, data[4:8])
    thumb = client.get(f"/loom/uploads/{path}/thumb")
    assert Image.open(io.BytesIO(thumb.content)).size == (384, 192)
    assert client.get("/loom/uploads?kind=image").json() == []
    assert client.get("/loom/uploads?kind=song").status_code == 400
    assert client.get(f"/loom/uploads/{path.replace('bell', 'ball')}").status_code == 404


def test_a_disk_that_takes_no_upload_is_told_without_its_path(client: Any, server: Any, tmp_path: Path) -> None:
    server.scratch.rmdir()
    for path in ("open", "uploads"):
        answer = client.post(f"/loom/{path}", content=png(6, 4))
        assert answer.status_code == 400
        assert "disk does not take the file (no such file" in answer.json()["error"]
        assert str(tmp_path) not in answer.text


def test_the_thumbnail_is_a_webp_of_own_uploads_only(shelf: Uploads, add: Add) -> None:
    path = add("cat.png", png(6, 4)).path
    assert Image.open(io.BytesIO(shelf.thumbnail("ada", path))).format == "WEBP"
    for user, wrong in (("bob", path), ("ada", "../../../etc/passwd"), ("ada", ""), ("ada", f"{path}/")):
        with pytest.raises(NotHere, match="no upload "):
            shelf.thumbnail(user, wrong)


def test_a_full_shelf_of_pictures_has_room_again_once_one_is_deleted(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(png(60, 40))
    shelf = Uploads(tmp_path / "data", quota=Quota(tmp_path / "data", user_bytes=sent.stat().st_size * 2))
    first, second = (shelf.add("ada", name, sent).path for name in ("cat.png", "dog.png"))
    with pytest.raises(NoRoom, match=r"takes .* MiB of .* are uploaded pictures and sounds; delete some of these"):
        shelf.add("ada", "bird.png", sent)
    assert {row.path for row in shelf.list("ada")} == {first, second}
    shelf.delete("ada", first)
    shelf.add("ada", "bird.png", sent)
    with pytest.raises(NotHere, match="no upload "):
        shelf.delete("bob", second)


def test_load_image_finds_the_users_own_upload_and_nobody_elses(add: Add, tmp_path: Path) -> None:
    reset()
    path = add("cat.png", png(6, 4)).path
    [inputs] = tmp_path.glob("data/users/*/inputs")
    with runs_in(tmp_path) as runs:

        def loading(asked: str) -> Any:
            return graph({"load": ("LoomLoadImage", {"path": asked})}, outputs={"cat": "load.image"})

        assert finished(runs, "ada", runs.submit("ada", loading(path)).runs[0]).state == "done"
        for asked, words in ((path, "is not on this server"), (f"{inputs}/{path}", "outside the allowed folders; ")):
            with pytest.raises(GraphError, match=words):
                runs.submit("bob", loading(asked))


def test_a_large_sound_picture_keeps_to_the_limit_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(png(6, 4))
    uploads = Uploads(tmp_path / "data", max_pixels=20)
    with pytest.raises(ValueError, match="6 x 4 pixels, and at most 20 are taken"):
        uploads.add("ann", "cat.png", tmp_path / "file")
