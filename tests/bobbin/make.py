"""Make bobbin from nothing, in as many stretches as it takes: autoencoder, joint training, model folder, gate.

`python -m bobbin.make --threads 2 --minutes 120 --out DIR`, then again with `--resume`
until it says that it is done; once the autoencoder is, DIR/model is as far as the last stretch came.
"""

import subprocess
import sys
from dataclasses import replace

import torch

from . import command, train, train_vae
from .command import Stretch
from .progress import clock_of
from .round_trip import round_trip


def main() -> int:
    parser = command.parser(__doc__ or "", train.PRESETS)
    parser.add_argument("--no-gate", action="store_true", help="do not draw and read the 500 prompts at the end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = command.configured(train.PRESETS[args.preset], args)
    vae_config = replace(train_vae.PRESETS[args.preset], seed=args.seed)
    stretch = command.stretch(args)
    clock = clock_of(config.device)
    begin = clock()
    if not (args.resume and (args.out / "vae").exists()):
        done = train_vae.train_vae(vae_config, args.out, stretch)
        if done < vae_config.all_steps:
            print(f"autoencoder: {done} of {vae_config.all_steps} steps; go on with --resume")
            return 0
        print(f"true pictures still right after the autoencoder: {round_trip(args.out / 'vae', num=24)['all']:.0%}")
    left = stretch.minutes - (clock() - begin) / 60
    done = train.train(config, args.out, Stretch(minutes=left, resume=stretch.resume))
    if done < config.steps:
        print(f"{done} of {config.steps} steps; go on with --resume")
        return 0
    print("done")
    if args.no_gate:
        return 0
    gate = f"{__package__}.evaluate"
    options = ["--model", str(args.out / "model"), "--sheet", str(args.out / "sheet.png"), "--device", config.device]
    return subprocess.run([sys.executable, "-m", gate, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
