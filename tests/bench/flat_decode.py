"""What the decode of a video and the encode of its file hold, of a short one and of a long one.

    python tests/bench/flat_decode.py                 # 33 and 257 frames of 320 x 192, three ways: about four minutes
    python tests/bench/flat_decode.py --side 512x320  # larger

A Wan-shaped VAE with random weights decodes random latents, and Save Video writes what it made: in this process, in a
rank, and on two ranks that share the rows. A row is a process of its own; its private memory, that of its ranks
included, is RssAnon, looked at every 5 ms, less what was there before: of a CPU, the device's and the host's together.
`together` is the same with all frames in one decode, as VAEs that are not causal in time do it. Pages of files are not
counted. Exits with 1 where a long video takes over 1.25 x what a short one does and 32 MB. Linux only.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

MB = 1_000_000
LENGTHS = 33, 257
RATE = 4
WAYS = ("here", "rank", "two ranks", "together")
SHARE, SLACK = 1.25, 32


def own_bytes(pids: Sequence[int]) -> int:
    status = "".join(Path(f"/proc/{pid}/status").read_text() for pid in pids)
    return 1024 * sum(int(number) for number in re.findall(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE))


def family_of(pid: int) -> list[int]:
    """A process and those that it started, and they."""
    children = [
        child for each in Path(f"/proc/{pid}/task").iterdir() for child in (each / "children").read_text().split()
    ]
    return [pid, *(each for child in children for each in family_of(int(child)))]


def one(way: str, frames: int, depth: str, size: tuple[int, int], folder: str) -> None:
    """In a process of its own: tells what it held, as JSON."""
    import torch

    import support.checkout  # noqa: F401 (makes the checkout importable)
    from latentloom.nodes.files.video_files import write_video
    from latentloom.pipelines import placement
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.pools import POOLS
    from latentloom.pipelines.requests import Decode
    from latentloom.pipelines.spreading import frames as by_frames
    from latentloom.pipelines.values import Latents, Place

    torch.set_num_threads(1)
    if way == "together":
        by_frames.FRAME_BY_FRAME = ()
    devices = {"rank": ("cpu",), "two ranks": ("cpu", "cpu")}.get(way, ())
    model = dataclasses.replace(describe_model(folder, device="cpu"), place=Place(devices=devices))
    if way == "two ranks":
        placement._ranks_to_decode = lambda _: 2

    def decoded(frames: int) -> torch.Tensor:
        width, height = size
        tensor = torch.randn(1, 16, 1 + (frames - 1) // RATE, height // 8, width // 8)
        canvas = Latents(family="wan", width=width, height=height, frames=frames, fps=16.0, tensor=tensor)
        return placement.decode(Decode(model=model, latents=canvas, depth=depth)).pixels

    def saved(pixels: torch.Tensor) -> None:
        write_video(pixels[0], Path(scratch) / "clip.mp4", fps=16.0, quality=18, metadata={})

    with tempfile.TemporaryDirectory() as scratch:
        saved(decoded(9))  # the libraries, and what they keep
        pids = family_of(os.getpid())
        before, peaks, done = own_bytes(pids), [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.005):
                peaks.append(own_bytes(pids))

        watching, start = threading.Thread(target=watch), time.perf_counter()
        watching.start()
        pixels = decoded(frames)
        decoding, decode_s = max(peaks), time.perf_counter() - start
        peaks[:] = [0]
        saved(pixels)
        done.set()
        watching.join()
        found = {"decode": decoding - before, "save": max(peaks) - before, "s": decode_s, "pixels": pixels.nbytes}
    POOLS.close()
    print(json.dumps(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", default="320x192", help="width x height in pixels")
    parser.add_argument("--depth", default="bytes,floats")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    width, height = map(int, asked.side.split("x"))
    if asked.one:
        way, frames, depth, folder = asked.one
        one(way, int(frames), depth, (width, height), folder)
        return 0
    from support.tiny_models import write_tiny

    failed = False
    print(f"{width} x {height}, frames {LENGTHS}: MB held at most on top of what was there")
    print(f"{'':24}{'pixels':>16}{'decode':>16}{'save':>16}{'decode, s':>16}")
    with tempfile.TemporaryDirectory() as folder:
        write_tiny("wan", Path(folder) / "wan")
        for way in asked.ways.split(","):
            for depth in asked.depth.split(","):
                rows = [_row(asked.side, way, frames, depth, f"{folder}/wan") for frames in LENGTHS]
                cells = [
                    " -> ".join(f"{row[name] / unit:.0f}" for row in rows)
                    for name, unit in (("pixels", MB), ("decode", MB), ("save", MB), ("s", 1))
                ]
                print(f"{way + ', ' + depth:24}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
                short, long = (max(row["decode"], row["save"]) / MB for row in rows)
                failed |= way != "together" and long > SHARE * short + SLACK
    return int(failed)


def _row(side: str, way: str, frames: int, depth: str, folder: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--side", side, "--one", way, str(frames), depth, folder]
    # As ranks have it (`parallel/ranks/heap.py`): what is freed is given back, and not kept for what comes.
    kept = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    made = subprocess.run(command, env=kept, stdout=subprocess.PIPE, check=True)
    return json.loads(made.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
