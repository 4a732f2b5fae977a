"""The process that counts tokens, kept warm: asked with a deadline, started again where it was lost.

What it told is kept by the tokenizer's files and the text. It never has torch, so that a page's server need not either.

How each family's text encoders are given a prompt (which tokenizer, which words around it, cut where) stands here as
data. It says again what diffusers' blocks do in their code, so that a prompt can be counted without loading a model;
tests compare it with the ids that the encoders are given. What has no row here is not known, and said to be so.
"""

import contextlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...parallel.machine.talking import Talking
from ...parallel.progress import SILENT, alone
from ..models.component_files import inspect_component
from ..models.describe import card_of
from ..models.facts import unknown_words
from ..models.folder import component_in, kind_of, read_config, read_index
from ..values import Model

FIRST_S = 60.0  # for the first answer, before which libraries are imported: seconds on a busy disk
ANSWER_S = 15.0
CHECK_S = 0.1  # between questions whether anybody still wants to know
MOST_BYTES = 128 << 20  # of a tokenizer's files together; the largest that families have is 33 MB
LONGEST_PROMPT = 100_000  # characters; a longer text is not counted
MOST_KEPT = 4096
LONGEST_OWN = 1 << 20  # a tokenizer's own maximum beyond is none
# What is done to a prompt before: nothing, without spaces around it, or mended as Wan's blocks do.
Cleaning = Literal["none", "strip", "ftfy"]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One text encoder's way with a prompt."""

    tokenizer: str  # the component's name in model_index.json; an encoder whose tokenizer a model lacks reads nothing
    # Cut at the text length that Encode Text was given, or at the tokenizer's own maximum.
    length: Literal["text_length", "own"] = "text_length"
    more: int = 0  # tokens beyond that length which the template takes
    before: str = ""
    after: str = ""  # the template around the prompt, which is cut with it
    tail: str = ""  # what follows once the prompt is cut
    # With a value the prompt is one message of the tokenizer's own chat template, and this its `enable_thinking`.
    thinking: bool | None = None
    cleaning: Cleaning = "none"


_DESCRIBE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
)
_ANSWER = "<|im_end|>\n<|im_start|>assistant\n"
_NUM_DESCRIBE, _NUM_ANSWER = 34, 5  # tokens of these as the blocks have them in their code
_CLIP = Reader(tokenizer="tokenizer", length="own")
_FLUX = (_CLIP, Reader(tokenizer="tokenizer_2"))

# By the family's name.
READERS: Mapping[str, tuple[Reader, ...]] = {
    "flux": _FLUX,
    "flux_kontext": _FLUX,
    "sd3": (_CLIP, Reader(tokenizer="tokenizer_2", length="own"), Reader(tokenizer="tokenizer_3")),
    "qwen_image": (Reader(tokenizer="tokenizer", more=_NUM_DESCRIBE, before=_DESCRIBE, after=_ANSWER),),
    "krea_2": (Reader(tokenizer="tokenizer", more=_NUM_DESCRIBE - _NUM_ANSWER, before=_DESCRIBE, tail=_ANSWER),),
    "z_image": (Reader(tokenizer="tokenizer", thinking=True),),
    "flux_2": (Reader(tokenizer="tokenizer", thinking=False),),
    "wan": (Reader(tokenizer="tokenizer", cleaning="ftfy"),),
    "ltx": (Reader(tokenizer="tokenizer"),),
    "ltx_2": (Reader(tokenizer="tokenizer", cleaning="strip"),),
    "ernie_image": (Reader(tokenizer="tokenizer", length="own"),),
    "anima": (Reader(tokenizer="tokenizer"),),
}
# Pipelines of these families that read a prompt in another way: FLUX.2 dev has a system message.
OTHERS = ("Flux2Pipeline", "Flux2ModularPipeline")


@dataclass(frozen=True, kw_only=True)
class TokenCount:
    """What one text encoder makes of a prompt."""

    tokenizer: str
    """The component's name."""
    num_tokens: int
    """With special ones and the template, without padding."""
    limit: int
    """How many of them are read; 0 is all."""
    num_own: int
    """How many an empty prompt would be."""
    cut: str
    """The words that are not read, or not whole."""
    unknown: tuple[str, ...] = ()
    """The words that a toy model cannot know."""

    @property
    def room(self) -> float:
        """How many more would fit."""
        return self.limit - self.num_tokens if self.limit else float("inf")


class Counter:
    """Belongs to a server; asked from several threads, which wait for each other. `close` it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, TokenCount | None] = OrderedDict()
        self._process: _CountingProcess | None = None
        self._is_closed = False

    def counts(
        self, model: Model, text: str, *, text_length: int = 0, go_on: Callable[[], None] = SILENT.check
    ) -> tuple[TokenCount, ...]:
        """Of each encoder that reads the text, the one with the least room first; none where that is not known.

        `go_on` raises `Cancelled` where nobody wants to know any more.
        """
        try:
            orders = list(orders_of(model, text, text_length=text_length))
        except (ValueError, OSError):
            return ()
        found = [self._count(order, go_on) for order in orders]
        known = sorted((count for count in found if count is not None), key=lambda count: count.room)
        if len(known) != len(found):
            return ()
        unknown = unknown_words(model, text)
        return tuple(replace(count, unknown=unknown) for count in known)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._end()

    def _count(self, order: dict[str, Any], go_on: Callable[[], None]) -> TokenCount | None:
        key = json.dumps(order, sort_keys=True)
        with alone(self._lock, go_on):
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            self._known[key] = found = None if self._is_closed else self._ask(order, go_on)
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
            return found

    def _ask(self, order: dict[str, Any], go_on: Callable[[], None]) -> TokenCount | None:
        """A tokenizer that does not answer is known not to, and its process is gone."""
        try:
            if self._process is None or not self._process.is_alive():
                self._end()
                self._process = _CountingProcess()
            answer = self._process.ask(order, go_on)
        except OSError:  # it ended, or is late
            self._end()
            return None
        if "fault" in answer:
            return None
        told = {name: answer[name] for name in ("num_tokens", "limit", "num_own", "cut")}
        return TokenCount(tokenizer=order["tokenizer"], **told)

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process = None


class _CountingProcess(Talking):
    """One that counts."""

    def __init__(self) -> None:
        super().__init__(str(Path(__file__).with_name("worker.py")), name="tokens")
        self._num_asked = 0
        self._has_answered = False

    def ask(self, order: dict[str, Any], go_on: Callable[[], None]) -> dict[str, Any]:
        """Raises OSError where it is late or gone. An answer that nobody waited for is passed over by the next."""
        self._num_asked += 1
        self.tell({"id": self._num_asked, **order})
        end = time.monotonic() + (ANSWER_S if self._has_answered else FIRST_S)
        while time.monotonic() < end:
            go_on()
            with contextlib.suppress(TimeoutError):
                answer = self.hear(timeout_s=CHECK_S)
                self._has_answered = True
                if answer["id"] == self._num_asked:
                    return answer
        raise TimeoutError("it is late")


def orders_of(model: Model, text: str, *, text_length: int = 0) -> Iterator[dict[str, Any]]:
    """What the process is asked, for each encoder of the model. Raises `ValueError` where it cannot tell."""
    readers = _readers(model)
    if not readers or len(text) > LONGEST_PROMPT:
        raise ValueError(f"how {model.family or 'this model'} reads such a text is not known")
    length = text_length or card_of(model).text_length
    for reader, (library, class_name) in readers:
        if library != "transformers" or kind_of(class_name) != "tokenizer":
            raise ValueError(f"{class_name} of {library} is not asked")
        folder = inspect_component(
            Path(model.folder), reader.tokenizer, library=library, class_name=class_name, roots=None
        ).folder
        yield asdict(reader) | {
            "folder": str(folder),
            "class": class_name,
            "mark": _mark(folder),
            "text": text,
            "length": length if reader.length == "text_length" else 0,
        }


def longest_texts(model: Model) -> dict[str, int]:
    """How many tokens of a prompt are read at most, by tokenizer: 0 where all are; none where that is not known."""
    found = {}
    for reader, _ in _readers(model):
        own = read_config(Path(model.folder), reader.tokenizer).get("model_max_length")
        is_own = type(own) is int and 0 < own <= LONGEST_OWN
        length = card_of(model).text_length if reader.length == "text_length" else own if is_own else 0
        found[reader.tokenizer] = length + reader.more if length else 0
    return found


def _readers(model: Model) -> list[tuple[Reader, tuple[str, str]]]:
    """Those of the model, each with the library and class of its tokenizer; none where they are not known."""
    index = read_index(Path(model.folder))
    known = () if index["_class_name"] in OTHERS else READERS.get(model.family, ())
    return [(each, component) for each in known if (component := component_in(index, each.tokenizer)) is not None]


def _mark(folder: Path) -> str:
    """Another one once a file changes. Raises `ValueError` for more than a tokenizer has."""
    found = sorted((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    if sum(status.st_size for _, status in found) > MOST_BYTES:
        raise ValueError(f"{folder} holds more than {MOST_BYTES} bytes; is it a tokenizer?")
    return json.dumps([(name, status.st_size, status.st_mtime_ns, status.st_ino) for name, status in found])
