"""How people word a scene: the plain caption most often, and the usual ways around it."""

import random

from .scene import COLOURS, RELATIONS, SHAPES, Scene, Thing, caption

TEXT_LENGTH = 16  # tokens; the longest wording takes 15 of T5's, its end mark included
ARTICLES = ("a", "the", "one", "")
LEADS = ("", "", "a picture of ")
SHARE_PLAIN = 0.5
SHARE_PARTIAL = 0.15


def word(scene: Scene, rng: random.Random) -> str:
    """A caption of the scene as somebody might type it; sometimes it leaves out a colour, a shape or the relation.

    Partial captions are what makes `a star` and the negative prompt `red` mean something to the model.
    """
    if rng.random() < SHARE_PLAIN:
        return caption(scene)
    partial = rng.random() < SHARE_PARTIAL / (1 - SHARE_PLAIN)
    names = [_name(thing, rng, partial=partial and scene.relation is None) for thing in scene.things]
    if scene.relation is None:
        text = names[0]
    else:
        between = "and" if partial else _relation(scene.relation, rng)
        text = f"{names[0]} {between} {names[1]}"
    text = rng.choice(LEADS) + text
    if rng.random() < 0.3:
        text = text[0].upper() + text[1:]
    return text + ("." if rng.random() < 0.2 else "")


def _name(thing: Thing, rng: random.Random, *, partial: bool) -> str:
    words = [thing.colour, thing.shape]
    if partial:
        words = rng.choice([[thing.shape], [thing.colour], [thing.colour, "shape"]])
    article = rng.choice(ARTICLES)
    if article == "a" and words[0][0] in "aeiou" and rng.random() < 0.7:
        article = "an"
    return " ".join([article, *words] if article else words)


def _relation(relation: str, rng: random.Random) -> str:
    return f"to the {relation}" if relation.endswith(" of") and rng.random() < 0.5 else relation


def vocabulary() -> list[str]:
    """Every word that `word` can write, as lower case and with a capital, for the tokenizers."""
    text = " ".join([*COLOURS, *SHAPES, *RELATIONS, *ARTICLES, *LEADS, "an to the shape and"])
    words = sorted(set(text.split()))
    return [*words, *(w.capitalize() for w in words)]
