"""Make bobbin from nothing, in as many stretches as it takes: autoencoder, joint training, model folder, gate.

`python -m latentloom.pipelines.bobbin.make --preset gpu --minutes 8 --out DIR`, then again with `--resume` until it
says that it is done; DIR/model is the best so far after every stretch.
"""

import subprocess
import sys
import time
from dataclasses import replace

import torch

from . import command, train, train_vae
from .command import Stretch
from .round_trip import round_trip


def main() -> int:
    parser = command.parser(__doc__ or "", train.PRESETS)
    parser.add_argument("--no-gate", action="store_true", help="do not draw and read the 500 prompts at the end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = command.configured(train.PRESETS[args.preset], args)
    vae_config = replace(train_vae.PRESETS[args.preset], seed=args.seed)
    stretch = command.stretch(args)
    begin = time.monotonic()
    if not (args.resume and (args.out / "vae").exists()):
        done = train_vae.train_vae(vae_config, args.out, stretch)
        if done < vae_config.all_steps:
            print(f"autoencoder: {done} of {vae_config.all_steps} steps; go on with --resume")
            return 0
        print(f"true pictures still right after the autoencoder: {round_trip(args.out / 'vae', num=24)['all']:.0%}")
    left = stretch.minutes - (time.monotonic() - begin) / 60
    done = train.train(config, args.out, Stretch(minutes=max(left, 0), resume=stretch.resume))
    if done < config.steps:
        print(f"{done} of {config.steps} steps; go on with --resume")
        return 0
    print("done")
    if args.no_gate:
        return 0
    gate = "latentloom.pipelines.bobbin.evaluate"
    options = ["--model", str(args.out / "model"), "--sheet", str(args.out / "sheet.png"), "--device", config.device]
    return subprocess.run([sys.executable, "-m", gate, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
