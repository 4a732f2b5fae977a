"""The table of pipelines' signatures, made of the installed diffusers.

    python tests/bench/pipeline_signatures.py     # after a change of its version

A parameter becomes a kind by its name and annotation. What steers the call itself (callbacks, the form of the output)
and tensors that the pipeline makes when they are not given (embeddings, latents) are no sockets.
"""

import dataclasses
import enum
import inspect
import json
import re
import sys
import types
import typing
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.pipelines.signatures.table import MAIN as KEYS
from latentloom.pipelines.signatures.table import (
    PLACES,
    REVIEWED,
    TABLE,
    TEXTS,
    Kind,
    Output,
    condition_class,
    is_modular,
    names_of,
    parameters_of,
    results_of,
    reviewed,
    specs_of,
)
from latentloom.pipelines.signatures.table import parts_of as needed_parts
from latentloom.pipelines.split_plans import SPLIT_PLANS

# `generator` and `seed` are what our own socket `seed` gives, and a sound has its rate. An IP adapter's picture wants
# the adapter, which nothing loads. `prompt_enhancement_kwargs`
# goes to transformers' `generate` as it is, which can be told to fetch code and run it: no workflow may say so. Nor may
# one switch off `enable_safety_check`, without which the licence of the models forbids to run them.
PLUMBING = re.compile(
    r"self|return_dict|output_type|callback(_.*)?|(cross_|joint_)?attention_kwargs|kwargs|args|generator|seed|eta|"
    r"clean_caption|enable_safety_check|initial_audio_sampling_rate|prompt_enhancement_kwargs|(negative_)?ip_adapter_image|_.*"
)
# Classes of a package of their own, of which a pipeline makes one where it is given none.
GUARD = re.compile(r"\bCosmosSafetyChecker\b")
TENSOR = re.compile(
    r"embeds|attention_mask(_2)?$|latents?$|_latents_|latent_ids|token_.*ids$|pooled|cu_seqlens|_grid_thw|camera_video"
)
# By name, what is no scalar.
SHOWN: dict[Kind, re.Pattern[str]] = {
    "audio": re.compile(r"(^|_)audio$|audio_waveforms$"),
    "video": re.compile(r"(^|_)video$"),
    "pictures": re.compile(r"(^|_)images$|^controls$"),
    "mask": re.compile(r"(^|_)mask(_image)?$"),
    "picture": re.compile(r"(^|_)image$|^image_reference$"),
}
# What is not folded away, beside what must be given.
MAIN = re.compile(
    r"((negative|content|task)_)?prompt|lyrics|height|width|num_frames|video_length|frame_rate|fps|(audio_)?duration(_s)?|"
    r"num_inference_steps|guidance_scale|true_cfg_scale|strength|(mask_|control_|last_)?image|mask|(control_)?video|"
    r"(reference_)?conditions|((src|reference)_)?audio|reference_(images|video)|driving_video|initial_audio_waveforms|"
    r"class_labels"
)
OPTIONAL = r"(typing\.optional\[|typing\.union\[)*"
SCALARS: dict[str, Kind] = {"int": "integer", "float": "number", "str": "text", "bool": "switch"}
LISTS: dict[str, Kind] = {"int": "integers", "float": "numbers", "str": "texts"}
# What fields of output classes hold.
OUTPUTS: dict[str, Output] = {
    "images": "image",
    "image": "image",
    "frames": "video",
    "video": "video",
    "videos": "video",
    "audio": "audio",
    "audios": "audio",
    "sound": "audio",
}
USUAL_FPS = 24.0
TAUGHT_FPS = re.compile(r"export_to_video\([^)]*\bfps=(\d+)")
# Characters; of longer ones, such as the instructions to an LLM, the table says nothing: not given is the default.
LONGEST_DEFAULT = 200


def live_pipelines() -> dict[str, type]:
    """By name, those of the installed diffusers whose transformer has a split plan, without those that it calls
    deprecated; modular ones where it has no classic one. Imports all of diffusers: about ten seconds."""
    import diffusers
    from diffusers.modular_pipelines.modular_pipeline import ModularPipeline
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    with warnings.catch_warnings(action="ignore"):  # old parts of diffusers use what torch has deprecated
        found = {name: kind for name in dir(diffusers) if inspect.isclass(kind := getattr(diffusers, name))}
        of_diffusers = [(name, kind) for name, kind in found.items() if issubclass(kind, DiffusionPipeline)]
        live = {name: kind for name, kind in of_diffusers if ".deprecated." not in kind.__module__}
        classic = {name: kind for name, kind in live.items() if transformers_of(kind)}
        taken = {word for kind in classic.values() for words in parts_of(kind).values() for word in words}
        modular = [(name, kind) for name, kind in found.items() if issubclass(kind, ModularPipeline)]
        whole = {name: kind for name, kind in modular if kind.default_blocks_name and transformers_of(kind)}
    return classic | {name: kind for name, kind in whole.items() if _models_of(kind) - taken}


def transformers_of(pipeline: type) -> set[str]:
    """The classes with a split plan among those that it takes for a transformer."""
    named = parts_of(pipeline).items()
    return {word for name, words in named if name.startswith("transformer") for word in words} & SPLIT_PLANS.keys()


def parts_of(pipeline: type) -> dict[str, set[str]]:
    """The words of the classes of its components, by name."""
    if is_modular(pipeline):
        return {name: {getattr(spec.type_hint, "__name__", "")} for name, spec in specs_of(pipeline).items()}
    parameters = inspect.signature(pipeline.__init__).parameters.values()
    return {each.name: set(re.findall(r"\w+", str(each.annotation))) for each in parameters}


def _models_of(pipeline: type) -> set[str]:
    """The classes of diffusers' own models that every call of a modular pipeline needs."""
    specs = specs_of(pipeline)
    kinds = [specs[name].type_hint for name in needed_parts(pipeline)]
    kinds += [spec.type_hint for name, spec in specs.items() if name.startswith("transformer")]
    return {kind.__name__ for kind in kinds if str(getattr(kind, "__module__", "")).startswith("diffusers.models")}


def kind_of(name: str, annotation: Any) -> Kind | Literal["plumbing", "tensor"]:
    """By the name where it says more than the annotation, which often allows several kinds."""
    hint = str(annotation)
    is_scalar = bool(re.search(r"\b(bool|int|float|str)\b", hint)) and not re.search("Image|Tensor|ndarray", hint)
    if PLUMBING.fullmatch(name):
        return "plumbing"
    if TENSOR.search(name) and (not is_scalar or "embeds" in name):
        return "tensor"
    if not is_scalar and (shown := next((kind for kind, named in SHOWN.items() if named.search(name)), None)):
        return shown
    return "tensor" if hint == "<class 'torch.Tensor'>" else _plain_kind(annotation, hint.lower())


def _plain_kind(annotation: Any, hint: str) -> Kind:
    """Of several that are allowed, the first; of lists, what they hold."""
    if _choices(annotation):
        return "choice"
    if taken := condition_class(annotation):
        return "conditions" if names_of(taken) & {*PLACES} else "references"
    listed = re.match(rf"{OPTIONAL}(typing\.|collections\.abc\.)?(list|tuple|iterable)\[(int|float|str)\b", hint)
    if listed:
        return LISTS[listed[4]]
    first = re.match(rf"{OPTIONAL}(<class '|none \| )?(int|float|str|bool)\b", hint)
    return SCALARS[first[3]] if first else "json"


def _choices(annotation: Any) -> tuple[str, ...]:
    """Of a Literal, or of an enum of texts."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return tuple(str(each.value) for each in annotation)
    options = [annotation, *typing.get_args(annotation)]
    literal = next((each for each in options if typing.get_origin(each) is Literal), None)
    return tuple(each for each in typing.get_args(literal) if isinstance(each, str))


def row_of(pipeline: Any) -> dict[str, Any]:
    """One pipeline's row of the table."""
    found = parameters_of(pipeline)
    kinds = {name: kind_of(name, _annotation(each)) for name, each in found.items()}
    gives = {OUTPUTS[name]: name for name in _results(pipeline) if name in OUTPUTS}
    if gives.keys() == {"audio"}:  # whose masks are tensors over time
        kinds = {name: "tensor" if kind in ("picture", "mask") else kind for name, kind in kinds.items()}
    takes = {name: kind for name, kind in kinds.items() if kind not in ("plumbing", "tensor")}
    rows = {name: _parameter(kind, found[name], is_alone="prompt_embeds" in found) for name, kind in takes.items()}
    row: dict[str, Any] = {
        "gives": gives,
        "takes": {name: row for name, row in rows.items() if MAIN.fullmatch(name) or len(row) == 1},
        "advanced": {name: row for name, row in rows.items() if not MAIN.fullmatch(name) and len(row) > 1},
    }
    if "video" in gives:
        taught = TAUGHT_FPS.search(inspect.getdoc(pipeline.__call__) or "")  # by the pipeline's own example
        usual = float(taught[1]) if taught else USUAL_FPS
        row["fps"] = next((name for name in ("frame_rate", "fps") if name in takes), usual)
    row["of"] = sorted(transformers_of(pipeline))
    from diffusers.loaders.lora_base import LoraBaseMixin

    if issubclass(pipeline, LoraBaseMixin):
        row["loras"] = True
    tensors = [found[name] for name, kind in kinds.items() if kind == "tensor"]
    if lacks := [each.name for each in tensors if each.default is inspect.Parameter.empty]:
        row["lacks"] = lacks
    if is_modular(pipeline):
        return row | {"parts": needed_parts(pipeline)}
    # the components that it makes itself, by a package of their own
    parameters = inspect.signature(pipeline.__init__).parameters.values()
    if guard := [each.name for each in parameters if GUARD.search(str(each.annotation))]:
        row["guard"] = guard
    return row


def _annotation(parameter: inspect.Parameter) -> Any:
    """Of a parameter without one, or whose lists do not say of what, that of its default."""
    own, default = parameter.annotation, parameter.default
    if own is inspect.Parameter.empty:
        return own if default is own else type(default)
    is_told = own is list and isinstance(default, list) and default
    return types.GenericAlias(list, (type(default[0]),)) if is_told else own


def _parameter(kind: Any, parameter: inspect.Parameter, *, is_alone: bool) -> list[Any]:
    """`is_alone`: a text may be given or its embeddings, and only the text has a socket."""
    default = parameter.default
    if default is inspect.Parameter.empty or (parameter.name == "prompt" and default is None and is_alone):
        return [kind]
    if isinstance(default, enum.Enum):
        default = default.value
    default = list(default) if isinstance(default, tuple) else default
    if kind == "number" and isinstance(default, int):
        default = float(default)
    if len(json.dumps(default)) > LONGEST_DEFAULT:
        default = None
    return [kind, default, _choices(_annotation(parameter))] if kind == "choice" else [kind, default]


def _results(pipeline: type) -> list[str]:
    """The fields of its output class, or what its blocks give."""
    if is_modular(pipeline):
        return list(results_of(pipeline))
    words = re.findall(r"\w+", str(inspect.signature(pipeline.__call__).return_annotation))
    import diffusers

    module = sys.modules[pipeline.__module__]
    classes = [getattr(place, word, None) for word in words for place in (module, diffusers.pipelines.pipeline_utils)]
    found = next((each for each in classes if isinstance(each, type) and dataclasses.is_dataclass(each)), None)
    return [each.name for each in dataclasses.fields(found)] if found else []


def table() -> dict[str, Any]:
    """What `signatures.json` should hold."""
    import diffusers

    classes = {name: row_of(kind) for name, kind in sorted(live_pipelines().items())}
    return {"diffusers": diffusers.__version__, "classes": classes}


def text_of(table: dict[str, Any]) -> str:
    """A line for each class."""
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table["classes"].items()]
    head = f'{{"diffusers": {json.dumps(table["diffusers"])}, "classes": {{\n'
    return head + ",\n".join(lines) + "\n}}\n"


def texts_of(row: dict[str, Any]) -> set[str]:
    """The parameters that need a verdict."""
    return {name for key in KEYS for name, each in row[key].items() if each[0] in TEXTS}


def counts(table: dict[str, Any]) -> str:
    """How many of the parameters map by name and annotation."""
    kinds: Counter[str] = Counter()
    whole = 0
    for row in table["classes"].values():
        here = [each[0] for key in ("takes", "advanced") for each in row[key].values()]
        kinds.update(here)
        whole += "json" not in here
    num, num_json = kinds.total(), kinds["json"]
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return (
        f"{len(table['classes'])} pipeline classes, {num} visible parameters: {num - num_json} map by name and "
        f"annotation, {num_json} are JSON ({named}); of {whole} classes all map"
    )


def main() -> None:
    made = table()
    TABLE.write_text(text_of(made))
    print(counts(made))
    for name, row in made["classes"].items():
        if new := sorted(texts_of(row) - reviewed()["classes"].get(name, {}).keys()):
            print(f"nobody has looked at what {name} does with {', '.join(new)}: write a verdict into {REVIEWED.name}")


if __name__ == "__main__":
    main()
