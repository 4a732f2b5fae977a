"""Train bobbin's transformer and text encoders: `python -m latentloom.pipelines.bobbin.train --minutes 45 --out DIR`.

Flow matching (Lipman et al. 2022, arXiv:2210.02747) with logit-normal times (Esser et al. 2024, arXiv:2403.03206).
DIR must hold vae/ from `train_vae`; DIR/model is the finished FluxPipeline folder. The run may be stopped at any time.
"""

import argparse
import contextlib
import math
import random
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import checkpoint
from .export import export
from .latents import encode_scenes
from .learner import Learner
from .progress import Progress, advance
from .scene import Scene
from .wording import TEXT_LENGTH, word

# B batch, S sequence, C channels


@dataclass(frozen=True, kw_only=True)
class Training:
    """One run. Pictures, captions, times and noise depend on seed and step alone, so a stopped run can go on as if
    it had not been stopped."""

    steps: int = 5000
    batch: int = 48
    learning_rate: float = 1.5e-3
    warmup: int = 100
    dropout: float = 0.1
    """Share of empty captions, which true guidance and negative prompts lean on."""
    pool: int = 4000
    """Scenes rendered and encoded at once; batches are drawn from them until `pool_steps` have passed."""
    pool_steps: int = 500
    ema: float = 0.999
    text_lengths: tuple[int, ...] = (TEXT_LENGTH,) * 15 + (24,) * 2 + (32,) * 2 + (64,)
    """FLUX does not mask padding; seeing several lengths makes the model care less about it."""
    seed: int = 0
    device: str = "cpu"
    compiled: bool = False
    """Fuse the transformer's kernels: a third faster on a CPU, needs a C++ compiler, rounds a little differently."""
    machine: str = "x86-64 CPU, 1 thread"
    """For the record in the model card."""


def learning_rate(config: Training, step: int) -> float:
    """Warm-up, then level for three tenths of the run, then a half cosine down to one hundredth."""
    share = step / config.steps
    fall = 1.0 if share < 0.3 else 0.5 * (1 + math.cos(math.pi * (share - 0.3) / 0.7))
    return config.learning_rate * min(1, (step + 1) / config.warmup) * max(fall, 0.01)


def flow_loss(learner: Learner, latents: Tensor, scenes: list[Scene], *, step: int, config: Training) -> Tensor:
    """The loss of one batch drawn from the pool: squared error of the velocity, noise minus picture."""
    rng = random.Random(f"batch {config.seed} {step}")
    noise_rng = torch.Generator().manual_seed(config.seed + 1_000_003 * step)
    chosen = [rng.randrange(len(scenes)) for _ in range(config.batch)]
    captions = ["" if rng.random() < config.dropout else word(scenes[i], rng) for i in chosen]
    x0 = latents[chosen]  # B S C
    noise = torch.randn(x0.shape, generator=noise_rng).to(x0)
    times = torch.sigmoid(torch.randn(config.batch, generator=noise_rng) + 0.3).to(x0)  # B, 1 is pure noise
    noisy = torch.lerp(x0, noise, times[:, None, None])
    # The CPU's flash attention has a backward pass twice as slow as plain matrix products at this length (torch 2.13).
    kernel = sdpa_kernel(SDPBackend.MATH) if x0.device.type == "cpu" else contextlib.nullcontext()
    with torch.autocast(x0.device.type, torch.bfloat16), kernel:
        velocity = learner(noisy, times, captions, text_length=rng.choice(config.text_lengths))
    return (velocity.float() - (noise - x0)).pow(2).mean()


@torch.no_grad()
def _follow(ema: dict[str, Tensor], learner: Learner, step: int, decay: float) -> None:
    """Move the running mean of the weights towards the weights, faster at first."""
    share = 1 - min(decay, (1 + step) / (10 + step))
    for name, value in learner.state_dict().items():
        if value.is_floating_point():
            ema[name].lerp_(value, share)


def train(config: Training, out: Path, *, minutes: float, resume: bool, last_step: int | None = None) -> int:
    """Train until `last_step` or until the minutes (processor time) are over; write out/model, return the last step."""
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    torch.manual_seed(config.seed)
    vae: Any = AutoencoderKL.from_pretrained(out / "vae").eval()
    vae.to(config.device)
    learner = Learner(latent_channels=vae.config["latent_channels"]).to(config.device).train()
    if config.compiled:
        learner.transformer.compile(dynamic=False)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    ema = {name: value.detach().clone() for name, value in learner.state_dict().items()}
    progress, state = Progress(), out / "train_state.safetensors"
    if resume and state.exists():
        progress = _restore(state, learner, optimizer, ema)

    @lru_cache(maxsize=1)
    def pool(index: int) -> tuple[Tensor, list[Scene]]:
        return encode_scenes(vae, config.pool, random.Random(f"pool {config.seed} {index}"))

    def learn(step: int) -> float:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step)
        loss = flow_loss(learner, *pool(step // config.pool_steps), step=step, config=config)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        _follow(ema, learner, step, config.ema)
        return loss.item()

    def keep() -> None:
        groups = {"learner": learner.state_dict(), "ema": ema, "optimizer": checkpoint.optimizer_tensors(optimizer)}
        checkpoint.save(state, groups, asdict(progress) | {"seed": config.seed})

    advance(progress, learn, keep=keep, last_step=config.steps if last_step is None else last_step, minutes=minutes)
    learner.load_state_dict(ema)
    export(learner.eval().cpu(), vae.cpu(), out / "model", scratch=out, machine=config.machine)
    return progress.step


def _restore(path: Path, learner: Learner, optimizer: torch.optim.Optimizer, ema: dict[str, Tensor]) -> Progress:
    """Put a checkpoint back into everything that `train` moves."""
    groups, facts = checkpoint.load(path)
    learner.load_state_dict(groups["learner"])
    checkpoint.restore_optimizer(optimizer, groups["optimizer"])
    for name, value in groups["ema"].items():
        ema[name].copy_(value)
    return Progress(step=facts["step"], cpu_s=facts["cpu_s"], curve=facts["curve"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder with vae/; gets checkpoints, then model/")
    parser.add_argument("--minutes", type=float, default=45, help="stop after this much processor time")
    parser.add_argument("--steps", type=int, default=Training.steps, help="length of the whole schedule")
    parser.add_argument("--seed", type=int, default=Training.seed)
    parser.add_argument("--device", default=Training.device)
    parser.add_argument("--compile", action="store_true", help="a third faster on a CPU; needs a C++ compiler")
    parser.add_argument("--machine", default=Training.machine, help="what to write into the model card")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    config = Training(steps=args.steps, seed=args.seed, device=args.device, compiled=args.compile, machine=args.machine)
    done = train(config, args.out, minutes=args.minutes, resume=args.resume)
    if done < config.steps:
        print(f"stopped after {done} of {config.steps} steps; go on with --resume")


if __name__ == "__main__":
    main()
