"""Our blocks in the place of stock ones, for modular pipelines of many models: on a pool, and under each plan.

    python tests/bench/modular_blocks.py [CLASS ...]

Tiny random models on a CPU, fp32, two steps: about ten seconds a class, 2 GB. A number is the most that any latent or
pixel differs from the stock pipeline's, of its largest value. `nudge` is how far the stock pipeline itself goes when
the tokens that its transformers are given first are changed by 1e-7, up or down: what only rounds otherwise goes as
far. Exit 1 where ours at one rank is not the same to the bit, or a plan goes further than 1e-5 and three times that.
"""

import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import support.checkout  # noqa: F401 (makes the checkout importable)

PLANS = ("ulysses=2", "ring=2", "cfg=2")
NUDGE, TOLERANCE = 1e-7, 1e-5
MADE = ("latents", "images", "videos", "audio")


def cases() -> dict[str, tuple[Callable[[], Any], dict[str, Any]]]:
    """By class of modular pipeline: what makes a pipeline with its parts, and what its call takes besides."""
    from support.tiny_models import FAMILIES
    from support.tiny_rows import TINY_ROWS
    from zoo.pipelines import tiny_of
    from zoo.pipelines.tiny import picture

    def row(name: str) -> Callable[[], Any]:
        return TINY_ROWS[name].make

    edited = {"image": picture(80, 48)}
    video = {"num_frames": 9, "width": 96, "height": 64}
    return {
        "FluxModularPipeline": (FAMILIES["flux"], {}),
        "FluxKontextModularPipeline": (row("flux_kontext"), edited),
        "Flux2ModularPipeline": (row("flux_2"), {}),
        "Flux2KleinModularPipeline": (row("flux_2_klein"), {}),
        "Flux2KleinBaseModularPipeline": (row("flux_2_klein_base"), {}),
        "Flux3ModularPipeline": (row("flux_3"), {}),
        "QwenImageModularPipeline": (FAMILIES["qwen_image"], {}),
        "QwenImageEditModularPipeline": (row("qwen_image_edit"), {"image": picture(64, 64)}),
        "QwenImageEditPlusModularPipeline": (row("qwen_image_edit_plus"), {"image": [picture(64, 64)]}),
        "QwenImage21ModularPipeline": (row("qwen_image_21"), {"width": 160, "height": 96}),
        "StableDiffusion3ModularPipeline": (FAMILIES["sd3"], {}),
        "ZImageModularPipeline": (row("z_image"), {}),
        "Krea2ModularPipeline": (row("krea_2"), {}),
        "ErnieImageModularPipeline": (row("ernie_image"), {}),
        "AnimaModularPipeline": (tiny_of("AnimaModularPipeline").make, {}),
        "WanModularPipeline": (FAMILIES["wan"], {"num_frames": 5}),
        "Wan22ModularPipeline": (FAMILIES["wan22"], {"num_frames": 5}),
        "WanImage2VideoModularPipeline": (FAMILIES["wan_i2v"], {"num_frames": 5, "image": picture(80, 48)}),
        "HunyuanVideo15ModularPipeline": (row("hunyuan_video_15"), {"num_frames": 5}),
        "LTXModularPipeline": (row("ltx"), video),
        "LTX2ModularPipeline": (row("ltx_2"), {**video, "frame_rate": 24.0}),
        "MiniMaxH3ModularPipeline": (row("minimax_h3"), {"num_frames": 124, "width": 48, "height": 32}),
    }


def pipeline(name: str, make: Callable[[], Any], change: Callable[[Any], None]) -> Any:
    import diffusers
    import torch

    from latentloom.pipelines.signatures.table import REWRITERS
    from support.tiny_parts import fill

    kind = getattr(diffusers, name)
    blocks = getattr(diffusers, kind.default_blocks_name)()
    for each in {*REWRITERS} & blocks.sub_blocks.keys():  # which no tiny model has
        blocks.sub_blocks.pop(each)
    change(blocks)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = make()
    fill(parts)
    pipe = kind(blocks=blocks)
    pipe.update_components(**{each: part for each, part in parts.components.items() if each in pipe._component_specs})
    settings = {each: parts.config[each] for each in pipe._config_specs if parts.config.get(each) is not None}
    pipe.update_components(**settings)
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)
    return pipe


def ours(blocks: Any, plan: str, pool: Any) -> None:
    import latentloom

    make = latentloom.blocks
    for name, stock in list(blocks.sub_blocks.items()):
        if "denoise" in name:
            blocks.sub_blocks[name] = make.Denoise(stock, plan, pool)
        elif "decode" in name:
            blocks.sub_blocks[name] = make.Decode(stock, pool)
        elif "text_encoder" in name:
            blocks.sub_blocks[name] = make.Encode(stock, pool)


def made(pipe: Any, more: dict[str, Any]) -> dict[str, Any]:
    import torch

    given = {"width": 80, "height": 48, "negative_prompt": "bad", "max_sequence_length": 64, **more}
    given |= {"prompt": "a red circle", "num_inference_steps": 2, "output_type": "pt"}
    given["generator"] = torch.Generator().manual_seed(0)
    state = pipe(**{name: value for name, value in given.items() if name in pipe.blocks.input_names})
    found = {name: state.get(name) for name in MADE if state.get(name) is not None}
    return {name: each[0] if isinstance(each, list) else torch.as_tensor(each) for name, each in found.items()}


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[each] - other[each]).abs().max()) / max(1.0, float(one[each].abs().max())) for each in one)


def nudged(pipe: Any, more: dict[str, Any], nudge: float) -> dict[str, Any]:
    """What the pipeline makes when the tokens that its transformers are given first differ by this factor."""
    import torch
    from torch.utils import _pytree as pytree

    def before(_: Any, args: Any, kwargs: Any) -> Any:
        for hook in hooks:
            hook.remove()
        return pytree.tree_map(lambda each: each * (1 + nudge) if is_tokens(each) else each, (args, kwargs))

    def is_tokens(value: Any) -> bool:  # no time, of which an embedding takes sines of a thousandfold
        return isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim > 2

    parts = [part for name, part in pipe.components.items() if name.startswith("transformer") and part is not None]
    hooks = [part.register_forward_pre_hook(before, with_kwargs=True) for part in parts]
    return made(pipe, more)


def main(names: list[str]) -> int:
    import torch

    import latentloom

    torch.set_num_threads(1)
    known, failed = cases(), 0
    with latentloom.Pool("cpu*2") as pool:
        for name in names or known:
            make, more = known[name]
            told: list[str] = []
            try:
                stock = pipeline(name, make, lambda _: None)
                stages = ", ".join(stock._blocks.sub_blocks)
                wanted = made(stock, more)
                one = apart(wanted, made(pipeline(name, make, lambda b: ours(b, "", None)), more))
                nudge = max(apart(wanted, nudged(stock, more, each)) for each in (NUDGE, -NUDGE))
                told += [f"one {one:.1e}", f"nudge {nudge:.1e}"]
                failed += one != 0
            except Exception as error:
                print(f"{name:34} stock: {type(error).__name__}: {str(error)[:150]}", flush=True)
                traceback.print_exc(limit=-3)
                failed += 1
                continue
            for plan in PLANS if getattr(stock, "guider", None) else PLANS[:2]:
                try:
                    pipe = pipeline(name, make, lambda blocks, plan=plan: ours(blocks, plan, pool))
                    found = apart(wanted, made(pipe, more))
                    told.append(f"{plan} {found:.1e}")
                    failed += found > max(TOLERANCE, 3 * nudge)
                except (ValueError, RuntimeError, AssertionError, AttributeError, KeyError, TypeError) as error:
                    told.append(f"{plan} {type(error).__name__}: {str(error)[:200]}")
                    failed += 1
            print(f"{name:34} {'  '.join(told)}  ({stages})", flush=True)
    print(f"{failed} further apart than that")
    return 1 if failed else 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    sys.exit(main(sys.argv[1:]))
