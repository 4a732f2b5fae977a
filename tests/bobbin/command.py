"""The command line that both training scripts share.

Training may be stopped and gone on with: `--minutes` ends a stretch, `--resume` begins the next one from the last
checkpoint.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """One stretch of a longer run: how long it may take, and whether it goes on from a checkpoint."""

    minutes: float
    resume: bool
    last_step: int | None = None  # stop here although the schedule is longer; for tests


def parser(description: str, presets: Mapping[str, Any]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, required=True, help="scratch folder: checkpoints, then vae/, then model/")
    made.add_argument("--preset", choices=list(presets), default="cpu", help="batch, sizes and length of the schedule")
    made.add_argument("--minutes", type=float, default=1e9, help="stop after this: processor time on a CPU, else wall")
    made.add_argument("--steps", type=int, default=0, help="another length of the schedule")
    made.add_argument("--threads", type=int, default=1, help="of the processor")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    return made


def configured(preset: Config, args: argparse.Namespace) -> Config:
    """The preset with what the command line says otherwise."""
    steps = {"steps": args.steps} if args.steps else {}
    return replace(preset, seed=args.seed, **steps)


def stretch(args: argparse.Namespace) -> Stretch:
    args.out.mkdir(parents=True, exist_ok=True)
    return Stretch(minutes=args.minutes, resume=args.resume)
