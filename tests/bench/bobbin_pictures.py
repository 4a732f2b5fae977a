"""Print how long the renderer of bobbin's training pictures takes for one of 128 x 128 pixels, on one thread.

python tests/bench/bobbin_pictures.py [--device cuda]
"""

import argparse
import random
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bobbin.world.render import render
from bobbin.world.scene import sample

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--num", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(0)
    for title in ("first", "then"):
        scenes = [sample(rng, counts=(0.3, 0.5, 0.2)) for _ in range(args.num)]
        start = time.perf_counter()
        render(scenes, rng, device=args.device).cpu()
        print(f"{title}: {1000 * (time.perf_counter() - start) / args.num:.2f} ms a picture")
