"""What German lacks: texts of nodes and templates, words for names, sentences of some modules; and what it says amiss.

    python tests/bench/german.py

One line for each gap, and exit 1 where there is one. By hand, before a change of the page is closed: a new node needs
no German, and what has none is shown in English. That no key is stale is a test (`tests/ui/test_words.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # for `support`, as pytest has it

from latentloom.nodes.registry import SPECS  # noqa: E402
from support.checkout import ROOT  # noqa: E402
from support.sentences import raised_in, texts_of_nodes, texts_of_templates, words_of  # noqa: E402

MANY = 30
"""More choices than that are names, such as those of pipeline classes."""
IN_GERMAN = (
    "nodes/execution/failure.py",
    "nodes/execution/preflight.py",
    "nodes/execution/schedule.py",
    "nodes/files/atomic.py",
    "nodes/files/audio_files.py",
    "nodes/files/containers.py",
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
    "pipelines/settling.py",
    "pipelines/hub/child.py",
    "pipelines/hub/fetching.py",
    "pipelines/hub/listing.py",
    "pipelines/hub/look.py",
    "pipelines/models/checks.py",
    "pipelines/models/describe.py",
    "pipelines/models/source.py",
    "pipelines/forecast/asked.py",
    "pipelines/forecast/choice.py",
    "pipelines/forecast/known.py",
    "pipelines/forecast/forecast.py",
    "pipelines/forecast/plans.py",
    "pipelines/shape.py",
)
"""Modules of which all that they refuse or tell is in German; of the others the most frequent sentences are."""


def names() -> set[str]:
    """The keys of the words for all that the specs name."""
    sockets = [socket for spec in SPECS.values() for socket in (*spec.inputs, *spec.outputs)]
    choices = {each for spec in SPECS.values() for s in spec.inputs if len(s.choices) <= MANY for each in s.choices}
    return {
        *(f"socket.{socket.name}" for socket in sockets),
        *(f"type.{socket.type}" for socket in sockets),
        *(f"category.{spec.category}" for spec in SPECS.values()),
        *(f"choice.{choice}" for choice in choices),
    }


def gaps() -> Iterator[str]:
    sentences, page = words_of("sentences", "de"), words_of("de")
    yield from (
        f"no German: {text}" for text in sorted(texts_of_nodes() | texts_of_templates()) if text not in sentences
    )
    yield from (f"no word: {name}" for name in sorted(names() - words_of("specs", "de").keys()))
    yield from (f"no German: {key}" for key in sorted(words_of("en").keys() - page.keys()))
    for module in IN_GERMAN:
        yield from (f"no German: {module}: {text}" for text in sorted(raised_in(ROOT / module) - sentences.keys()))
    german = [*page.values(), *sentences.values()]
    formal = re.compile(r"(?<=[\w,;] )(Sie|Ihnen|Ihr(e[mnrs]?)?)\b")
    yield from (f"no du: {text}" for text in german if formal.search(text))
    titles = {spec.title for spec in SPECS.values() if " " in spec.title}
    english = [title for title in titles if sentences.get(title, title) != title]
    named = re.compile(rf"\b({'|'.join(map(re.escape, english))})\b")
    yield from (f"a node by its English title: {text}" for text in german if named.search(text))


if __name__ == "__main__":
    found = list(gaps())
    print("\n".join(found) or "nothing is lacking in German")
    sys.exit(bool(found))
