"""What a rank does to test masked denoising: a whole inpainting, under several plans and alone."""

from typing import Any

import torch

from bodies.requests import request_of
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import stages
from latentloom.pipelines.values import Image, Mask


def inpaint(rank: int, model: dict[str, Any], plans: list[str]) -> list[tuple[float, float, list[float]]]:
    """For each plan the largest difference to this rank alone, the largest latent, and what tells the latents' bits."""
    pixels = torch.linspace(0, 1, 48 * 64 * 3).reshape(1, 64, 48, 3)
    mask = torch.zeros(1, 64, 48)
    mask[:, 12:45, 20:] = 0.8
    latents = stages.encode_image(model=model, image=Image(pixels=pixels))
    request = request_of(model, latents=latents, mask=Mask(pixels=mask), steps=4, strength=0.75, guidance=3.0)
    whole = stages.denoise(request).tensor if rank == 0 else None
    found = []
    for plan in plans:
        got = stages.denoise({**request, "plan": ParallelPlan.parse(plan)}).tensor
        whole = got if whole is None else whole  # the first rank compares, and all have its bits
        found.append((float((got - whole).abs().max()), float(whole.abs().max()), got.double().flatten().tolist()))
    return found
