"""Files that the page's server sends, by id, and what is said of those that are gone."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient

from latentloom.ui.access.answers import send


def test_a_picture_that_is_deleted_as_it_is_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"png")
    app = FastAPI()

    @app.get("/")
    def picture() -> Response:
        return send(path, name="picture.png")

    client = TestClient(app)
    assert client.get("/").content == b"png"
    opened = anyio.open_file

    def gone(*given: Any, **options: Any) -> Any:
        path.unlink()
        return opened(*given, **options)

    monkeypatch.setattr(anyio, "open_file", gone)
    answer = client.get("/")
    assert answer.status_code == 404 and "'picture.png' is not on the server's disk any more" in answer.text
