"""How people word a scene: which of its facts they mention, in what words and in what order."""

import random
from dataclasses import replace

from .scene import COLOURS, GROUNDS, Scene, Thing

TEXT_LENGTH = 40  # tokens; the longest wording takes fewer of T5's, its end mark included

# The plain word first; the empty shape is one that a caption leaves open.
SHAPE_WORDS: dict[str, tuple[str, ...]] = {
    "sphere": ("sphere", "ball"),
    "cube": ("cube", "box"),
    "cylinder": ("cylinder",),
    "cone": ("cone",),
    "pyramid": ("pyramid",),
    "ring": ("ring", "donut"),
    "capsule": ("capsule", "pill"),
    "star": ("star",),
    "heart": ("heart",),
    "": ("object", "thing", "shape"),
}
MATERIAL_WORDS = {"matte": ("matte", "rubber", "dull"), "metal": ("metal", "shiny", "metallic"), "": ("",)}
SIZE_WORDS = {"small": ("small", "little", "tiny"), "large": ("large", "big"), "": ("",)}
COLOUR_WORDS = {**{name: (name,) for name in COLOURS}, "purple": ("purple", "violet"), "": ("",)}
RELATION_WORDS = {
    "left of": ("left of", "to the left of", "on the left of"),
    "right of": ("right of", "to the right of", "on the right of"),
    "in front of": ("in front of", "before"),
    "behind": ("behind", "in the back of"),
    "on top of": ("on top of", "on", "standing on"),
}
GROUND_WORDS = {name: (f"on {name}",) for name in GROUNDS} | {
    "paper": ("on paper", "on white paper"),
    "sand": ("on sand", "in the sand"),
    "dusk": ("at dusk", "in the evening"),
}
ARTICLES = ("a", "the", "one", "")
LEADS = ("", "", "", "a picture of ", "a photo of ", "a render of ", "there is ", "show me ")
SHARE_PLAIN = 0.4


def caption(scene: Scene) -> str:
    """The plain caption of what the scene states: `a small red metal cube left of a blue ring on sand`."""
    names = [_name(thing) for thing in scene.things]
    text = names[0] if not scene.relations else f"{names[0]} {scene.relations[0]} {names[1]}"
    if len(names) == 3:
        text += f" and {names[2]} {scene.relations[1]} the {_plain(scene.things[1])}"
    return f"{text} {GROUND_WORDS[scene.ground][0]}" if scene.ground else text


def say(scene: Scene, rng: random.Random) -> str:
    """A caption of everything that the scene states, in any wording."""
    if all(scene.relations) and rng.random() < SHARE_PLAIN:
        return caption(scene)
    names = [_name(thing, rng) for thing in scene.things]
    ground = rng.choice(GROUND_WORDS[scene.ground]) if scene.ground else ""
    text = _related(scene, names, rng) if all(scene.relations) else ", ".join(names[:-1]) + f" and {names[-1]}"
    text = f"{ground}, {text}" if ground and rng.random() < 0.2 else f"{rng.choice(LEADS)}{text} {ground}".strip()
    if rng.random() < 0.3:
        text = text[0].upper() + text[1:]
    return text + ("." if rng.random() < 0.2 else "")


def mention(scene: Scene, rng: random.Random) -> Scene:
    """The scene with some of its facts left open, as a caption would.

    That is what makes `a star` and the negative prompt `red` mean something to the model.
    """

    def keep(share: float, value: str) -> str:
        return value if rng.random() < share else ""

    things = []
    for thing in scene.things:
        shape = keep(0.97, thing.shape)
        things.append(
            Thing(
                colour=keep(0.93 if shape else 1.0, thing.colour),
                shape=shape,
                material=keep(0.5, thing.material),
                size=keep(0.4, thing.size),
            )
        )
    relations = ("",) * len(scene.relations) if rng.random() < 0.05 else scene.relations  # what stands there, not how
    return replace(scene, things=tuple(things), relations=relations, ground=keep(0.45, scene.ground))


def _related(scene: Scene, names: list[str], rng: random.Random) -> str:
    """The names joined by the words of their relations."""
    if not scene.relations:
        return names[0]
    between = [rng.choice(RELATION_WORDS[relation]) for relation in scene.relations]
    text = f"{names[0]} {between[0]} {names[1]}"
    if len(names) == 3:
        anchor = rng.choice((_plain(scene.things[1]), _plain(replace(scene.things[1], colour="")), ""))
        text += f" and {names[2]} {between[1]} " + (f"the {anchor}" if anchor else "it")
    return text


def _plain(thing: Thing) -> str:
    return f"{thing.colour} {SHAPE_WORDS[thing.shape][0]}".strip()


def _name(thing: Thing, rng: random.Random | None = None) -> str:
    """`a small red metal cube`; with `rng` any article, synonym and order of adjectives."""

    def one(choices: tuple[str, ...]) -> str:
        return choices[0] if rng is None else rng.choice(choices)

    material, colour = one(MATERIAL_WORDS[thing.material]), one(COLOUR_WORDS[thing.colour])
    adjectives = [one(SIZE_WORDS[thing.size]), colour, material]
    if rng is not None and rng.random() < 0.5:
        adjectives[1:] = [material, colour]
    words = [w for w in (*adjectives, one(SHAPE_WORDS[thing.shape])) if w]
    article = one(ARTICLES)
    if article == "a" and words[0][0] in "aeiou":
        article = "an"
    return " ".join([article, *words] if article else words)


def vocabulary() -> list[str]:
    """Every word that `say` can write, as lower case and with a capital, for the tokenizers."""
    tables = (SHAPE_WORDS, MATERIAL_WORDS, SIZE_WORDS, COLOUR_WORDS, RELATION_WORDS, GROUND_WORDS)
    phrases = [phrase for table in tables for choices in table.values() for phrase in choices]
    words = sorted(set(" ".join([*phrases, *ARTICLES, *LEADS, "an and it"]).split()))
    return [*words, *(w.capitalize() for w in words)]
