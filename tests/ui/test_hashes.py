"""The sha256 of the weights behind a result: read in the background, once, and given up when asked."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from latentloom.nodes.execution.models_used import ModelFacts, model_facts
from latentloom.pipelines.models.describe import describe_model
from latentloom.ui.errors import NotHere
from latentloom.ui.runs import hashes as hashing
from latentloom.ui.runs.hashes import Hashes
from support.toy_server import settings_in, until


@pytest.fixture
def facts() -> ModelFacts:
    return model_facts(describe_model("builtin:bobbin", device="cpu"))


@pytest.fixture
def hashes(tmp_path: Path, facts: ModelFacts) -> Iterator[Hashes]:
    (tmp_path / "data").mkdir()
    with closing(opened(tmp_path, facts)) as hashes:
        yield hashes


def opened(folder: Path, facts: ModelFacts) -> Hashes:
    def get(user: str, id: str) -> Any:
        if user != "ada":
            raise NotHere("there is no run")
        return SimpleNamespace(models={"load_model": facts})

    return Hashes(settings_in(folder), SimpleNamespace(get=get))  # type: ignore[arg-type]


def test_every_file_is_read_once_and_told(
    hashes: Hashes, facts: ModelFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(describe_model("builtin:bobbin", device="cpu").folder)
    assert facts.files and all((folder / file.name).stat().st_size == file.num_bytes for file in facts.files)
    id = hashes.ask("ada", "run", "load_model").id
    until(lambda: hashes.get("ada", id).state == "done")
    told = hashes.get("ada", id)
    assert told.done_bytes == told.total_bytes == sum(file.num_bytes for file in facts.files)
    right = {file.name: hashlib.sha256((folder / file.name).read_bytes()).hexdigest() for file in facts.files}
    assert {file.name: file.sha256 for file in told.files} == right
    monkeypatch.setattr(hashing, "open_regular", None)  # from here on no file is opened
    with closing(opened(tmp_path, facts)) as again:
        id = again.ask("ada", "run", "load_model").id
        until(lambda: again.get("ada", id).state == "done")
        assert again.get("ada", id).files == told.files


def test_it_is_given_up_when_asked(hashes: Hashes, monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()
    real = hashing.open_regular

    def slow(path: Path) -> Any:
        has_begun.set()
        may_go_on.wait(10)
        return real(path)

    monkeypatch.setattr(hashing, "open_regular", slow)
    job = hashes.ask("ada", "run", "load_model")
    assert has_begun.wait(10)
    assert hashes.ask("ada", "run", "load_model").id == job.id
    hashes.cancel("ada", job.id)
    may_go_on.set()
    until(lambda: hashes.get("ada", job.id).state == "cancelled")
    for ask in (hashes.get, hashes.cancel):
        with pytest.raises(NotHere):
            ask("bob", job.id)
    with pytest.raises(NotHere, match="nothing is kept of a model of denoise"):
        hashes.ask("ada", "run", "denoise")


def test_files_that_are_others_by_now_are_refused(tmp_path: Path, facts: ModelFacts) -> None:
    import dataclasses

    other = dataclasses.replace(facts.files[0], header_sha256="0" * 64)
    (tmp_path / "data").mkdir()
    with (
        closing(opened(tmp_path, dataclasses.replace(facts, files=(other,)))) as hashes,
        pytest.raises(ValueError, match="are not those of this run any more"),
    ):
        hashes.ask("ada", "run", "load_model")
