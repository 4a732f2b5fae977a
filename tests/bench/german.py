"""What German lacks: texts of nodes and templates, words for names, sentences of some modules; and what it says amiss.

    python tests/bench/german.py

One line for each gap, and exit 1 where there is one. By hand, before a change of the page is closed: a new node needs
no German, and what has none is shown in English. That no key is stale is a test (`tests/ui/test_words.py`).
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # for `support`, as pytest has it

from latentloom.nodes.registry import SPECS  # noqa: E402
from support.checkout import ROOT  # noqa: E402
from support.sentences import raised_in, texts_of_nodes, texts_of_templates, words_of  # noqa: E402

MANY = 30  # more choices than that are names, such as those of pipeline classes
# By folder modules of which all that they refuse or tell is in German; of others the most frequent sentences are.
IN_GERMAN = {
    "nodes/execution": "preflight records schedule",
    "nodes/files": "atomic audio_files containers resize video_files workspace",
    "nodes/graph": "check problems ready scalars",
    "nodes/preview": "room walk",
    "nodes/steps": "coding denoising masks models pictures recordings text",
    "nodes/steps/small": "varying",
    "nodes/steps/whole": "model",
    "ui/access": "answers throttle",
    "ui/api": "page runs",
    "ui/downloads": "downloads records",
    "ui/library": "app_form apps drafts library workflow_files",
    "ui/runs": "book results runs workers",
    "ui/store": "paging quota uploads user_files",
    "ui/views": "devices newest",
    "ui/worker": "process",
    "pipelines": "settling shape",
    "pipelines/hub": "child fetching look",
    "pipelines/models": "describe source",
    "pipelines/forecast": "asked choice known forecast plans",
}


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
    for module in (f"{folder}/{name}.py" for folder, names in IN_GERMAN.items() for name in names.split()):
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
