"""Train bobbin's transformer and text encoders: `python -m latentloom.pipelines.bobbin.train --preset cpu --out DIR`.

Flow matching (Lipman et al. 2022, arXiv:2210.02747) with logit-normal times (Esser et al. 2024, arXiv:2403.03206).
DIR must hold vae/ from `train_vae`; DIR/model is the finished FluxPipeline folder. The run may be stopped at any time;
`--resume --minutes 0` writes the model of the last checkpoint, also beside a running training.
"""

import contextlib
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import checkpoint, command
from .command import Stretch
from .export import export
from .latents import LatentPool, encode_scenes
from .learner import Learner
from .pools import Pools, Size
from .progress import Progress, advance
from .wording import TEXT_LENGTH, word

# B batch, S sequence, C channels

Counts = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Training:
    """One run. Pictures, captions, times and noise depend on seed and step alone, so a stopped run can go on as if
    it had not been stopped."""

    steps: int
    """Until the last three tenths begin, this may still be changed: nothing before depends on it."""
    batch: int
    sizes: tuple[Size, ...]
    """Width and height of each pool of pictures."""
    pool: int
    pool_life: int
    curriculum: tuple[tuple[int, Counts], ...]
    """From which step on how often one, two and three objects."""
    text_lengths: tuple[int, ...]
    """What captions are padded to, drawn for every batch. FLUX does not mask padding: the model must learn to."""
    learning_rate: float = 1.5e-3
    warmup: int = 100
    dropout: float = 0.1
    """Share of empty captions, which true guidance and negative prompts lean on."""
    ema: float = 0.999
    seed: int = 0
    device: str = "cpu"
    is_compiled: bool = True
    """Fuse the kernels of the transformer's blocks: a quarter faster on a CPU too, after four minutes of compiling."""
    machine: str = ""
    """For the record in the model card."""


PRESETS: dict[str, Training] = {
    # One core for hours: small pictures first, one object first.
    "cpu": Training(
        steps=12000,
        batch=32,
        sizes=((64, 64),) * 4 + ((96, 96),) * 4 + ((128, 128),) * 2,
        pool=128,
        pool_life=160,
        curriculum=((0, (1.0, 0.0, 0.0)), (4000, (0.6, 0.4, 0.0)), (8000, (0.4, 0.4, 0.2))),
        text_lengths=(16,) * 12 + (24,) * 3 + (TEXT_LENGTH,) * 4 + (64,),
        is_compiled=False,
        machine="x86-64 CPU, 1 thread",
    ),
    # One H200, about 20 minutes.
    "gpu": Training(
        steps=14000,
        batch=768,
        sizes=((128, 128),) * 6 + ((96, 96), (160, 160), (64, 64), (160, 128), (96, 128), (128, 64)),
        pool=2048,
        pool_life=240,
        curriculum=((0, (0.6, 0.3, 0.1)), (3000, (0.3, 0.5, 0.2))),
        text_lengths=(24,) * 4 + (TEXT_LENGTH,) * 14 + (64,) * 3 + (128,) * 2 + (256, 512),
        warmup=300,
        ema=0.9995,
        device="cuda",
        machine="one NVIDIA H200",
    ),
}


def learning_rate(config: Training, step: int) -> float:
    """Warm-up, level, and over the last three tenths of the run straight down to one hundredth."""
    left = (config.steps - step) / (0.3 * config.steps)
    return config.learning_rate * min(1, (step + 1) / config.warmup) * max(min(1.0, left), 0.01)


def flow_loss(learner: Learner, pool: LatentPool, *, step: int, config: Training) -> Tensor:
    """The loss of one batch drawn from the pool: squared error of the velocity, noise minus picture."""
    rng = random.Random(f"batch {config.seed} {step}")
    chosen = rng.choices(range(len(pool.scenes)), k=config.batch)
    captions = ["" if rng.random() < config.dropout else word(pool.scenes[i], rng) for i in chosen]
    x0 = pool.tokens[chosen]  # B S C
    noise_rng = torch.Generator(x0.device).manual_seed(config.seed + 1_000_003 * step)
    noise = torch.randn(x0.shape, generator=noise_rng, device=x0.device)
    times = torch.sigmoid(torch.randn(config.batch, generator=noise_rng, device=x0.device) + 0.3)  # B, 1 is pure noise
    noisy = torch.lerp(x0, noise, times[:, None, None])
    # The CPU's flash attention has a backward pass twice as slow as plain matrix products at this length (torch 2.13).
    kernel = sdpa_kernel(SDPBackend.MATH) if x0.device.type == "cpu" else contextlib.nullcontext()
    wanted = rng.choice(config.text_lengths)
    lengths = tuple(sorted({length for length in config.text_lengths if length >= wanted}))
    with torch.autocast(x0.device.type, torch.bfloat16), kernel:
        velocity = learner(noisy, times, captions, grid=pool.grid, text_lengths=lengths)
    return (velocity.float() - (noise - x0)).pow(2).mean()


class Run:
    """A training under way: all that a step moves, and the pictures it learns from."""

    def __init__(self, config: Training, vae: Any) -> None:
        torch.manual_seed(config.seed)
        self.config, self.vae, self.progress = config, vae, Progress()
        self.learner = Learner(latent_channels=vae.config["latent_channels"]).to(config.device).train()
        if config.is_compiled:
            self.learner.transformer.compile_repeated_blocks(dynamic=True)
        self.optimizer = torch.optim.AdamW(
            self.learner.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        self.ema = {name: value.detach().clone() for name, value in self.learner.state_dict().items()}
        self.pools = Pools(self._render, sizes=config.sizes, life=config.pool_life, seed=config.seed)

    def _render(self, size: Size, rng: random.Random, step: int) -> LatentPool:
        counts = [counts for first, counts in self.config.curriculum if first <= step][-1]
        return encode_scenes(self.vae, self.config.pool, size, rng, counts=counts)

    def learn(self, step: int) -> Tensor:
        """One step of the optimizer; returns the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, step)
        loss = flow_loss(self.learner, self.pools.at(step), step=step, config=self.config)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        self.optimizer.step()
        self._follow(step)
        return loss

    @torch.no_grad()
    def _follow(self, step: int) -> None:
        """Move the running mean of the weights towards the weights, faster at first."""
        share = 1 - min(self.config.ema, (1 + step) / (10 + step))
        for name, value in self.learner.state_dict().items():
            if value.is_floating_point():
                self.ema[name].lerp_(value, share)

    def save(self, path: Path) -> None:
        groups = {
            "learner": self.learner.state_dict(),
            "ema": self.ema,
            "optimizer": checkpoint.optimizer_tensors(self.optimizer),
        }
        checkpoint.save(path, groups, {"progress": asdict(self.progress), "config": asdict(self.config)})

    def restore(self, path: Path) -> None:
        groups, facts = checkpoint.load(path)
        self.learner.load_state_dict(groups["learner"])
        checkpoint.restore_optimizer(self.optimizer, groups["optimizer"])
        for name, value in groups["ema"].items():
            self.ema[name].copy_(value)
        self.progress = Progress(**facts["progress"])


def train(config: Training, out: Path, stretch: Stretch) -> int:
    """Train for a stretch; write out/model, return the last step."""
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    vae: Any = AutoencoderKL.from_pretrained(out / "vae").eval()
    vae.to(config.device)
    run, state = Run(config, vae), out / "train_state.safetensors"
    if stretch.resume and state.exists():
        run.restore(state)
    advance(
        run.progress,
        run.learn,
        keep=lambda: run.save(state),
        last_step=config.steps if stretch.last_step is None else stretch.last_step,
        minutes=stretch.minutes,
        batch=config.batch,
        device=config.device,
    )
    run.learner.load_state_dict(run.ema)
    export(run.learner.eval().cpu(), vae.cpu(), out / "model", scratch=out, machine=config.machine)
    return run.progress.step


def main() -> None:
    args = command.parser(__doc__ or "", PRESETS).parse_args()
    torch.set_num_threads(1)
    config = command.configured(PRESETS[args.preset], args)
    done = train(config, args.out, command.stretch(args))
    if done < config.steps:
        print(f"stopped after {done} of {config.steps} steps; go on with --resume")


if __name__ == "__main__":
    main()
