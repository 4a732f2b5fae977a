"""Which LoRAs are in the folders of models, each read once: what each tells of itself, and whether one fits a model.

A file tells in the metadata of its header, by the names of the Stability AI Model Metadata Standard (`modelspec.*`,
https://github.com/Stability-AI/ModelSpec) and of kohya's scripts (`ss_*`), and in a JSON file of its name beside it, as
AUTOMATIC1111's page keeps one. All of that is anybody's text: it is cut, and nothing in it is believed to be more than
text. Whether it fits a model its tensors say, where their names can be compared (`lora_file`).

A folder may hold thousands, and files that are no LoRAs: one look reads headers for some seconds at most, and says
whether it saw all; the next goes on where it ended, because what was read is kept while the files stay as they are.
"""

import contextlib
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ....parallel.recent import Recent
from ....parallel.wording import worded
from ...values import Model
from ..folder import INDEX, MODULAR_INDEX
from ..regular_file import JsonFault, Unchanged, parse_strict, read_object
from ..source import is_allowed
from ..tensor_file import TensorFile, read_tensor_file
from .lora_file import PAIRS, check_lora, is_lora, ranks_in, what_differs

MOST_WORDS = 12  # trigger words of one LoRA
MOST_TAGS = 5  # of them, what stood most often in the texts of its training
LONGEST_WORD = 100
LONGEST_TEXT = 200
MOST_TAG_BYTES = 1 << 20  # of the texts of a training, counted; more of them is not read
MOST_NOTE_BYTES = 256 << 10  # of the JSON file beside it
NOTE = ".json"
PICTURES = (".png", ".preview.png", ".jpg", ".jpeg", ".webp")  # how a picture of its name may end

Families = tuple[str, ...]

# Families by how their names begin in metadata, letters and digits only; none of ours for what we do not read.
MADE_FOR: Mapping[str, Families] = {
    "flux2": ("flux_2",),
    "flux3": ("flux_3",),
    "flux": ("flux", "flux_kontext"),
    "stablediffusion3": ("sd3",),
    "sd3": ("sd3",),
    "wan": ("wan",),
    "qwenimage21": ("qwen_image_21",),
    "qwenimage": ("qwen_image", "qwen_image_edit", "qwen_image_edit_plus", "qwen_image_layered"),
    "zimage": ("z_image",),
    "krea2": ("krea_2",),
    "ernieimage": ("ernie_image",),
    "hunyuanvideo15": ("hunyuan_video_15", "hunyuan_video_15_image"),
    "hunyuanvideo": (),
    "ltx2": ("ltx_2",),
    "ltxv": ("ltx",),
    "minimaxh3": ("minimax_h3",),
    "anima": ("anima",),
    **dict.fromkeys(("stablediffusion", "sdxl", "sd15", "sdv1", "sdv2"), ()),
}
# Parts of tensors' names by which other projects' LoRAs are told, where the metadata says nothing.
NAMED_LIKE: Mapping[str, tuple[str, Families]] = {
    "joint_blocks": ("Stable Diffusion 3", ("sd3",)),
    "lora_unet_down_blocks": ("Stable Diffusion (U-Net)", ()),
    "lora_unet_input_blocks": ("Stable Diffusion (U-Net)", ()),
    # Anima's layers are called as Wan's are, but for the end.
    "lora_unet_blocks_0_cross_attn_q_proj": ("Anima", ("anima",)),
    "diffusion_model.blocks.0.cross_attn.q_proj": ("Anima", ("anima",)),
    "lora_unet_blocks_0_cross_attn": ("Wan", ("wan",)),
    "diffusion_model.blocks.0.cross_attn": ("Wan", ("wan",)),
}


@dataclass(frozen=True, kw_only=True)
class LoraFacts:
    """One LoRA file; texts are plain, of one line, and cut."""

    path: Path
    num_bytes: int
    rank: int  # that of most of its layers; 0 where it has none
    layers: str  # alike for LoRAs that change the same layers, whatever their ranks
    made_for: str  # as its metadata names the model; empty where nothing tells
    families: Families | None  # the families of ours that this means; None where nobody knows
    triggers: tuple[str, ...]
    title: str
    author: str
    licence: str
    picture: Path | None
    problem: str  # why it is refused, whatever the model; empty where it is not


def lora_facts(path: Path, *, beside: Collection[str] = ()) -> LoraFacts | None:
    """What the file and the files of its folder, by their names `beside` it, tell; None for what is no LoRA.

    Raises `ValueError` for what is no sound safetensors file.
    """
    file = read_tensor_file(path)
    if not is_lora(file):
        return None
    problem = ""
    try:
        check_lora(file)
        ranks = ranks_in(file)
    except ValueError as error:
        problem, ranks = str(error), []
    note: Mapping[str, Any] = {}
    if f"{path.stem}{NOTE}" in beside:
        with contextlib.suppress(ValueError):  # one that cannot be read tells nothing
            note = read_object(path.with_suffix(NOTE), what="notes of a LoRA", max_bytes=MOST_NOTE_BYTES)
    told = {name: value for name, value in file.metadata.items() if len(value) <= MOST_TAG_BYTES}
    made_for, families = _made_for(file, told, note)
    picture = next((f"{path.stem}{ending}" for ending in PICTURES if f"{path.stem}{ending}" in beside), "")
    return LoraFacts(
        path=path,
        num_bytes=file.size_bytes,
        rank=Counter(ranks).most_common(1)[0][0] if ranks else 0,
        layers=_layers(file),
        made_for=made_for,
        families=families,
        triggers=_triggers(told, note),
        title=_plain(told.get("modelspec.title")),
        author=_plain(told.get("modelspec.author")),
        licence=_plain(told.get("modelspec.license")),
        picture=path.with_name(picture) if picture else None,
        problem=problem,
    )


def _plain(text: Any, most: int = LONGEST_TEXT) -> str:
    """One line without what is not printed, such as control characters or those that turn the direction of writing."""
    if not isinstance(text, str):
        return ""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 8 * most]).split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def _made_for(file: TensorFile, told: Mapping[str, str], note: Mapping[str, Any]) -> tuple[str, Families | None]:
    names = (told.get("modelspec.architecture"), told.get("ss_base_model_version"), note.get("sd version"))
    said = [name for name in map(_plain, names) if name]
    for name in said:
        short = re.sub(r"[^a-z0-9]", "", name.lower())
        if begins := next((begin for begin in MADE_FOR if short.startswith(begin)), ""):
            return name, MADE_FOR[begins]
    for part, (title, families) in NAMED_LIKE.items():
        if any(part in name for name in file.tensors):
            return said[0] if said else title, families
    return (said[0] if said else ""), None


def _triggers(told: Mapping[str, str], note: Mapping[str, Any]) -> tuple[str, ...]:
    """First what somebody wrote down as such, then what its training saw most often; none twice."""
    written = (told.get("modelspec.trigger_phrase"), note.get("activation text"))
    words = [word for text in written if isinstance(text, str) for word in text[:MOST_NOTE_BYTES].split(",")]
    found: dict[str, str] = {}
    for word in (*words, *_tags(told.get("ss_tag_frequency", ""))):
        plain = _plain(word, 2 * LONGEST_WORD)
        if 0 < len(plain) <= LONGEST_WORD:  # a longer one is a description
            found.setdefault(plain.lower(), plain)
        if len(found) == MOST_WORDS:
            break
    return tuple(found.values())


def _tags(text: str) -> Iterator[str]:
    """What stood most often in the texts of its training: kohya's scripts count it by folder."""
    try:
        folders = parse_strict(text) if text else {}
    except JsonFault:
        return
    counts: Counter[str] = Counter()
    for tags in folders.values() if isinstance(folders, dict) else ():
        for tag, number in tags.items() if isinstance(tags, dict) else ():
            if type(number) is int and number > 0:
                counts[tag] += number
    yield from (tag for tag, _ in counts.most_common(MOST_TAGS))


def _layers(file: TensorFile) -> str:
    digest = hashlib.sha256()
    for name in sorted(file.tensors):
        shape = file.tensors[name].shape
        is_down = any(down in name for down, _ in PAIRS)
        rest = shape[1:] if is_down else shape[:1] if any(up in name for _, up in PAIRS) else shape
        digest.update(f"{name}:{rest};".encode())
    return digest.hexdigest()


# ---- Those in folders

MAX_DEPTH = 6  # how deep a folder of models is searched
MOST_FILES = 20_000  # looked at in one look; the rest is not seen
MOST_LORAS = 2_000
READING_S = 8.0  # for one look
MOST_KEPT = 20_000  # files whose facts are kept, some hundred bytes each
MOST_VERDICTS = 4_096
BESIDE = (NOTE, *PICTURES)  # how the files of a LoRA's name end that tell of it

# Whether its layers are the model's; whether what it says it was made for is; whether nobody knows; or neither.
Verdict = Literal["fits", "likely", "unknown", "other"]


@dataclass(frozen=True, kw_only=True)
class InstalledLoras:
    loras: tuple[LoraFacts, ...]  # by path
    has_more: bool = False  # there are more than are looked at
    may_grow: bool = False  # no time was left: the next look goes on

    @property
    def is_whole(self) -> bool:
        return not (self.has_more or self.may_grow)


@dataclass(frozen=True)
class Fit:
    verdict: Verdict
    why: str = ""  # why it does not fit, as a sentence that begins small; empty where it may


_FACTS = Unchanged[LoraFacts | None](MOST_KEPT)  # of each file and of those of its name; None: no LoRA
# What the model lacks of a LoRA's layers, as `what_differs` says it, by these layers and the model.
_VERDICTS = Recent[tuple[str | None]](MOST_VERDICTS)


def installed_loras(
    model_dirs: Sequence[Path], *, roots: Sequence[Path] | None = None, reading_s: float = READING_S
) -> InstalledLoras:
    """All LoRAs in these folders; of a folder with a model, those beside its index. Headers are read, no tensors.

    What links out of `roots` is left out, and a folder that is not there holds none.
    """
    end = time.monotonic() + reading_s
    found: dict[Path, LoraFacts] = {}
    for number, (path, names) in enumerate(_candidates(model_dirs, end)):
        if number >= MOST_FILES or len(found) >= MOST_LORAS:
            return InstalledLoras(loras=tuple(found.values()), has_more=True)
        if path not in found and is_allowed(path, roots) and (facts := _facts(path, names, roots)) is not None:
            found[path] = facts
    return InstalledLoras(loras=tuple(found[path] for path in sorted(found)), may_grow=time.monotonic() >= end)


def fit_of(lora: LoraFacts, model: Model, held: Mapping[str, tuple[int, ...]]) -> Fit:
    """Whether a LoRA fits a model, which has the layers `held`, by these where they can be compared, else by what it
    says it was made for.
    """
    if lora.problem:
        return Fit("other", lora.problem)
    differs = _differs(lora, model, held)
    if differs is not None:
        return Fit("other", differs) if differs else Fit("fits")
    if lora.families is None:
        return Fit("unknown")
    return Fit("likely") if model.family in lora.families else Fit("other", worded("it was made for {}", lora.made_for))


def _differs(lora: LoraFacts, model: Model, held: Mapping[str, tuple[int, ...]]) -> str | None:
    key = (lora.layers, model.fingerprint, model.source, model.family)
    if (known := _VERDICTS.get(key)) is None:
        try:
            known = (what_differs(read_tensor_file(lora.path), model, held),)
        except ValueError:  # gone since
            return None
        _VERDICTS.put(key, known, {key: 1})  # counted, whatever their sizes
    return known[0]


def _candidates(model_dirs: Iterable[Path], end: float) -> Iterator[tuple[Path, frozenset[str]]]:
    """Safetensors files with the names beside them, until there is no time left; loops of links end with the depth."""
    for directory in model_dirs:
        for parent, folders, files in os.walk(directory, followlinks=True):
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            is_model = INDEX in files or MODULAR_INDEX in files
            if is_model or len(Path(parent).relative_to(directory).parts) >= MAX_DEPTH:
                folders.clear()
            names = frozenset(files)
            for file in sorted(files):
                if time.monotonic() >= end:
                    return
                # no path with bytes that are no text, which file systems take: no page can be told it
                is_text = not any("\ud800" <= c <= "\udfff" for c in f"{parent}/{file}")
                if file.lower().endswith(".safetensors") and is_text:
                    yield Path(parent, file), names


def _facts(path: Path, names: frozenset[str], roots: Sequence[Path] | None) -> LoraFacts | None:
    beside = [path.with_name(name) for ending in BESIDE if (name := f"{path.stem}{ending}") in names]
    allowed = [each for each in beside if is_allowed(each, roots)]

    def told() -> LoraFacts | None:
        try:
            return lora_facts(path, beside={each.name for each in allowed})
        except ValueError:  # damaged, so that nobody knows whether it is one
            return None

    return _FACTS.get((path, *allowed), (path, *allowed), told)
