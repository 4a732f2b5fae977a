"""bobbin's two tokenizers, made from the words of its captions with the classes that real FLUX folders use."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import CLIPTokenizer, T5Tokenizer

import re
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# B captions, S tokens

PIECES = re.compile(r"[^\s.,]+|[.,]")


class TokenIds:
    """The ids of one tokenizer's words, each asked for once."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer
        *self.start, self.end = tokenizer("").input_ids
        self.known: dict[str, list[int]] = {}

    def padded(self, captions: list[str], lengths: tuple[int, ...]) -> Tensor:
        """All captions, padded to the first of the `lengths` that holds them."""
        rows = [self._row(caption) for caption in captions]
        longest = max(map(len, rows))
        fitting = [length for length in lengths if length >= longest]
        assert fitting, f"a caption takes {longest} tokens, more than any of {lengths}: it would be cut"
        pad = self.tokenizer.pad_token_id
        return torch.tensor([[*row, *[pad] * (fitting[0] - len(row))] for row in rows])  # B S

    def _row(self, caption: str) -> list[int]:
        words = [i for piece in PIECES.findall(caption) for i in self._ids(piece)]
        return [*self.start, *words, self.end]

    def _ids(self, piece: str) -> list[int]:
        if piece not in self.known:
            is_mark = piece in ".,"  # read behind a word; alone it would get a space of its own
            ids = self.tokenizer(f"a{piece}" if is_mark else piece).input_ids[len(self.start) : -1]
            self.known[piece] = ids[-1:] if is_mark else ids
        return self.known[piece]


CLIP_LENGTH = 77


def build_clip_tokenizer(words: Iterable[str]) -> "CLIPTokenizer":
    """Byte-level BPE in CLIP's layout: bytes, bytes that end a word, merges, then start and end of text last."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    alphabet = sorted(ByteLevel.alphabet())
    merges: Any = _merges(sorted({word.lower() for word in words}))  # CLIP reads no capitals
    pieces = [*alphabet, *(f"{a}</w>" for a in alphabet), *("".join(pair) for pair in merges)]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    return CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=CLIP_LENGTH)


def _merges(words: list[str]) -> list[tuple[str, str]]:
    """Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) until every word is one piece.

    By hand, because the library's trainer settles ties by chance: a resumed training would read other words.
    """
    split = [[*word[:-1], f"{word[-1]}</w>"] for word in words]
    merges: list[tuple[str, str]] = []
    while any(len(pieces) > 1 for pieces in split):
        counts = Counter(pair for pieces in split for pair in pairwise(pieces))
        first, second = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append((first, second))
        split = [_merge(pieces, first, second) for pieces in split]
    return merges


def _merge(pieces: list[str], first: str, second: str) -> list[str]:
    merged: list[str] = []
    for piece in pieces:
        if merged and merged[-1] == first and piece == second:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def build_t5_tokenizer(words: Iterable[str]) -> "T5Tokenizer":
    """SentencePiece's unigram layout, pieces set by hand: every word (capitals count), and dearer, every character.

    Training a unigram model on so few words keeps single letters only, and then captions are cut in half in silence.
    """
    from transformers import T5Tokenizer

    letters = [chr(code) for code in range(33, 127)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -6.0)]
    pieces += [(f"\u2581{word}", -4.0) for word in words] + [(letter, -9.0) for letter in letters]
    return T5Tokenizer(vocab=list(dict(pieces).items()), extra_ids=0, model_max_length=512)
