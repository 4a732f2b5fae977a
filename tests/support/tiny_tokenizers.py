"""Tiny tokenizers of the real classes, made without a hub or a vocabulary file.

They cover every byte (T5: every printable ASCII character), so that no prompt fails; words of `CORPUS` are few tokens.
"""

import json
from collections import Counter
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTokenizer, Qwen2Tokenizer, T5Tokenizer

CORPUS = [
    "a photo of a cat, an astronaut riding a horse on the moon",
    "a red circle above a blue square",
    "a small green star left of a large yellow triangle",
    "a bowl of fruit on a wooden table, soft light",
    "a red ball moving left across the screen",
    "hello world, the quick brown fox jumps over the lazy dog",
]
QWEN_IMAGE_PREFIX = (
    "system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:\nuser\n"
)
QWEN_SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]

CHAT = """{% for message in messages %}<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}\
{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def clip_tokenizer(length: int = 77) -> CLIPTokenizer:
    """The layout of CLIP: bytes, bytes that end a word, merges, start and end of text (the pooler wants it last)."""
    merges = _merges(CLIPTokenizer(), CORPUS, size=1024, end_of_word_suffix="</w>")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = alphabet + [byte + "</w>" for byte in alphabet] + ["".join(merge) for merge in merges]
    tokens = [*dict.fromkeys(tokens), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, model_max_length=length)


def t5_tokenizer(length: int = 512) -> T5Tokenizer:
    """The layout of T5 and UMT5: pad 0, end 1, unknown 2, then pieces; words of the corpus are cheaper than letters."""
    words = Counter(word for text in CORPUS for word in text.split())
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -6.0)]
    pieces += [("\u2581" + word, -4.0) for word, _ in words.most_common()]
    pieces += [(chr(code), -9.0) for code in range(33, 127)]
    return T5Tokenizer(vocab=list(dict(pieces).items()), extra_ids=0, model_max_length=length)


def qwen_tokenizer(length: int = 4096) -> Qwen2Tokenizer:
    """The layout of Qwen2, trained so that Qwen-Image's fixed prefix is 34 tokens (its pipeline drops the first 34)."""
    merges = _merges(Qwen2Tokenizer(), CORPUS + [QWEN_IMAGE_PREFIX + "assistant\n"] * 50, size=1024)
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + ["".join(merge) for merge in merges] + QWEN_SPECIAL
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    return Qwen2Tokenizer(vocab=vocab, merges=merges, model_max_length=length, extra_special_tokens=QWEN_SPECIAL[1:])


def chat_tokenizer(length: int = 4096) -> Qwen2Tokenizer:
    """With a chat template, for messages of a string or of a list of texts and pictures."""
    tokenizer = qwen_tokenizer(length)
    tokenizer.chat_template = CHAT
    return tokenizer


def _merges(like: Any, texts: list[str], *, size: int, end_of_word_suffix: str = "") -> list[tuple[str, str]]:
    """The merges of a byte-level BPE trained on `texts`, splitting words as `like` does."""
    suffix = {"end_of_word_suffix": end_of_word_suffix} if end_of_word_suffix else {}
    tokenizer = Tokenizer(models.BPE(**suffix))
    tokenizer.normalizer, tokenizer.pre_tokenizer = like._tokenizer.normalizer, like._tokenizer.pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=alphabet, **suffix)
    tokenizer.train_from_iterator(texts, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]
