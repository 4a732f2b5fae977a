"""What may be changed of a transformer between two forwards, and a graph must not miss."""

from collections.abc import Callable
from typing import Any

import torch
from diffusers.models.transformers.transformer_flux import FluxAttnProcessor
from peft import LoraConfig
from torch import Tensor

from support.cells import model_of
from zoo.cases import Case


class Halved(FluxAttnProcessor):
    def __call__(self, attn: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(attn, hidden_states * 0.5, *args, **kwargs)


def flux_with_lora() -> tuple[Any, dict[str, Any]]:
    """A tiny FLUX with a LoRA that changes what it gives, and inputs."""
    model, inputs = model_of("flux", Case("any", rows=3, columns=5, text=7))
    torch.manual_seed(1)
    model.add_adapter(LoraConfig(r=4, target_modules=["to_q", "proj_mlp"], init_lora_weights=False))
    return model, inputs


def _double(_: Any, given: Any, output: Tensor) -> Tensor:
    return output * 2.0


def _hooked(model: Any) -> list[Any]:
    return [block.proj_out.register_forward_hook(_double) for block in model.single_transformer_blocks]


def _unhook(model: Any, handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


def _processed(model: Any) -> dict[str, Any]:
    before = model.attn_processors
    model.set_attn_processor(Halved())
    return before


# What it is -> (do it, undo it with what that gave).
CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "the scale of a LoRA": (
        lambda model: model.set_adapters("default", 0.25),
        lambda model, _: model.set_adapters("default", 1.0),
    ),
    "a LoRA turned off": (lambda model: model.disable_adapters(), lambda model, _: model.enable_adapters()),
    "another processor": (_processed, lambda model, before: model.set_attn_processor(before)),
    "q, k and v fused": (lambda model: model.fuse_qkv_projections(), lambda model, _: model.unfuse_qkv_projections()),
    "a hook on a layer": (_hooked, _unhook),
}
