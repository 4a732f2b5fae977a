"""Train bobbin's autoencoder: `python -m latentloom.pipelines.bobbin.train_vae --minutes 10 --out DIR [--resume]`."""

import argparse
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from . import checkpoint
from .architecture import build_vae
from .progress import Progress, advance
from .scene import render, sample

# B batch, C channels, H W picture


@dataclass(frozen=True, kw_only=True)
class VaeTraining:
    """One autoencoder run. Every batch depends on seed and step alone, so a resumed run equals an uninterrupted one."""

    steps: int = 1800
    batch: int = 16
    learning_rate: float = 2e-3
    seed: int = 0
    device: str = "cpu"


def pictures(num: int, rng: random.Random) -> Tensor:
    """Rendered scenes as the autoencoder sees them: float, -1 to 1."""
    stack = np.stack([render(sample(rng, two=0.6), rng) for _ in range(num)])
    return torch.from_numpy(stack).permute(0, 3, 1, 2).float() / 127.5 - 1  # B C H W


def vae_loss(vae: Any, x: Tensor, noise: torch.Generator) -> Tensor:
    """Absolute and squared error, edges, block means, and a trace of KL that keeps latents near unit size."""
    with torch.autocast(x.device.type, torch.bfloat16):
        posterior = vae.encode(x).latent_dist
        y = vae.decode(posterior.sample(generator=noise)).sample
    y = y.float()
    edges = (y.diff(dim=-1) - x.diff(dim=-1)).abs().mean() + (y.diff(dim=-2) - x.diff(dim=-2)).abs().mean()
    means = (F.avg_pool2d(y, 4) - F.avg_pool2d(x, 4)).abs().mean()
    kl = posterior.kl().mean() / x[0].numel()
    return (y - x).abs().mean() + 2 * (y - x).pow(2).mean() + 0.5 * edges + 0.5 * means + 1e-4 * kl


def train(config: VaeTraining, out: Path, *, minutes: float, resume: bool, last_step: int | None = None) -> int:
    """Train until `last_step` or until the minutes (processor time) are over; write out/vae once the schedule is done,
    return the last step."""
    torch.manual_seed(config.seed)
    vae: Any = build_vae().train()
    vae.to(config.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(vae.parameters(), lr=config.learning_rate, betas=(0.9, 0.99), weight_decay=1e-4)
    progress, state = Progress(), out / "train_vae_state.safetensors"
    if resume and state.exists():
        groups, facts = checkpoint.load(state)
        vae.load_state_dict(groups["vae"])
        checkpoint.restore_optimizer(optimizer, groups["optimizer"])
        progress = Progress(step=facts["step"], cpu_s=facts["cpu_s"], curve=facts["curve"])

    def learn(step: int) -> float:
        rng = random.Random(f"vae {config.seed} {step}")
        noise = torch.Generator(config.device).manual_seed(config.seed + 1_000_003 * step)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1, (step + 1) / 50) * (1 - 0.97 * step / config.steps)
        x = pictures(config.batch, rng).to(config.device, memory_format=torch.channels_last)
        loss = vae_loss(vae, x, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def keep() -> None:
        groups = {"vae": vae.state_dict(), "optimizer": checkpoint.optimizer_tensors(optimizer)}
        checkpoint.save(state, groups, asdict(progress) | {"seed": config.seed})

    advance(progress, learn, keep=keep, last_step=config.steps if last_step is None else last_step, minutes=minutes)
    if progress.step == config.steps:
        _finish(vae.eval(), out, config.seed)
    return progress.step


@torch.no_grad()
def _finish(vae: Any, out: Path, seed: int) -> None:
    """Measure the latents' mean and spread, report the error on fresh pictures, and save the diffusers folder."""
    device = next(vae.parameters()).device
    x = pictures(256, random.Random(f"vae test {seed}")).to(device)
    z = torch.cat([vae.encode(part).latent_dist.mode() for part in x.split(32)])
    vae.register_to_config(scaling_factor=float(1 / z.std()), shift_factor=float(z.mean()))
    y = torch.cat([vae.decode(part).sample for part in z.split(32)])
    error = ((y.clamp(-1, 1) - x) / 2).pow(2).mean()
    print(f"PSNR {-10 * error.log10():.2f} dB, spread per channel {[round(s, 2) for s in z.std((0, 2, 3)).tolist()]}")
    vae.to("cpu", memory_format=torch.contiguous_format).save_pretrained(out / "vae")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="scratch folder: checkpoints, then vae/")
    parser.add_argument("--minutes", type=float, default=10, help="stop after this much processor time")
    parser.add_argument("--steps", type=int, default=VaeTraining.steps, help="length of the whole schedule")
    parser.add_argument("--seed", type=int, default=VaeTraining.seed)
    parser.add_argument("--device", default=VaeTraining.device)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    config = VaeTraining(steps=args.steps, seed=args.seed, device=args.device)
    done = train(config, args.out, minutes=args.minutes, resume=args.resume)
    if done < config.steps:
        print(f"stopped after {done} of {config.steps} steps; go on with --resume")


if __name__ == "__main__":
    main()
