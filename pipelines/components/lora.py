"""LoRAs on a loaded component, through diffusers' own loaders: several, scaled, in order, none silently ignored.

A file made for Wan 2.2's two experts is recognised by `high_noise` or `low_noise` in its name and goes to that expert
only; any other file goes to both. Text-encoder parts go to the CLIP encoders of FLUX and SD3, as diffusers does.
"""

import logging
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ...parallel.errors import one_line
from ..failures import refused_as
from ..models.loras.lora_file import check_lora
from ..models.regular_file import sha256_of
from ..models.tensor_file import read_tensor_file
from ..values import Lora
from .building import offline, quiet_libraries

logger = logging.getLogger("latentloom")

# Names of components that can carry LoRAs; MiniMax H3's second is for videos of reference pictures.
TAKERS = ("transformer", "transformer_2", "transformer_ref", "text_conditioner", "text_encoder", "text_encoder_2")
EXPERTS = {"transformer": re.compile(r"high[_\- ]?noise", re.I), "transformer_2": re.compile(r"low[_\- ]?noise", re.I)}


# How names of tensors end of which a layer that a LoRA changes has one.
ENDS = (".lora_A.weight", ".lora_down.weight", ".lora.down.weight", ".lokr_w1", ".lokr_w1_a")


def fit(component: Any, name: str, *, loras: Sequence[Lora], pipeline: str) -> None:
    """Put `loras` on a freshly loaded component. Raises `ValueError` for one that has nothing for this model."""
    if name not in TAKERS:
        return
    mixin = _mixin(pipeline)
    used = [lora for lora in loras if _load(component, name, lora=lora, mixin=mixin)]
    if used:
        _activate(component, name, used)


def refit(component: Any, name: str, *, loras: Sequence[Lora], pipeline: str) -> None:
    """Exchange what a component carries for `loras`; when only scales differ, nothing is read again."""
    carried, mine = _carried(component), [lora for lora in loras if _is_for(lora, name)]
    is_same = all(_mark(component).get(lora.adapter) == lora.sha256 for lora in loras)
    if is_same and carried == [lora.adapter for lora in mine]:
        _activate(component, name, mine)
        return
    if carried:
        if name.startswith("text_encoder"):
            from diffusers.loaders.lora_base import _remove_text_encoder_monkey_patch

            _remove_text_encoder_monkey_patch(component)
        else:
            component.unload_lora()
        _mark(component).clear()
    fit(component, name, loras=loras, pipeline=pipeline)


def refit_all(components: Mapping[str, Any], *, loras: Sequence[Lora], pipeline: str) -> None:
    """Exchange what the components of a whole pipeline carry for `loras`; without any, they are as they were loaded.

    Raises `ValueError` for a pipeline that takes none, and for a LoRA that none of its components is meant for; they
    may then carry some of them.
    """
    takers = {name: components.get(name) for name in _mixin(pipeline)._lora_loadable_modules if name in TAKERS}
    there = {name: component for name, component in takers.items() if component is not None}
    for name, component in there.items():
        refit(component, name, loras=loras, pipeline=pipeline)
    carried = {adapter for component in there.values() for adapter in _carried(component)}
    if idle := next((lora for lora in loras if lora.adapter not in carried), None):
        raise ValueError(f"LoRA {idle.path} changes none of {', '.join(there)} of this model; use one made for it")


def _mixin(pipeline: str) -> Any:
    """The LoRA loader of a pipeline class, without the pipeline."""
    import diffusers
    from diffusers.loaders.lora_base import LoraBaseMixin

    cls, pipelines = getattr(diffusers, pipeline), (diffusers.DiffusionPipeline, diffusers.ModularPipeline)
    found = [c for c in cls.__mro__ if issubclass(c, LoraBaseMixin) and not issubclass(c, pipelines)]
    if not found:
        raise ValueError(f"{pipeline} takes no LoRAs in diffusers {diffusers.__version__}; remove them from the model")
    return found[0]


def _load(component: Any, name: str, *, lora: Lora, mixin: Any) -> bool:
    """Whether the file had something for this component."""
    try:
        is_same = sha256_of(Path(lora.path)) == lora.sha256
    except OSError as error:
        raise ValueError(f"LoRA {lora.path} cannot be read ({error.strerror}); load it again") from None
    if not is_same:
        raise ValueError(f"LoRA {lora.path} has changed since it was chosen; run again")
    check_lora(read_tensor_file(Path(lora.path)))
    with _one_sentence(lora), offline():
        tensors, *alphas, metadata = mixin.lora_state_dict(
            lora.path, return_alphas=True, return_lora_metadata=True, use_safetensors=True, local_files_only=True
        )
    changed = Counter(key.partition(".")[0] for key in tensors if key.endswith(ENDS))  # layers of each component
    _check_match(tensors, changed, lora, mixin)
    num_read = changed[name] or changed["transformer"] * (name in ("transformer_2", "transformer_ref"))
    if not _is_for(lora, name) or not num_read:
        return False
    shapes = _shapes(component)
    with _one_sentence(lora), quiet_libraries(), offline(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Already found a `peft_config`")  # several LoRAs are meant
        warnings.filterwarnings("ignore", message="TorchaoLoraLinear was instantiated")  # it cannot merge, nor do we
        if name.startswith("text_encoder"):
            mixin.load_lora_into_text_encoder(
                dict(tensors),
                network_alphas=alphas[0] if alphas else None,
                text_encoder=component,
                prefix=name,
                lora_scale=1.0,
                adapter_name=lora.adapter,
                metadata=metadata,
            )
        else:
            _load_transformer(component, name, lora=lora, mixin=mixin)
    if _shapes(component) != shapes or getattr(component, "_transformer_norm_layers", None):
        # diffusers widens layers and replaces norms for FLUX control LoRAs, which want a second picture as input
        raise ValueError(
            f"LoRA {lora.path} has other sizes than this model, or is a control LoRA, which is not supported; "
            "use one made for it"
        )
    _check_layers(component, name, lora=lora, num_read=num_read)
    _mark(component)[lora.adapter] = lora.sha256
    return True


def _one_sentence(lora: Lora) -> AbstractContextManager[None]:
    """What a file that does not match raises depends on diffusers and peft; their assertions say nothing."""

    def told(error: BaseException) -> str:
        reason = one_line(error) if str(error).strip() else "its layers are called or shaped otherwise"
        return f"LoRA {lora.path} does not fit this model ({reason}); use one made for it"

    return refused_as(told)


def _shapes(component: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the model's own weights, under the names they have without LoRAs."""
    weights = {name.replace(".base_layer.", "."): tuple(w.shape) for name, w in component.named_parameters()}
    return {name: shape for name, shape in weights.items() if ".lora_" not in name and ".lokr_" not in name}


def _check_match(tensors: Mapping[str, Any], changed: Mapping[str, int], lora: Lora, mixin: Any) -> None:
    loadable = [name for name in mixin._lora_loadable_modules if name in TAKERS]
    if not changed.keys() & loadable:
        some = ", ".join(sorted(tensors)[:2])
        raise ValueError(f"LoRA {lora.path} has nothing for this model (it names {some[:200]}); use one made for it")
    others = {key.partition(".")[0] for key in tensors} - {*loadable}
    if others:
        logger.warning("LoRA %s: its parts for %s are not used", lora.path, ", ".join(sorted(others))[:200])


def _load_transformer(component: Any, name: str, *, lora: Lora, mixin: Any) -> None:
    """The pipeline's own `load_lora_weights`, on an object that holds nothing but the component."""

    def skip(*_: Any, **__: Any) -> None:
        """Other components get their part when they are loaded."""

    others = [each for each in ("text_encoder", "text_conditioner", "transformer") if not name.startswith(each)]
    holder = type("_Holder", (mixin,), {f"load_lora_into_{each}": skip for each in others})()
    holder.text_conditioner = component
    setattr(holder, "transformer_ref" if name == "transformer_ref" else "transformer", component)
    holder.text_encoder = holder.text_encoder_2 = holder.hf_device_map = None
    holder.components = {}
    options = {}
    if name == "transformer_2":
        holder.transformer_2 = component
        options["load_into_transformer_2"] = True
    holder.load_lora_weights(
        lora.path, adapter_name=lora.adapter, use_safetensors=True, local_files_only=True, **options
    )


def _check_layers(component: Any, name: str, *, lora: Lora, num_read: int) -> None:
    """diffusers loads a file whose layer names match nothing without a word."""
    num_layers = sum(
        lora.adapter in getattr(module, "lora_A", {}) or lora.adapter in getattr(module, "lokr_w1", {})
        for module in component.modules()
    )
    if not num_layers:
        raise ValueError(f"LoRA {lora.path} matches no layer of {name}; use one made for this model")
    if num_layers < num_read:
        logger.warning("LoRA %s: %d of its %d layers of %s match the model", lora.path, num_layers, num_read, name)


def _carried(component: Any) -> list[str]:
    """The adapters that are on a component, in order."""
    return list(getattr(component, "peft_config", {}))


def _activate(component: Any, name: str, loras: Sequence[Lora]) -> None:
    names, scales = [lora.adapter for lora in loras], [lora.scale for lora in loras]
    if name.startswith("text_encoder"):
        from diffusers.loaders.lora_base import set_adapters_for_text_encoder

        set_adapters_for_text_encoder(names, component, scales)
    else:
        component.set_adapters(names, scales)


def _is_for(lora: Lora, name: str) -> bool:
    """Whether a file is meant for this expert, by its name; files for no expert in particular are for both."""
    stem = Path(lora.path).stem
    named = [expert for expert, pattern in EXPERTS.items() if pattern.search(stem)]
    return name not in EXPERTS or not named or name in named


def _mark(component: Any) -> dict[str, str]:
    """Content hashes of the adapters that a component carries, kept on the component itself."""
    return component.__dict__.setdefault("_latentloom_loras", {})
