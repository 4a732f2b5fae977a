"""Train bobbin's autoencoder.

`python -m bobbin.train_vae --preset cpu --out DIR [--resume]`.
"""

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import command
from .command import Stretch
from .network import checkpoint
from .network.architecture import build_vae
from .network.quick import hasten
from .pools import Pools, Size
from .progress import Progress, advance
from .world.facts import CELL, COUNTS, Reader, cells
from .world.render import render_owned
from .world.scene import sample

# B batch, C channels, H W picture

THING_WEIGHT = 4.0  # of a pixel that shows a thing; most of a picture is ground, which is easy
NUM_THINGS = (0.4, 0.4, 0.2)  # how often one, two and three objects
FACTS_WEIGHT = 0.02
POLISH_RATE = 0.3  # of the learning rate
POLISH_NOISE = 0.08  # of the latents' spread


@dataclass(frozen=True, kw_only=True)
class VaeTraining:
    """One autoencoder run. Every batch depends on seed and step alone, so a resumed run equals an uninterrupted one."""

    steps: int
    batch: int
    pool: int
    pool_life: int
    sizes: tuple[Size, ...]
    crop: int = 0  # show only a square of so many pixels with a thing in it, while batches are as many times larger
    crop_steps: int = 0  # whole pictures from then on
    # At the end the decoder learns alone, from latents that are a little off, as the transformer's will be.
    polish_steps: int
    learning_rate: float = 2e-3
    seed: int = 0
    device: str = "cpu"

    @property
    def all_steps(self) -> int:
        return self.steps + self.polish_steps


PRESETS: dict[str, VaeTraining] = {
    # Two cores for 40 minutes.
    "cpu": VaeTraining(
        steps=3000,
        polish_steps=2000,
        batch=16,
        pool=384,
        pool_life=180,
        sizes=((128, 128),) * 3,
        crop=64,
        crop_steps=2200,
    ),
    # Written for one GPU; not run yet.
    "gpu": VaeTraining(
        steps=4000,
        polish_steps=1000,
        batch=192,
        pool=768,
        pool_life=64,
        sizes=((128, 128),) * 4 + ((96, 96), (64, 64), (160, 160), (160, 96)),
        device="cuda",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Rendered scenes: pixels, which of them show a thing, and what every cell shows."""

    pixels: Tensor  # B C H W, uint8
    is_thing: Tensor  # B H W
    facts: Tensor  # B questions H W, cells

    def at(self, chosen: list[int]) -> "Pictures":
        return Pictures(pixels=self.pixels[chosen], is_thing=self.is_thing[chosen], facts=self.facts[chosen])

    def cropped(self, side: int, rng: random.Random) -> "Pictures":
        """A square of each picture around some pixel of a thing, its corner on a cell's."""
        height, width = self.is_thing.shape[1:]
        corners = []
        for mask in self.is_thing:
            inside = mask.nonzero()
            y, x = inside[rng.randrange(len(inside))].tolist() if len(inside) else (height // 2, width // 2)
            corners.append(
                [min(max(at - rng.randrange(side), 0), most - side) for at, most in ((y, height), (x, width))]
            )

        def cut(maps: Tensor, scale: int) -> Tensor:
            """Maps with one value in every `scale` pixels."""
            n, rows = side // scale, [(y // CELL * CELL // scale, x // CELL * CELL // scale) for y, x in corners]
            return torch.stack([each[..., y : y + n, x : x + n] for each, (y, x) in zip(maps, rows, strict=True)])

        return Pictures(pixels=cut(self.pixels, 1), is_thing=cut(self.is_thing, 1), facts=cut(self.facts, CELL))

    def as_floats(self) -> Tensor:
        """Pictures of bytes as the autoencoder sees them: floats from -1 to 1."""
        return (self.pixels.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def pictures(num: int, size: Size, rng: random.Random, device: str) -> Pictures:
    """Rendered scenes of one size (width, height)."""
    scenes = [sample(rng, counts=NUM_THINGS) for _ in range(num)]
    stack, owner = render_owned(scenes, rng, width=size[0], height=size[1], device=device)
    return Pictures(pixels=stack.permute(0, 3, 1, 2), is_thing=owner != -1, facts=cells(scenes, owner).to(stack.device))


def vae_loss(vae: Any, reader: Reader, shown: Pictures, noise: torch.Generator) -> Tensor:
    """How far off the pictures are, a trace of KL that keeps latents near unit size, and whether the latents say what
    they show.
    """
    x = shown.as_floats()
    with torch.autocast(x.device.type, torch.bfloat16):
        posterior = vae.encode(x).latent_dist
        z = posterior.sample(generator=noise)
        y = vae.decode(z).sample
    kl = posterior.kl().mean() / x[0].numel()
    told = reader.loss(z.movedim(1, -1).flatten(0, 2), shown.facts.movedim(1, -1).flatten(0, 2))
    return picture_loss(y.float(), x, shown.is_thing) + 1e-4 * kl + FACTS_WEIGHT * told


def decoder_loss(vae: Any, shown: Pictures, noise: torch.Generator) -> Tensor:
    """How far off the pictures are that the decoder makes of latents with a little noise."""
    x = shown.as_floats()
    with torch.autocast(x.device.type, torch.bfloat16):
        with torch.no_grad():
            z = vae.encode(x).latent_dist.mode()
            z = z + POLISH_NOISE * z.std() * torch.randn(z.shape, generator=noise, device=z.device)
        y = vae.decode(z).sample
    return picture_loss(y.float(), x, shown.is_thing)


def picture_loss(y: Tensor, x: Tensor, is_thing: Tensor) -> Tensor:
    """Absolute and squared error, edges and block means of pictures B C H W; `is_thing` B H W weighs."""
    weight = 1 + (THING_WEIGHT - 1) * is_thing.float()[:, None]  # B 1 H W
    error = y - x
    across, down = (error.diff(dim=dim).abs() for dim in (-1, -2))
    edges = (weight[..., 1:] * across).mean() + (weight[..., 1:, :] * down).mean()
    means = F.avg_pool2d(weight * error, 4).abs().mean()
    return (weight * (error.abs() + 2 * error.pow(2))).mean() + 0.5 * edges + 0.5 * means


def learning_rate(config: VaeTraining, step: int) -> float:
    """Straight down to three hundredths after a short warm-up, and again while the decoder is polished."""
    if step < config.steps:
        return config.learning_rate * min(1, (step + 1) / 50) * (1 - 0.97 * step / config.steps)
    return POLISH_RATE * config.learning_rate * (1 - 0.97 * (step - config.steps) / config.polish_steps)


class Run:
    """A training under way: all that a step moves, and the pictures it learns from."""

    def __init__(self, config: VaeTraining) -> None:
        torch.manual_seed(config.seed)
        self.config, self.progress = config, Progress()
        self.vae: Any = build_vae().train()
        self.vae.to(config.device, memory_format=torch.channels_last)  # pyrefly: ignore[bad-argument-type] (of a decorator)
        if config.device == "cpu":
            hasten(self.vae)
        self.reader = Reader(self.vae.config["latent_channels"], COUNTS).to(config.device)
        self.weights = [*self.vae.parameters(), *self.reader.parameters()]
        self.optimizer = torch.optim.AdamW(self.weights, lr=config.learning_rate, betas=(0.9, 0.99), weight_decay=1e-4)
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
            group["lr"] = learning_rate(config, step)
        pool = self.pools.at(step)
        if config.crop and step < config.crop_steps:
            (width, height), squares = config.sizes[0], config.crop**2
            num = config.batch * width * height // squares
            shown = pool.at(rng.choices(range(config.pool), k=num)).cropped(config.crop, rng)
        else:
            shown = pool.at(rng.sample(range(config.pool), config.batch))
        if step < config.steps:
            loss = vae_loss(self.vae, self.reader, shown, noise)
        else:
            loss = decoder_loss(self.vae, shown, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        return loss

    def save(self, path: Path) -> None:
        groups = {
            "vae": self.vae.state_dict(),
            "reader": self.reader.state_dict(),
            "optimizer": checkpoint.optimizer_tensors(self.optimizer),
        }
        checkpoint.save(path, groups, {"progress": asdict(self.progress), "config": asdict(self.config)})

    def restore(self, path: Path) -> None:
        groups, facts = checkpoint.load(path)
        self.vae.load_state_dict(groups["vae"])
        self.reader.load_state_dict(groups["reader"])
        checkpoint.restore_optimizer(self.optimizer, groups["optimizer"])
        self.progress = Progress(**facts["progress"])


def train_vae(config: VaeTraining, out: Path, stretch: Stretch) -> int:
    """Train for a stretch; write out/vae once the schedule is done, return the last step."""
    run, state = Run(config), out / "train_vae_state.safetensors"
    advance(run, stretch, state, num_steps=config.all_steps, batch=config.batch, device=config.device)
    if run.progress.step == config.all_steps:
        _finish(run.vae.eval(), out, config)
    return run.progress.step


@torch.no_grad()
def _finish(vae: Any, out: Path, config: VaeTraining) -> None:
    """Measure the latents' mean and spread, report the error on fresh pictures, and save the diffusers folder."""
    x = pictures(32, (128, 128), random.Random(f"vae test {config.seed}"), config.device).as_floats()
    z = torch.cat([vae.encode(part).latent_dist.mode() for part in x.split(16)])
    vae.register_to_config(scaling_factor=float(1 / z.std()), shift_factor=float(z.mean()))
    y = torch.cat([vae.decode(part).sample for part in z.split(16)])
    error = ((y.clamp(-1, 1) - x) / 2).pow(2).mean()
    print(f"PSNR {-10 * error.log10():.2f} dB, spread per channel {[round(s, 2) for s in z.std((0, 2, 3)).tolist()]}")
    vae.to("cpu", memory_format=torch.contiguous_format).save_pretrained(out / "vae")


def main() -> None:
    args = command.parser(__doc__ or "", PRESETS).parse_args()
    torch.set_num_threads(args.threads)
    config = command.configured(PRESETS[args.preset], args)
    done = train_vae(config, args.out, command.stretch(args))
    if done < config.all_steps:
        print(f"stopped after {done} of {config.all_steps} steps; go on with --resume")


if __name__ == "__main__":
    main()
