"""Train bobbin's transformer and text encoders.

`python -m bobbin.train --preset cpu --out DIR`.

Flow matching (Lipman et al. 2022, arXiv:2210.02747) with logit-normal times (Esser et al. 2024, arXiv:2403.03206). On
the way the transformer must say what it is drawing and the text encoders what they have read, see `facts`. Matrices
are moved by Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon), the rest by AdamW.

Run again with one thread of the same processor, it gives the same bytes. Otherwise sums may be rounded in another
order, and the gate's shares differ as those of another 200 pictures do: by a point at 99 %, by three at 94 %.

DIR must hold vae/ from `train_vae`; DIR/model is the finished FluxPipeline folder. The run may be stopped at any time;
`--resume --minutes 0` writes the model of the last checkpoint, also beside a running training.
"""

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import command
from .command import Stretch
from .export import export
from .latents import LatentPool, encode_scenes
from .network import checkpoint
from .network.learner import Learner
from .pools import Pools, Size
from .progress import Progress, advance
from .world.facts import UNCLEAR, slots
from .world.scene import sample
from .world.wording import TEXT_LENGTH, mention, say

# B batch, S sequence, C channels

Counts = tuple[float, float, float]
PICTURE_FACTS_WEIGHT = 0.1
CAPTION_FACTS_WEIGHT = 0.05
SHORT = 64  # tokens; batches of longer captions are smaller by as much as they are longer
RATES = {"muon": 2.5, "adamw": 1.0}  # learning rates; Muon's steps are a fifth of it in size, AdamW's nearer to it
DECAY = 0.4  # the last part of the run, in which the learning rate falls


@dataclass(frozen=True, kw_only=True)
class Training:
    """One run. Pictures, captions, times and noise depend on seed and step alone, so a stopped run can go on as if
    it had not been stopped.
    """

    steps: int  # until the last four tenths begin, this may still be changed: nothing before depends on it
    batch: int
    sizes: tuple[Size, ...]  # width and height of each pool of pictures
    pool: int
    pool_life: int
    curriculum: tuple[tuple[int, Counts], ...]  # from which step on how often a batch of one, two and three objects
    # What captions are padded to at least, drawn for every batch; at most to the next that holds them. FLUX does not
    # mask padding: the model must learn to.
    text_lengths: tuple[int, ...]
    reading_steps: int  # at first only the text encoders learn: to say what captions state
    learning_rate: float = 1.5e-3
    warmup: int = 100
    dropout: float = 0.1  # share of empty captions, which true guidance and negative prompts lean on
    ema: float = 0.999
    seed: int = 0
    device: str = "cpu"
    # Fuse the kernels of the transformer's blocks, which takes a C++ compiler and two minutes, and saves hours.
    is_compiled: bool = True

    def counts_at(self, step: int) -> Counts:
        """How often a batch of one, two and three objects at this step."""
        return [counts for first, counts in self.curriculum if first <= step][-1]


PRESETS: dict[str, Training] = {
    # Two cores that multiply bfloat16 (AMX), three hours.
    "cpu": Training(
        steps=8500,
        batch=128,
        sizes=((128, 128),) * 13 + ((96, 96), (160, 160), (160, 128), (96, 128)),
        pool=512,
        pool_life=1000,
        curriculum=((0, (0.5, 0.4, 0.1)), (3000, (0.35, 0.5, 0.15))),
        text_lengths=(16,) * 20 + (24, 32) + (TEXT_LENGTH,) * 14 + (64,) * 3 + (128, 512),
        reading_steps=1000,
    ),
    # Written for one GPU; not run yet.
    "gpu": Training(
        steps=14000,
        batch=768,
        sizes=((128, 128),) * 6 + ((96, 96), (160, 160), (64, 64), (160, 128), (96, 128), (128, 64)),
        pool=2048,
        pool_life=240,
        curriculum=((0, (0.6, 0.3, 0.1)), (3000, (0.3, 0.5, 0.2))),
        text_lengths=(24,) * 4 + (TEXT_LENGTH,) * 14 + (64,) * 3 + (128,) * 2 + (256, 512),
        reading_steps=500,
        warmup=300,
        ema=0.9995,
        device="cuda",
    ),
}


def learning_rate(config: Training, step: int) -> float:
    """Warm-up, twice, level, and over the last part of the run straight down to one hundredth."""
    left = (config.steps - step) / (DECAY * config.steps)
    begun = step - config.reading_steps if step >= config.reading_steps else step
    return config.learning_rate * min(1, (begun + 1) / config.warmup) * max(min(1.0, left), 0.01)


def reading_loss(learner: Learner, *, step: int, config: Training) -> Tensor:
    """The loss of one batch of captions without pictures."""
    rng = random.Random(f"read {config.seed} {step}")
    lengths = _lengths(rng, config)
    scenes = [mention(sample(rng, counts=(0.3, 0.4, 0.3)), rng) for _ in range(_share(config.batch, lengths[0]))]
    with torch.autocast(config.device, torch.bfloat16):
        states, pooled = learner.encode([say(scene, rng) for scene in scenes], lengths)
    return learner.caption_reader.loss(states, pooled, slots(scenes).to(states.device))


def flow_loss(learner: Learner, pool: LatentPool, *, step: int, config: Training) -> Tensor:
    """The loss of one batch drawn from the pool: squared error of the velocity, noise minus picture, and a little of
    what the readers get wrong.
    """
    rng = random.Random(f"batch {config.seed} {step}")
    lengths = _lengths(rng, config)
    counts = config.counts_at(step)
    # Captions of as many things are about as long.
    among = pool.with_things(rng.choices((1, 2, 3), counts)[0]) or range(len(pool.scenes))
    chosen = rng.choices(among, k=_share(config.batch, lengths[0]))
    told = [mention(pool.scenes[i], rng) for i in chosen]
    is_dropped = [rng.random() < config.dropout for _ in told]
    captions = ["" if dropped else say(scene, rng) for scene, dropped in zip(told, is_dropped, strict=True)]
    x0 = pool.tokens[chosen]  # B S C
    noise_rng = torch.Generator(x0.device).manual_seed(config.seed + 1_000_003 * step)
    noise = torch.randn(x0.shape, generator=noise_rng, device=x0.device)
    times = torch.sigmoid(torch.randn(len(chosen), generator=noise_rng, device=x0.device) + 0.3)  # B, 1 is pure noise
    noisy = torch.lerp(x0, noise, times[:, None, None])
    with torch.autocast(x0.device.type, torch.bfloat16):
        states, pooled = learner.encode(captions, lengths)
        velocity, middle = learner(noisy, times, (states, pooled), grid=pool.grid)
    shown = learner.picture_reader.loss(middle.flatten(0, 1), pool.facts[chosen].flatten(0, 1))
    named = slots(told).masked_fill(torch.tensor(is_dropped)[:, None, None], UNCLEAR).to(x0.device)
    understood = learner.caption_reader.loss(states, pooled, named)
    flow = (velocity.float() - (noise - x0)).pow(2).mean()
    return flow + PICTURE_FACTS_WEIGHT * shown + CAPTION_FACTS_WEIGHT * understood


def _lengths(rng: random.Random, config: Training) -> tuple[int, ...]:
    """What a batch of captions may be padded to, the least first."""
    least = rng.choice(config.text_lengths)
    return tuple(sorted({length for length in config.text_lengths if length >= least}))


def _share(batch: int, length: int) -> int:
    return max(batch * SHORT // max(length, SHORT), 1)


class Run:
    """A training under way: all that a step moves, and the pictures it learns from."""

    def __init__(self, config: Training, vae: Any) -> None:
        torch.manual_seed(config.seed)
        self.config, self.vae, self.progress = config, vae, Progress()
        self.learner = Learner(latent_channels=vae.config["latent_channels"]).to(config.device).train()
        if config.is_compiled:
            self.learner.hasten(config.device)
        matrices, others = _divided(self.learner)
        rate: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": 0.01}
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            "muon": torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **rate),
            "adamw": torch.optim.AdamW(others, betas=(0.9, 0.98), fused=True, **rate),
        }
        self.ema = {name: value.detach().clone() for name, value in self.learner.state_dict().items()}
        self.pools = Pools(self._render, sizes=config.sizes, life=config.pool_life, seed=config.seed)

    def _render(self, size: Size, rng: random.Random, step: int) -> LatentPool:
        return encode_scenes(self.vae, self.config.pool, size, rng, counts=self.config.counts_at(step))

    def learn(self, step: int) -> Tensor:
        """One step of the optimizer; returns the loss."""
        for name, optimizer in self.optimizers.items():
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = RATES[name] * learning_rate(self.config, step)
        if step < self.config.reading_steps:
            loss = reading_loss(self.learner, step=step, config=self.config)
        else:
            loss = flow_loss(self.learner, self.pools.at(step), step=step, config=self.config)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        for optimizer in self.optimizers.values():
            optimizer.step()
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
            **{name: checkpoint.optimizer_tensors(optimizer) for name, optimizer in self.optimizers.items()},
        }
        checkpoint.save(path, groups, {"progress": asdict(self.progress), "config": asdict(self.config)})

    def restore(self, path: Path) -> None:
        groups, facts = checkpoint.load(path)
        self.learner.load_state_dict(groups["learner"])
        for name, optimizer in self.optimizers.items():
            checkpoint.restore_optimizer(optimizer, groups.get(name, {}))
        for name, value in groups["ema"].items():
            self.ema[name].copy_(value)
        self.progress = Progress(**facts["progress"])


def _divided(learner: Learner) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices inside the transformer's blocks, but for those that scale and shift by time; and the rest."""
    blocks = (learner.transformer.transformer_blocks, learner.transformer.single_transformer_blocks)
    inner = [
        weight
        for part in blocks
        for name, weight in part.named_parameters()
        if weight.ndim == 2 and ".norm" not in name
    ]
    known = {id(weight) for weight in inner}
    return inner, [weight for weight in learner.parameters() if id(weight) not in known]


def train(config: Training, out: Path, stretch: Stretch) -> int:
    """Train for a stretch; write out/model once there was a step, return the last one."""
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    vae: Any = AutoencoderKL.from_pretrained(out / "vae").eval()
    vae.to(config.device)
    run, state = Run(config, vae), out / "train_state.safetensors"
    advance(run, stretch, state, num_steps=config.steps, batch=config.batch, device=config.device)
    if run.progress.step:
        run.learner.load_state_dict(run.ema)
        export(run.learner.eval().cpu(), vae.cpu(), out / "model", scratch=out)
    return run.progress.step


def main() -> None:
    args = command.parser(__doc__ or "", PRESETS).parse_args()
    torch.set_num_threads(args.threads)
    config = command.configured(PRESETS[args.preset], args)
    done = train(config, args.out, command.stretch(args))
    if done < config.steps:
        print(f"stopped after {done} of {config.steps} steps; go on with --resume")


if __name__ == "__main__":
    main()
