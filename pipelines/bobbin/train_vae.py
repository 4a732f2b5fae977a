"""Train bobbin's autoencoder: `python -m latentloom.pipelines.bobbin.train_vae --preset cpu --out DIR [--resume]`."""

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import checkpoint, command
from .architecture import build_vae
from .command import Stretch
from .pools import Pools, Size
from .progress import Progress, advance
from .render import render_owned
from .scene import sample

# B batch, C channels, H W picture

THING_WEIGHT = 4.0  # of a pixel that shows a thing; most of a picture is ground, which is easy
COUNTS = (0.4, 0.4, 0.2)  # how often one, two and three objects


@dataclass(frozen=True, kw_only=True)
class VaeTraining:
    """One autoencoder run. Every batch depends on seed and step alone, so a resumed run equals an uninterrupted one."""

    steps: int
    batch: int
    pool: int
    pool_life: int
    sizes: tuple[Size, ...]
    learning_rate: float = 2e-3
    seed: int = 0
    device: str = "cpu"


PRESETS: dict[str, VaeTraining] = {
    "cpu": VaeTraining(
        steps=3000, batch=12, pool=64, pool_life=100, sizes=((64, 64),) * 3 + ((96, 96),) * 3 + ((128, 128),) * 2
    ),
    "gpu": VaeTraining(
        steps=4000,
        batch=192,
        pool=768,
        pool_life=64,
        sizes=((128, 128),) * 4 + ((96, 96), (64, 64), (160, 160), (160, 96)),
        device="cuda",
    ),
}


def pictures(num: int, size: Size, rng: random.Random, device: str) -> tuple[Tensor, Tensor]:
    """Rendered scenes as the autoencoder sees them (floats, -1 to 1), and what each pixel weighs in the loss."""
    scenes = [sample(rng, counts=COUNTS) for _ in range(num)]
    stack, owner = render_owned(scenes, rng, width=size[0], height=size[1], device=device)
    weight = 1 + (THING_WEIGHT - 1) * (owner != -1).float()
    return stack.permute(0, 3, 1, 2).float() / 127.5 - 1, weight[:, None]  # B C H W, B 1 H W


def vae_loss(vae: Any, x: Tensor, weight: Tensor, noise: torch.Generator) -> Tensor:
    """Absolute and squared error, edges, block means, and a trace of KL that keeps latents near unit size."""
    with torch.autocast(x.device.type, torch.bfloat16):
        posterior = vae.encode(x).latent_dist
        y = vae.decode(posterior.sample(generator=noise)).sample
    error = y.float() - x
    across, down = (error.diff(dim=dim).abs() for dim in (-1, -2))
    edges = (weight[..., 1:] * across).mean() + (weight[..., 1:, :] * down).mean()
    means = F.avg_pool2d(weight * error, 4).abs().mean()
    kl = posterior.kl().mean() / x[0].numel()
    return (weight * (error.abs() + 2 * error.pow(2))).mean() + 0.5 * edges + 0.5 * means + 1e-4 * kl


class Run:
    """A training under way: all that a step moves, and the pictures it learns from."""

    def __init__(self, config: VaeTraining) -> None:
        torch.manual_seed(config.seed)
        self.config, self.progress = config, Progress()
        self.vae: Any = build_vae().train()
        self.vae.to(config.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(
            self.vae.parameters(), lr=config.learning_rate, betas=(0.9, 0.99), weight_decay=1e-4
        )
        self.pools = Pools(
            lambda size, rng, _: pictures(config.pool, size, rng, config.device),
            sizes=config.sizes,
            life=config.pool_life,
            seed=config.seed,
        )

    def learn(self, step: int) -> Tensor:
        """One step of the optimizer; returns the loss."""
        config = self.config
        rng = random.Random(f"vae {config.seed} {step}")
        noise = torch.Generator(config.device).manual_seed(config.seed + 1_000_003 * step)
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1, (step + 1) / 50) * (1 - 0.97 * step / config.steps)
        chosen = rng.sample(range(config.pool), config.batch)
        x, weight = (tensor[chosen] for tensor in self.pools.at(step))
        loss = vae_loss(self.vae, x.contiguous(memory_format=torch.channels_last), weight, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.vae.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def save(self, path: Path) -> None:
        groups = {"vae": self.vae.state_dict(), "optimizer": checkpoint.optimizer_tensors(self.optimizer)}
        checkpoint.save(path, groups, {"progress": asdict(self.progress), "config": asdict(self.config)})

    def restore(self, path: Path) -> None:
        groups, facts = checkpoint.load(path)
        self.vae.load_state_dict(groups["vae"])
        checkpoint.restore_optimizer(self.optimizer, groups["optimizer"])
        self.progress = Progress(**facts["progress"])


def train_vae(config: VaeTraining, out: Path, stretch: Stretch) -> int:
    """Train for a stretch; write out/vae once the schedule is done, return the last step."""
    run, state = Run(config), out / "train_vae_state.safetensors"
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
    if run.progress.step == config.steps:
        _finish(run.vae.eval(), out, config)
    return run.progress.step


@torch.no_grad()
def _finish(vae: Any, out: Path, config: VaeTraining) -> None:
    """Measure the latents' mean and spread, report the error on fresh pictures, and save the diffusers folder."""
    x, _ = pictures(32, (128, 128), random.Random(f"vae test {config.seed}"), config.device)
    z = torch.cat([vae.encode(part).latent_dist.mode() for part in x.split(16)])
    vae.register_to_config(scaling_factor=float(1 / z.std()), shift_factor=float(z.mean()))
    y = torch.cat([vae.decode(part).sample for part in z.split(16)])
    error = ((y.clamp(-1, 1) - x) / 2).pow(2).mean()
    print(f"PSNR {-10 * error.log10():.2f} dB, spread per channel {[round(s, 2) for s in z.std((0, 2, 3)).tolist()]}")
    vae.to("cpu", memory_format=torch.contiguous_format).save_pretrained(out / "vae")


def main() -> None:
    args = command.parser(__doc__ or "", PRESETS).parse_args()
    torch.set_num_threads(1)
    config = command.configured(PRESETS[args.preset], args)
    done = train_vae(config, args.out, command.stretch(args))
    if done < config.steps:
        print(f"stopped after {done} of {config.steps} steps; go on with --resume")


if __name__ == "__main__":
    main()
