"""bobbin's two tokenizers, made from the words of its captions with the classes that real FLUX folders use."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import CLIPTokenizer, T5Tokenizer

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
