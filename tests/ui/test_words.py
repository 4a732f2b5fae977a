"""The page's words for what the server says, in English and German: nothing is missing, and nothing is stale."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

import latentloom
from latentloom.nodes.headless.workflow_files import shipped_files
from latentloom.nodes.registry import SPECS

from ..support.sentences import raised_in, sentences_in

ROOT = Path(latentloom.__file__).parent
TEXTS = ROOT / "ui" / "web" / "src" / "texts"
MANY = 30
"""More choices than that are names, such as those of pipeline classes."""
IN_GERMAN = (
    "nodes/execution/failure.py",
    "nodes/execution/preflight.py",
    "nodes/execution/schedule.py",
    "nodes/files/atomic.py",
    "nodes/files/audio_files.py",
    "nodes/files/containers.py",
    "nodes/files/named_file.py",
    "nodes/files/resize.py",
    "nodes/files/video_files.py",
    "nodes/files/workspace.py",
    "nodes/graph/check.py",
    "nodes/graph/choosing.py",
    "nodes/graph/json_text.py",
    "nodes/graph/problems.py",
    "nodes/graph/scalars.py",
    "nodes/preview/disk.py",
    "nodes/preview/walk.py",
    "nodes/steps/decoding.py",
    "nodes/steps/denoising.py",
    "nodes/steps/masks.py",
    "nodes/steps/models.py",
    "nodes/steps/pictures.py",
    "nodes/steps/planning.py",
    "nodes/steps/small/varying.py",
    "nodes/steps/text.py",
    "nodes/steps/videos.py",
    "nodes/steps/whole/model.py",
    "ui/access/answers.py",
    "ui/access/intake.py",
    "ui/access/throttle.py",
    "ui/api/page.py",
    "ui/api/runs.py",
    "ui/downloads/downloads.py",
    "ui/downloads/looks.py",
    "ui/library/app_form.py",
    "ui/library/apps.py",
    "ui/library/drafts.py",
    "ui/library/library.py",
    "ui/library/workflow_files.py",
    "ui/runs/book.py",
    "ui/runs/results.py",
    "ui/runs/runs.py",
    "ui/runs/workers.py",
    "ui/store/files.py",
    "ui/store/paging.py",
    "ui/store/quota.py",
    "ui/store/uploads.py",
    "ui/store/user_files.py",
    "ui/views/devices.py",
    "ui/views/newest.py",
    "ui/worker/process.py",
    "pipelines/denoise_checks.py",
    "pipelines/hub/child.py",
    "pipelines/hub/fetching.py",
    "pipelines/hub/listing.py",
    "pipelines/hub/look.py",
    "pipelines/models/checks.py",
    "pipelines/models/describe.py",
    "pipelines/models/facts.py",
    "pipelines/models/source.py",
    "pipelines/planning/asked.py",
    "pipelines/planning/compiling.py",
    "pipelines/planning/known.py",
    "pipelines/planning/planned.py",
    "pipelines/planning/plans.py",
    "pipelines/shape.py",
)
"""Modules of which all that they refuse or tell is in German; of the others the most frequent sentences are."""


@cache
def _table(kind: Literal["sentences", "specs"], language: str) -> dict[str, str]:
    return json.loads((TEXTS / kind / f"{language}.json").read_text(encoding="utf-8"))


@cache
def _of_nodes() -> frozenset[str]:
    sockets = [socket for spec in SPECS.values() for socket in (*spec.inputs, *spec.outputs)]
    nodes = (text for spec in SPECS.values() for text in (spec.title, spec.help))
    return frozenset(filter(None, (*nodes, *(socket.help for socket in sockets))))


@cache
def _of_templates() -> frozenset[str]:
    graphs = [json.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob("workflows/**/*.json")]
    helps = (param.get("help", "") for graph in graphs for param in graph.get("params", {}).values())
    names = (path.stem.replace("_", " ").capitalize() for path in shipped_files())
    return frozenset(filter(None, (*names, *(graph["description"] for graph in graphs), *helps)))


def test_german_has_every_text_of_nodes_and_templates() -> None:
    assert (_of_nodes() | _of_templates()) - _table("sentences", "de").keys() == set()


def test_german_has_a_word_for_every_name_in_the_specs() -> None:
    sockets = [socket for spec in SPECS.values() for socket in (*spec.inputs, *spec.outputs)]
    choices = {each for spec in SPECS.values() for s in spec.inputs if len(s.choices) <= MANY for each in s.choices}
    needed = {
        *(f"socket.{socket.name}" for socket in sockets),
        *(f"type.{socket.type}" for socket in sockets),
        *(f"category.{spec.category}" for spec in SPECS.values()),
        *(f"choice.{choice}" for choice in choices),
    }
    assert needed - _table("specs", "de").keys() == set()


@cache
def _of_modules() -> frozenset[str]:
    modules = [path for folder in ("nodes", "pipelines", "parallel", "ui") for path in ROOT.glob(f"{folder}/**/*.py")]
    return frozenset(text for path in modules for text in sentences_in(path))


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_sentence_that_has_words_is_still_said_with_its_values(language: str) -> None:
    table = _table("sentences", language)
    assert table.keys() - (_of_nodes() | _of_templates() | _of_modules()) == set()
    beyond = {
        s: w for s, w in table.items() if {int(n) for n in re.findall(r"\{(\d+)\}", w)} - set(range(s.count("{}")))
    }
    assert beyond == {}


def test_all_that_these_modules_refuse_is_in_german() -> None:
    told = {text for module in IN_GERMAN for text in raised_in(ROOT / module)}
    assert told - _table("sentences", "de").keys() == set()


@cache
def _german() -> dict[str, str]:
    """All that the page says in German, by its key or its English sentence."""
    areas = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((TEXTS / "de").glob("*.json"))]
    return {key: text for table in (*areas, _table("sentences", "de")) for key, text in table.items()}


def test_german_says_du_and_calls_nodes_by_their_german_titles() -> None:
    formal = re.compile(r"(?<=[\w,;] )(Sie|Ihnen|Ihr(e[mnrs]?)?)\b")
    assert [text for text in _german().values() if formal.search(text)] == []
    english = {spec.title for spec in SPECS.values() if _german()[spec.title] != spec.title and " " in spec.title}
    named = re.compile(rf"\b({'|'.join(map(re.escape, english))})\b")
    assert [text for text in _german().values() if named.search(text)] == []


def test_the_page_names_no_option_of_the_command_line() -> None:
    for language in ("en", "de"):
        assert [
            words for words in _table("sentences", language).values() if re.search(r"(^|\s)--[a-z]|pip install", words)
        ] == []
