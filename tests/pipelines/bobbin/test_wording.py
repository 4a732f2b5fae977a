"""Captions as people type them, and the tokenizers that must hold them whole."""

import random
from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerBase

from latentloom.pipelines.bobbin import MODEL_DIR
from latentloom.pipelines.bobbin.scene import COLOURS, RELATIONS, SHAPES, Scene, Thing, caption, sample
from latentloom.pipelines.bobbin.tokenizers import build_clip_tokenizer, build_t5_tokenizer
from latentloom.pipelines.bobbin.wording import TEXT_LENGTH, vocabulary, word


def plain_captions() -> list[str]:
    """Every one-object caption, and each object in both places of every relation."""
    things = [Thing(colour=c, shape=s) for c in COLOURS for s in SHAPES]
    pairs = [(a, b) for a, b in zip(things, things[1:] + things[:1], strict=True)]
    two = [Scene(things=pair, relation=relation) for pair in pairs for relation in RELATIONS]
    return [caption(scene) for scene in [*(Scene(things=(thing,)) for thing in things), *two]]


def worded_captions(num: int = 4000) -> list[str]:
    rng = random.Random(0)
    return [word(sample(rng, held_out=True), rng) for _ in range(num)]


def test_every_caption_fits_the_trained_length_in_known_words() -> None:
    tokenizer = build_t5_tokenizer(vocabulary())
    for text in {*plain_captions(), *worded_captions()}:
        tokens = tokenizer(text).input_ids
        assert len(tokens) <= TEXT_LENGTH, text
        assert len(tokens) == len(text.replace(".", " .").split()) + 1, f"{text}: a word is not one token"


def test_clip_reads_every_word_as_one_token() -> None:
    tokenizer = build_clip_tokenizer(vocabulary())
    for text in {*plain_captions(), *worded_captions()}:
        assert len(tokenizer(text).input_ids) == len(text.replace(".", " .").split()) + 2


@pytest.mark.parametrize("build", [build_clip_tokenizer, build_t5_tokenizer])
def test_tokenizers_are_built_the_same_every_time(build: Callable[[list[str]], PreTrainedTokenizerBase]) -> None:
    first, *others = (build(vocabulary()).get_vocab() for _ in range(6))
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("folder", "build"), [("tokenizer", build_clip_tokenizer), ("tokenizer_2", build_t5_tokenizer)]
)
def test_shipped_tokenizers_are_the_built_ones(
    folder: str, build: Callable[[list[str]], PreTrainedTokenizerBase]
) -> None:
    built = build(vocabulary())
    shipped = type(built).from_pretrained(MODEL_DIR / folder, local_files_only=True)
    for text in ("A red circle above a blue square, drawn by somebody else.", "", "an orange heart to the left of"):
        assert shipped(text).input_ids == built(text).input_ids


def test_wording_covers_partial_captions_and_both_relation_forms() -> None:
    texts = worded_captions()
    assert any(text in COLOURS for text in texts)
    assert any(" and " in text for text in texts)
    assert any("to the left of" in text for text in texts)
    assert any(text[0].isupper() and text.endswith(".") for text in texts)
