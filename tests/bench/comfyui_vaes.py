"""ComfyUI's own VAEs by rows: what ranks decode together against one that decodes whole, on the CPU.

    COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_vaes.py [--cases WORD]

DIR and PYTHON are as in `comfyui_matrix.py`. Each VAE of Spread VAE's list, small and with random weights, has to be
within 1e-5 of the largest value over two and over three ranks, with the same bits on all. Prints a table, and ends with
1 where one is not so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from comfyui_matrix import ALLOWED, asked_of_ranks, joined

Made = tuple[Any, tuple[int, ...]]
PICTURE: dict[str, Any] = {
    **{"double_z": True, "z_channels": 16, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 32},
    **{"ch_mult": [1, 2, 4, 4], "num_res_blocks": 1, "attn_resolutions": [], "dropout": 0.0},
}
MODEL = "comfy.ldm.modules.diffusionmodules.model"
WAN: dict[str, Any] = {
    **{"dim_mult": [1, 2, 4, 4], "num_res_blocks": 1, "attn_scales": [], "temperal_downsample": [False, True, True]},
    "dropout": 0.0,
}


def engine(kind: str, config: dict[str, Any], *shape: int) -> Made:
    from comfy.ldm.models.autoencoder import AutoencodingEngine

    parts: dict[str, Any] = {
        f"{part.lower()}_config": {"target": f"{kind}.{part}", "params": config} for part in ("Encoder", "Decoder")
    }
    regular = {"target": "comfy.ldm.models.autoencoder.DiagonalGaussianRegularizer"}
    return AutoencodingEngine(regularizer_config=regular, **parts), shape


def kl(*shape: int, **config: Any) -> Made:
    from comfy.ldm.models.autoencoder import AutoencoderKL

    return AutoencoderKL(ddconfig={**PICTURE, **config}, embed_dim=16), shape


def wan(*shape: int, is_second: bool = False) -> Made:
    from comfy.ldm.wan import vae, vae2_2

    kind, z_dim = (vae2_2, 48) if is_second else (vae, 16)
    return kind.WanVAE(dim=16, z_dim=z_dim, **WAN), shape


def hunyuan_image() -> Made:
    given = {"block_out_channels": [32, 64, 64], "in_channels": 3, "out_channels": 3, "num_res_blocks": 1}
    given |= {"ffactor_spatial": 4, "downsample_match_channel": True, "upsample_match_channel": True, "z_channels": 16}
    return engine("comfy.ldm.hunyuan_video.vae", given, 1, 16, 9, 7)


def hunyuan_video() -> Made:
    given = {"block_out_channels": [32, 64, 64, 64], "in_channels": 3, "out_channels": 3, "num_res_blocks": 1}
    given |= {"ffactor_spatial": 8, "ffactor_temporal": 4, "downsample_match_channel": True, "z_channels": 16}
    return engine(
        "comfy.ldm.hunyuan_video.vae_refiner", given | {"upsample_match_channel": True, "refiner_vae": False},
        1, 16, 3, 9, 7,
    )  # fmt: skip


CASES: dict[str, Callable[[], Made]] = {
    "picture, FLUX, SD3, Z-Image, Chroma": partial(engine, MODEL, PICTURE, 1, 16, 9, 7),
    "picture, SD: quantized, two at once": partial(kl, 2, 16, 11, 6),
    "picture, FLUX.2: normed latents": partial(kl, 1, 64, 9, 7, batch_norm_latent=True),
    "video, HunyuanVideo": partial(kl, 1, 16, 5, 9, 7, conv3d=True, time_compress=4),
    "video, HunyuanVideo, one frame": partial(kl, 1, 16, 1, 9, 7, conv3d=True, time_compress=4),
    "Wan 2.1, Qwen-Image: one frame": partial(wan, 1, 16, 1, 9, 7),
    "Wan 2.1: two frames": partial(wan, 1, 16, 2, 9, 7),
    "Wan 2.1: five frames, two at once": partial(wan, 2, 16, 5, 9, 7),
    "Wan 2.1: six frames": partial(wan, 1, 16, 6, 9, 7),
    "Wan 2.2: one frame": partial(wan, 1, 48, 1, 9, 7, is_second=True),
    "Wan 2.2: three frames": partial(wan, 1, 48, 3, 9, 7, is_second=True),
    "HunyuanImage 2.1": hunyuan_image,
    "HunyuanVideo 1.5": hunyuan_video,
}


def made(case: str) -> tuple[Any, Any]:
    import torch
    from torch import nn

    model, shape = CASES[case]()
    torch.manual_seed(0)
    for name, each in [*model.named_parameters(), *model.named_buffers()]:
        if each.is_floating_point() and each.numel():
            is_scale = "norm" in name or "gamma" in name or "running_var" in name
            width = each.shape[1:].numel() if each.ndim > 1 and "gamma" not in name else 400
            nn.init.normal_(each, mean=float(is_scale), std=width**-0.5)
            each.data = each.data.abs() if "running_var" in name else each.data
    return model.eval().requires_grad_(False), torch.randn(shape)


def compared(case: str, num_ranks: int) -> dict[str, Any]:
    """Collective: one VAE over so many ranks; nothing on the others."""
    import torch

    from latentloom.parallel.group import Axis
    from latentloom.parallel.mesh import mesh_for
    from latentloom.parallel.plan import ParallelPlan
    from latentloom.pipelines.spreading.vae import decoded_by_rows

    mesh = mesh_for(ParallelPlan(ulysses=num_ranks))
    try:
        model, z = made(case)
        with torch.no_grad():
            whole = model.decode(z)
            found = decoded_by_rows(model.decode, z, group=mesh[Axis.SEQUENCE], title=type(model).__name__)
    except Exception as error:
        if "TRACE" in os.environ:
            raise
        return {"error": f"{type(error).__name__}: {error}"}
    mark = hashlib.sha256(found.contiguous().numpy().tobytes()).hexdigest()[:12]
    apart = float((whole - found).abs().max() / whole.abs().max())
    return {"apart": apart, "mark": mark, "same": torch.equal(whole, found), "largest": float(whole.abs().max())}


def on_rank() -> None:
    _, asked, answer = joined()
    answer.write_text(json.dumps([compared(case, asked["ranks"]) for case in asked["cases"]]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", default="", help="those with this in their names")
    options = parser.parse_args()
    if "COMFYUI_DIR" not in os.environ:
        print("blocked: COMFYUI_DIR names no checkout of ComfyUI")
        return 1
    cases, failed = [case for case in CASES if options.cases in case], 0
    for num_ranks in (2, 3):
        rows = zip(*asked_of_ranks(__file__, num_ranks, {"cases": cases, "ranks": num_ranks}), strict=True)
        for case, cells in zip(cases, rows, strict=True):
            first = cells[0]
            told = first.get("error", "") or ("" if len({each["mark"] for each in cells}) == 1 else "ranks differ")
            told = told or ("" if first["apart"] <= ALLOWED else "not the same")
            failed += bool(told)
            bits = "same bits" if first.get("same") else ""
            print(f"{num_ranks} ranks  {case:36} {first.get('apart', 1):.1e} {bits:9} {told}".rstrip())
    print(f"{2 * len(cases) - failed} of {2 * len(cases)} cells right, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1].isdigit():
        on_rank()
    else:
        sys.exit(main())
