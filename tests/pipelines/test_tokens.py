"""How many tokens of a prompt are told to be read is how many the text encoders are given."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from latentloom.pipelines import stages
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.tokens import counter as counter_module
from latentloom.pipelines.tokens.counter import READERS, Counter, orders_of
from latentloom.pipelines.tokens.worker import CLEANERS, _framed, _tokenizer_asked, _tokens_of, count
from latentloom.pipelines.values import Model, to_plain

WORDS = "a red circle above a blue square, a small green star "
FAMILIES = ["bobbin", "flux", "sd3", "qwen_image", "krea_2", "z_image", "flux_2_klein", "wan", "ltx_2", "ernie_image"]
FAMILIES += ["anima"]


@pytest.fixture(scope="module")
def counter() -> Iterator[Counter]:
    made = Counter()
    yield made
    made.close()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """Each text encoder that was asked, and with what."""
    found: list[tuple[Any, dict[str, Any]]] = []
    call, inside = PreTrainedModel.__call__, []

    def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not inside:
            found.append((self, {"input_ids": args[0] if args else None, "attention_mask": None, **kwargs}))
        inside.append(self)
        try:
            return call(self, *args, **kwargs)
        finally:
            inside.pop()

    monkeypatch.setattr(PreTrainedModel, "__call__", spy, raising=False)
    return found


@pytest.mark.parametrize(
    ("family", "times"),
    [
        pytest.param(family, times, marks=() if number % 2 == (times == 12) else pytest.mark.by_hand)
        for number, family in enumerate(FAMILIES)
        for times in (1, 12)
    ],
)
def test_the_tokens_told_are_those_that_the_text_encoders_are_given(
    family: str, times: int, tiny: Callable[[str], Path], given: list[Any], counter: Counter
) -> None:
    source = "builtin:bobbin" if family == "bobbin" else str(tiny(family))
    model = describe_model(source, device="cpu")
    prompt = f" {WORDS * times}of {family}"
    length = 0 if family in ("bobbin", "qwen_image", "ernie_image") else 64
    stages.encode_text({"model": to_plain(model), "prompt": prompt, "text_length": length})
    orders = list(orders_of(model, prompt, text_length=length))
    told = {count.tokenizer: count for count in counter.counts(model, prompt, text_length=length)}
    assert len(told) == len(orders) == len(READERS[model.family])
    for order in orders:
        ids, count = _fed(order), told[order["tokenizer"]]
        assert len(ids) == min(count.num_tokens, count.limit or count.num_tokens)
        assert bool(count.cut) == (count.num_tokens > len(ids))
        assert any(_are_read(ids, asked) for _, asked in given), (order["tokenizer"], ids, given)
    assert [count.room for count in told.values()] == sorted(count.room for count in told.values())


def _are_read(ids: list[int], asked: dict[str, Any]) -> bool:
    """Whether an encoder was given these and padding, before, after or in between."""
    read, mask = asked["input_ids"][0].tolist(), asked["attention_mask"]
    if mask is not None:
        return [token for token, is_read in zip(read, mask[0].tolist(), strict=True) if is_read] == ids
    padding = read[len(ids) :]
    return read[: len(ids)] == ids and len(set(padding)) <= 1


def test_what_is_cut_begins_at_the_first_word_that_is_not_read_whole(counter: Counter) -> None:
    model = describe_model("builtin:bobbin", device="cpu")
    words = ["red"] * 75 + ["extraordinarily", "late"]
    clip = next(each for each in counter.counts(model, " ".join(words)) if each.tokenizer == "tokenizer")
    assert (clip.limit, clip.num_own) == (77, 2)
    assert clip.num_tokens > 77
    assert clip.cut == count(next(orders_of(model, " ".join(words))))["cut"] == "extraordinarily late"


def test_a_family_or_a_tokenizer_that_nobody_described_is_not_known(
    counter: Counter, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    model = describe_model(str(tiny("qwen_image_edit")), device="cpu")
    assert counter.counts(model, "a red circle") == ()
    assert counter.counts(describe_model("builtin:bobbin", device="cpu"), "a" * 200_000) == ()
    model = _copy(tiny("flux"), tmp_path)
    index = tmp_path / "model" / "model_index.json"
    index.write_text(index.read_text().replace("CLIPTokenizer", "CLIPTextModel"))
    assert counter.counts(model, "a red circle") == ()
    with pytest.raises(ValueError, match="CLIPTextModel of transformers is not asked"):
        list(orders_of(model, "a red circle"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "not JSON"),
        ("tokenizer.json", json.dumps({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": [["x", "y"]]}})),
        ("tokenizer_config.json", json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": "many"})),
    ],
)
def test_a_broken_tokenizer_is_not_known(
    name: str, content: str, counter: Counter, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    model = _copy(tiny("flux"), tmp_path)
    (tmp_path / "model" / "tokenizer" / name).write_text(content)
    assert counter.counts(model, "a red circle") == ()
    assert counter.counts(describe_model("builtin:bobbin", device="cpu"), "still here")


def test_a_tokenizer_that_does_not_answer_is_ended_and_the_next_is_asked(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter
) -> None:
    counter.counts(describe_model("builtin:bobbin", device="cpu"), "warm")
    monkeypatch.setattr(counter_module, "ANSWER_S", 3.0)
    model = _copy(tiny("z_image"), tmp_path)
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    config = tmp_path / "model" / "tokenizer" / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"chat_template": endless}))
    (tmp_path / "model" / "tokenizer" / "chat_template.jinja").unlink(missing_ok=True)
    assert counter.counts(model, "a red circle") == ()
    monkeypatch.undo()
    assert counter.counts(describe_model("builtin:bobbin", device="cpu"), "and again")


def test_who_counts_has_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from latentloom.pipelines.models.describe import describe_model\n"
        "from latentloom.pipelines.tokens.counter import Counter\n"
        "counter = Counter()\n"
        "print(counter.counts(describe_model('builtin:bobbin', device='cpu'), 'a red circle')[0].limit)\n"
        "counter.close()\n"
        "print({'torch', 'transformers', 'diffusers'} & set(sys.modules))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout.split("\n")[:2] == ["40", "set()"], told


def _copy(folder: Path, tmp_path: Path) -> Model:
    shutil.copytree(folder, tmp_path / "model")
    return describe_model(str(tmp_path / "model"), device="cpu")


def _fed(order: dict[str, Any]) -> list[int]:
    """The ids that the encoder is given, without padding."""
    tokenizer, most, tail = _tokenizer_asked(order)
    text = CLEANERS[order["cleaning"]](order["text"])
    return _tokens_of(tokenizer, _framed(tokenizer, text, order)[0], most)[0] + tail
