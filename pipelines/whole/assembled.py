"""A whole diffusers pipeline, put together from a folder's components as the store loads them one by one.

Any class that diffusers has will do, and nothing else: no code of the model's own runs, and nothing is downloaded.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from ...parallel.errors import did_you_mean, one_line
from ..components.building import offline, quiet_libraries
from ..components.loading import load_component
from ..guarded import why_no_guard, without_guard
from ..models.component_files import inspect_component
from ..models.folder import CLASS, components_of, read_index
from ..models.packing import check_checkpoints
from ..models.source import resolve_source
from ..signatures.table import REWRITERS, blocks_of, class_names, is_modular, parts_of, signature_of, specs_of
from ..spreading.pipeline import bars_of
from ..values import Dtype

if TYPE_CHECKING:
    from diffusers.modular_pipelines.modular_pipeline import ModularPipeline
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline


# What a class may be made with that is text, or holds it, and which text an index may give for it. A closed list: what
# a class of a new diffusers does with others nobody has looked at.
TEXTS = {
    "hdr_transform": re.compile(r"\w{1,50}"),
    "prediction_type": re.compile(r"\w{1,50}"),
    "pag_applied_layers": re.compile(r"[\w.]{1,200}"),  # which diffusers takes for regular expressions
    "id2label": re.compile(r".{0,500}"),
    "target_properties": re.compile(r".{0,500}"),
}


def load_pipeline(
    source: str,
    *,
    dtype: Dtype,
    device: str = "cpu",
    revision: str = "",
    class_name: str = "",
) -> DiffusionPipeline | ModularPipeline:
    """The pipeline of a model folder, `FILE.safetensors@BASE` or pulled hub id, in eval mode, its parts on `device`.

    `class_name` is another class than the folder's own that its components make, such as one that starts from a
    picture. Raises ValueError in one sentence for what is no pipeline of diffusers', not whole, or not allowed.
    """
    found = resolve_source(source, revision=revision)
    index = read_index(found.folder)
    cls = pipeline_class(class_name or str(index["_class_name"]))
    if (known := cls.__name__ in class_names()) and (why := signature_of(cls.__name__).why_not_of(index)):
        raise ValueError(f"{found.folder} makes no {cls.__name__}: {why}")
    if known and (why := why_no_guard(signature_of(cls.__name__))):
        raise ValueError(why)
    index = without_guard(cls.__name__, index)
    named = components_of(index)
    single = {} if found.file is None else check_checkpoints(found.file, named, roots=None)
    is_classic = not is_modular(cls)
    wanted = inspect.signature(cls.__init__).parameters if is_classic else specs_of(cls)
    _check_whole(found.folder, cls, wanted, index, named)
    parts: dict[str, Any] = {}
    for name in (name for name in wanted if name in named):
        library, part = named[name]
        files = inspect_component(found.folder, name, library=library, class_name=part, roots=None)
        parts[name] = load_component(files, dtype=dtype, device=device, checkpoint=single.get(name))
    try:
        with offline():
            return cls(**parts, **_values(wanted, index, named)) if is_classic else put_together(cls, parts, index)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{found.folder} does not make a {cls.__name__}: {error}; copy or pull it again") from error
    except (OSError, ImportError, LookupError) as error:  # of a safety checker's package
        raise ValueError(f"{cls.__name__} could not make its parts: {one_line(error)}; install them again") from error


def put_together(kind: Any, parts: Mapping[str, Any], values: Mapping[str, Any]) -> ModularPipeline:
    """The modular pipeline of these components; `values` are those of its configs that the index has.

    Its blocks are the default ones of its class, but for one that rewrites the prompt with a language model that is not
    in the folder.
    """
    blocks = copy.deepcopy(blocks_of(kind))
    for name in REWRITERS:
        if name in blocks.sub_blocks and name not in parts:
            blocks.sub_blocks.pop(name)
    with quiet_libraries():
        pipe = kind(blocks=blocks)
        settings = {name: values[name] for name in pipe._config_specs if values.get(name) is not None}
        pipe.update_components(**parts, **settings)
    return pipe


def pipeline_class(name: str) -> Any:
    """The class of that name, if diffusers has it. Raises ValueError with the nearest."""
    import diffusers
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    cls: Any = getattr(diffusers, name, None) if CLASS.fullmatch(name) else None
    if isinstance(cls, type) and issubclass(cls, DiffusionPipeline) and cls is not DiffusionPipeline:
        return cls
    if isinstance(cls, type) and getattr(cls, "default_blocks_name", None):  # a modular one
        return cls
    known = [each for each in dir(diffusers) if each.endswith("Pipeline")]
    hint = did_you_mean(name, known)
    raise ValueError(f"diffusers {diffusers.__version__} has no pipeline {name[:100]!r}; {hint}check model_index.json")


def without_bars(pipe: Any) -> None:
    """No progress bar of its own: ours shows progress."""
    for each in bars_of(pipe):
        each.set_progress_bar_config(disable=True)


def _check_whole(
    folder: Path, cls: Any, wanted: Mapping[str, Any], index: Mapping[str, Any], named: Mapping[str, Any]
) -> None:
    """ValueError for what the pipeline cannot be made without, of what the index does not give."""
    if is_modular(cls):
        missing = sorted({*parts_of(cls)} - named.keys())
    else:
        given = {*named, *(name for name, value in index.items() if value not in (None, [None, None]))}
        missing = sorted(required_of(wanted) - given - {"self", *cls._optional_components})
    if missing:
        own = str(index["_class_name"])
        remedy = "copy or pull it again" if cls.__name__ == own else f"choose {own}, or a model that has it"
        raise ValueError(f"{folder} lacks {', '.join(missing)}, which {cls.__name__} needs; {remedy}")


def required_of(wanted: Mapping[str, Any]) -> set[str]:
    """The parameters of a constructor or a call that have no value of their own."""
    return {
        name for name, each in wanted.items() if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    }


def _values(wanted: Mapping[str, Any], index: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """What the pipeline takes besides components: numbers, texts and lists of the index; nothing for what is absent."""
    found: dict[str, Any] = {}
    for name, parameter in wanted.items():
        if name == "self" or name in named or parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            continue
        given = index.get(name)
        if given is not None and given != [None, None]:
            texts = [each for each in pytree.tree_leaves(given) if isinstance(each, str)]
            if not all(name in TEXTS and TEXTS[name].fullmatch(text) for text in texts):
                raise ValueError(f"its model_index.json says {name} is {str(given)[:100]!r}, which is not taken")
            found[name] = given
        elif parameter.default is inspect.Parameter.empty:
            found[name] = None
    return found
