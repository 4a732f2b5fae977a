"""Stock modular pipelines over tiny models, with our blocks and without: what ranks of the tests run."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.modular_pipelines.flux.modular_blocks_flux import FluxAutoBlocks
from diffusers.modular_pipelines.ltx2.modular_blocks_ltx2 import LTX2AutoBlocks
from diffusers.modular_pipelines.wan.modular_blocks_wan import WanBlocks
from diffusers.modular_pipelines.wan.modular_blocks_wan_i2v import WanImage2VideoAutoBlocks
from torch import Tensor

import latentloom
from support.tiny_models import flux, wan, wan_i2v
from support.tiny_parts import fill
from support.tiny_rows import TINY_ROWS
from zoo.pipelines.tiny import picture

PROMPT = "a red circle"
BLOCKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "flux": (FluxAutoBlocks, flux),
    "wan": (WanBlocks, wan),
    "wan_i2v": (WanImage2VideoAutoBlocks, wan_i2v),
    "ltx_2": (LTX2AutoBlocks, TINY_ROWS["ltx_2"].make),  # with a second guider, of its sound
}


def pipeline(family: str, change: Callable[[Any], None] = lambda _: None) -> Any:
    """The stock pipeline of a tiny model, its blocks changed before they are put together."""
    make, model = BLOCKS[family]
    blocks = make()
    change(blocks)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = model()
    fill(parts)
    pipe = blocks.init_pipeline()
    pipe.update_components(**{name: part for name, part in parts.components.items() if name in pipe._component_specs})
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)
    if family.startswith("wan"):
        pipe.update_components(guider=ClassifierFreeGuidance(guidance_scale=4.0))
    return pipe


def call(family: str, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "prompt": PROMPT,
        "height": 64,
        "width": 64,
        "num_inference_steps": 3,
        "max_sequence_length": 32,
        "output_type": "pt",
        "generator": torch.Generator().manual_seed(3),
    }
    if family != "flux":
        given |= {"num_frames": 5, "negative_prompt": "blue"}
    if family == "ltx_2":
        given |= {"num_frames": 9, "width": 96, "frame_rate": 24.0}
    if family == "wan_i2v":
        given["image"] = picture(64, 64)
    return {**given, **more}


def made(pipe: Any, family: str, **more: Any) -> dict[str, Tensor]:
    state = pipe(**call(family, **more))
    pixels = state.get("images" if family == "flux" else "videos")
    return {"pixels": torch.as_tensor(pixels), "latents": state.get("latents"), "embeds": state.get("prompt_embeds")}


def ours(blocks: Any, plan: str, pool: Any = None) -> None:
    """All three in the place of the stock ones."""
    stock = blocks.sub_blocks
    stock["text_encoder"] = latentloom.blocks.Encode(stock["text_encoder"], pool)
    stock["denoise"] = latentloom.blocks.Denoise(stock["denoise"], plan, pool)
    stock["decode"] = latentloom.blocks.Decode(stock["decode"], pool)


def farthest(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def compare(rank: int, family: str, plan: str) -> list[float]:
    """Collective: how far a run with our blocks is from one of stock blocks, twice, and their largest value."""
    torch.set_num_threads(1)
    pipe = pipeline(family, lambda blocks: ours(blocks, plan))
    stock = pipeline(family)
    wanted = [made(stock, family), made(stock, family, prompt="two blue stars")]
    found = [made(pipe, family), made(pipe, family, prompt="two blue stars")]
    largest = max(float(each.abs().max()) for each in wanted[0].values())
    return [*map(farthest, wanted, found), largest]
