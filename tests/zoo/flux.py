"""Tiny FLUX-like transformers: text and image in two streams, then in one."""

from typing import Any

import diffusers
import torch
from diffusers.models.embeddings import ImageProjection, MultiIPAdapterImageProjection
from diffusers.models.transformers.transformer_flux import FluxIPAdapterAttnProcessor
from diffusers.models.transformers.transformer_flux2 import (
    Flux2KVAttnProcessor,
    Flux2KVCache,
    Flux2KVParallelSelfAttnProcessor,
)
from torch import Tensor

from zoo.cases import Built, Case, blocks, grid_ids, noise, text_mask, varied, words

WIDTH = 16  # width of a head; the rotary axes below add up to it


def flux(case: Case) -> Built:
    config = {**_shared_config(case), "pooled_projection_dim": 32}
    return (
        diffusers.FluxTransformer2DModel,
        config,
        {**_shared_inputs(case), "pooled_projections": noise(case.batch, 32)},
    )


flux_guidance = varied(flux, lambda case: {"guidance": torch.full((case.batch,), 3.5)}, guidance_embeds=True)
flux_controlnet = varied(flux, lambda case: _residuals(case))


def flux_adapter(case: Case) -> Built:
    model, config, inputs = flux(case)
    return _with_adapters(model), config, {**inputs, **_adapter_inputs(case)}


def flux2(case: Case) -> Built:
    config = {
        "in_channels": 4,
        **blocks(case, WIDTH),
        "num_single_layers": case.layers,
        "joint_attention_dim": 32,
        "timestep_guidance_channels": 32,
        "axes_dims_rope": [4, 4, 4, 4],
    }
    inputs = _shared_inputs(case, axes=4)
    inputs["txt_ids"][:, 3] = torch.arange(case.text)
    return diffusers.Flux2Transformer2DModel, config, {**inputs, "guidance": torch.ones(case.batch)}


class KeepingFlux2(diffusers.Flux2Transformer2DModel):
    """As its pipeline for kept reference pictures sets it up; the first step also returns what it kept."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        for block in self.transformer_blocks:
            block.attn.set_processor(Flux2KVAttnProcessor())
        for block in self.single_transformer_blocks:
            block.attn.set_processor(Flux2KVParallelSelfAttnProcessor())

    def forward(self, **inputs: Any) -> tuple[Tensor, ...]:
        output = super().forward(**inputs)
        if len(output) == 1:
            return output
        layers = output[1].double_block_caches + output[1].single_block_caches
        return output[0], *(kept for layer in layers for kept in layer.get())


KeepingFlux2.__name__ = diffusers.Flux2Transformer2DModel.__name__


def flux2_first_step(case: Case) -> Built:
    """A reference picture of three tokens more than one row comes before the image."""
    _, config, inputs = flux2(case)
    count = case.columns + 3
    ids = torch.stack([torch.full((count,), 10.0), torch.arange(count), torch.zeros(count), torch.zeros(count)], dim=1)
    inputs["hidden_states"] = torch.cat([noise(case.batch, count, 4, seed=1), inputs["hidden_states"]], dim=1)
    inputs |= {"img_ids": torch.cat([ids, inputs["img_ids"]]), "kv_cache_mode": "extract", "num_ref_tokens": count}
    return KeepingFlux2, config, inputs


def flux2_later_step(case: Case) -> Built:
    _, config, inputs = flux2(case)
    cache = Flux2KVCache(case.layers, case.layers)
    cache.num_ref_tokens = case.columns + 3
    shape = (case.batch, cache.num_ref_tokens, case.heads, WIDTH)
    for index, layer in enumerate(cache.double_block_caches + cache.single_block_caches):
        layer.store(noise(*shape, seed=index), noise(*shape, seed=index + 9))
    return KeepingFlux2, config, {**inputs, "kv_cache": cache, "kv_cache_mode": "cached"}


def flux3(case: Case) -> Built:
    config = {
        "in_channels": 4,
        "cond_in_channels": 4,
        **blocks(case, WIDTH),
        "num_single_layers": case.layers,
        "joint_attention_dim": 32,
        "timestep_channels": 16,
        "axes_dims_rope": (4, 4, 4, 4),
    }
    inputs = _shared_inputs(case, axes=4)
    inputs["txt_ids"][:, 3] = torch.arange(case.text)
    return diffusers.Flux3Transformer2DModel, config, inputs


def flux3_reference(case: Case) -> Built:
    """Step-distilled and with a reference picture, whose tokens are a stream of their own."""
    model, config, inputs = flux3(case)
    ids = inputs["img_ids"][: case.columns + 1].clone()
    ids[:, 0] = 10
    inputs |= {"image_cond_hidden_states": noise(case.batch, len(ids), 4, seed=1), "image_cond_ids": ids}
    return model, {**config, "flow_map": True}, {**inputs, "target_timestep": torch.full((case.batch,), 0.5)}


def chroma(case: Case) -> Built:
    """The mask holds numbers, as in the pipeline: attention adds 1 where two valid tokens meet."""
    config = {
        **_shared_config(case),
        "approximator_num_channels": 8,
        "approximator_hidden_dim": 16,
        "approximator_layers": 1,
    }
    inputs = _shared_inputs(case)
    if case.masked:
        inputs["attention_mask"] = torch.cat([text_mask(case), torch.ones(case.batch, case.tokens)], dim=1)
    return diffusers.ChromaTransformer2DModel, config, inputs


def chroma_bool_mask(case: Case) -> Built:
    model, config, inputs = chroma(case)
    if case.masked:
        inputs["attention_mask"] = inputs["attention_mask"].bool()
    return model, config, {**inputs, **_residuals(case)}


def chroma_adapter(case: Case) -> Built:
    model, config, inputs = chroma(case)
    return _with_adapters(model), config, {**inputs, **_adapter_inputs(case)}


def ovis_image(case: Case) -> Built:
    return diffusers.OvisImageTransformer2DModel, {**_shared_config(case), "out_channels": 4}, _shared_inputs(case)


def longcat_image(case: Case) -> Built:
    return (
        diffusers.LongCatImageTransformer2DModel,
        {**_shared_config(case), "pooled_projection_dim": 32},
        _shared_inputs(case),
    )


def _shared_config(case: Case) -> dict[str, Any]:
    return {
        "patch_size": 1,
        "in_channels": 4,
        **blocks(case, WIDTH),
        "num_single_layers": case.layers,
        "joint_attention_dim": 32,
        "axes_dims_rope": [4, 4, 8],
    }


def _shared_inputs(case: Case, axes: int = 3) -> dict[str, Any]:
    img_ids, txt_ids = grid_ids(case, axes)
    return {
        "hidden_states": noise(case.batch, case.tokens, 4),
        **words(case, 32, 0.7),
        "img_ids": img_ids,
        "txt_ids": txt_ids,
    }


def _residuals(case: Case) -> dict[str, list[Tensor]]:
    shape = (case.batch, case.tokens, WIDTH * case.heads)
    return {
        "controlnet_block_samples": [noise(*shape, seed=1), noise(*shape, seed=2)],
        "controlnet_single_block_samples": [noise(*shape, seed=3)],
    }


def _with_adapters(model: type) -> type:
    """The class with two IP-adapters in it, under its own name, for that is what a split plan is found by."""

    def __init__(self: Any, **config: Any) -> None:
        model.__init__(self, **config)
        width, text_width = self.inner_dim, config["joint_attention_dim"]
        projections = [ImageProjection(8, text_width, num_image_text_embeds=tokens) for tokens in (4, 3)]
        self.encoder_hid_proj = MultiIPAdapterImageProjection(projections)
        for block in self.transformer_blocks:
            adapter = FluxIPAdapterAttnProcessor(width, text_width, num_tokens=(4, 3), scale=[1.0, 0.7])
            block.attn.set_processor(adapter)

    return type(model.__name__, (model,), {"__init__": __init__})


def _adapter_inputs(case: Case) -> dict[str, dict[str, Any]]:
    pictures = [noise(case.batch, 1, 8, seed=4), noise(case.batch, 1, 8, seed=5)]
    return {"joint_attention_kwargs": {"ip_adapter_image_embeds": pictures}}


UNMASKED = """
    flux flux_guidance flux_controlnet flux_adapter flux2 flux2_first_step flux2_later_step flux3 flux3_reference
    ovis_image longcat_image
"""
