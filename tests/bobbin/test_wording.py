"""Captions as people type them, and the tokenizers that must hold them whole."""

import random
from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from bobbin.network.tokenizers import TokenIds, build_clip_tokenizer, build_t5_tokenizer
from bobbin.world.scene import COLOURS, SHAPES, Scene, Thing, sample
from bobbin.world.wording import RELATION_WORDS, TEXT_LENGTH, caption, mention, say, vocabulary

RING = Thing(colour="red", shape="ring", material="metal", size="small")
CUBE = Thing(colour="blue", shape="cube")
CONE = Thing(colour="orange", shape="cone")


def worded_captions(num: int = 3000) -> list[str]:
    rng = random.Random(0)
    return [say(mention(sample(rng, counts=(1, 1, 2)), rng), rng) for _ in range(num)]


def test_plain_captions_say_what_the_scene_states() -> None:
    assert caption(Scene(things=(RING,))) == "a small red metal ring"
    assert caption(Scene(things=(CONE,), ground="sand")) == "an orange cone on sand"
    assert caption(Scene(things=(RING, CUBE), relations=("left of",))) == "a small red metal ring left of a blue cube"
    three = Scene(things=(CONE, CUBE, RING), relations=("on top of", "behind"))
    assert caption(three) == "an orange cone on top of a blue cube and a small red metal ring behind the blue cube"
    assert caption(Scene(things=(Thing(shape="star"),))) == "a star"
    assert caption(Scene(things=(Thing(colour="red"),))) == "a red object"


def test_a_mention_states_nothing_that_is_not_so() -> None:
    rng = random.Random(0)
    for _ in range(300):
        scene = sample(rng, counts=(1, 1, 1))
        said = mention(scene, rng)
        assert said.relations in (scene.relations, ("",) * len(scene.relations))
        assert said.ground in ("", scene.ground)
        for told, thing in zip(said.things, scene.things, strict=True):
            assert all(
                told_of in ("", is_so) for told_of, is_so in zip(vars(told).values(), vars(thing).values(), strict=True)
            )
            assert told.colour or told.shape


def test_no_caption_is_cut_and_every_word_is_one_token() -> None:
    tokenizer = build_t5_tokenizer(vocabulary())
    for text in {*worded_captions()}:
        ids = tokenizer(text).input_ids
        assert len(ids) <= TEXT_LENGTH, text
        assert len(ids) == len(text.replace(".", " .").replace(",", " ,").split()) + 1, f"{text}: a word is cut up"


def test_clip_reads_every_word_as_one_token() -> None:
    tokenizer = build_clip_tokenizer(vocabulary())
    for text in {*worded_captions()}:
        assert len(tokenizer(text).input_ids) == len(text.replace(".", " .").replace(",", " ,").split()) + 2


@pytest.mark.parametrize("build", [build_clip_tokenizer, build_t5_tokenizer])
def test_tokenizers_are_built_the_same_every_time(build: Callable[[list[str]], PreTrainedTokenizerBase]) -> None:
    first, *others = (build(vocabulary()).get_vocab() for _ in range(6))
    assert all(other == first for other in others)


@pytest.mark.parametrize("build", [build_clip_tokenizer, build_t5_tokenizer])
def test_ids_by_word_are_the_tokenizers(build: Callable[[list[str]], PreTrainedTokenizerBase]) -> None:
    tokenizer, texts = build(vocabulary()), ["", *worded_captions(500)]
    wanted = tokenizer(texts, padding="max_length", max_length=64, return_tensors="pt").input_ids
    assert torch.equal(TokenIds(tokenizer).padded(texts, (16, 64)), wanted)


def test_a_caption_that_would_be_cut_is_refused() -> None:
    with pytest.raises(AssertionError, match="takes 4 tokens, more than any of"):
        TokenIds(build_t5_tokenizer(vocabulary())).padded(["a red star"], (2, 3))


def test_wording_covers_every_colour_shape_and_relation_form() -> None:
    text = " ".join(worded_captions()).lower()
    assert all(f" {name} " in text for name in (*COLOURS, *SHAPES))
    assert all(form in text for forms in RELATION_WORDS.values() for form in forms)


def test_captions_vary_in_length_case_and_completeness() -> None:
    texts = worded_captions()
    lengths = [len(text.split()) for text in texts]
    assert min(lengths) <= 3 and max(lengths) >= 25
    assert any(text[0].isupper() and text.endswith(".") for text in texts)
    assert len(set(texts)) > 0.95 * len(texts)
