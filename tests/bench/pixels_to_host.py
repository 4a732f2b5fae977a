"""What a video's pixels cost on their way from a rank to its host, for 81 frames of 1280 x 720. No GPU is needed.

    python tests/bench/pixels_to_host.py            # as bytes, as a workflow that saves them has it
    python tests/bench/pixels_to_host.py --floats   # as floats, for a node that takes nothing else

Counted are processor seconds of the rank (to bytes, the mark that all ranks compare, the answer's body) and of the host
(which maps it and reads each page), and the most memory on top of the decoded floats, of both together. Exits with 1
where the bytes cost more than 0.6 s or 0.5 GiB. On a GPU the first two are its work.
"""

import argparse
import itertools
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from latentloom.parallel.ranks.channel import read_body, write_body
from latentloom.parallel.ranks.rank_job import mark
from latentloom.pipelines.values import Video, as_bytes, from_plain, to_plain

GIB = 1 << 30
MOST_S, MOST_BYTES = 0.6, GIB // 2
PAGE_BYTES = 4096


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floats", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    pixels = torch.rand(1, 81, 720, 1280, 3)
    mark(torch.zeros(9))  # what is loaded once
    read_body(write_body({"x": as_bytes(torch.zeros(1, 2, 2, 3))}))
    before = peak_bytes()
    times = {"start": time.process_time()}
    video = Video(pixels=pixels if asked.floats else as_bytes(pixels), fps=16)
    times["to bytes"] = time.process_time()
    plain = to_plain(video)
    mark(plain)
    times["mark"] = time.process_time()
    body = write_body(plain)
    times["body"] = time.process_time()
    found = from_plain(Video, read_body(body))
    found.pixels.view(-1)[::PAGE_BYTES].sum()
    times["host reads"] = time.process_time()
    seconds = times["host reads"] - times["start"]
    taken = peak_bytes() - before
    assert torch.equal(found.pixels, video.pixels)
    each = ", ".join(f"{name} {times[name] - times[last]:.2f}" for last, name in itertools.pairwise(times))
    sent = f"{video.pixels.nbytes / GIB:.2f} GiB of {video.pixels.dtype}"
    print(f"{pixels.nbytes / GIB:.2f} GiB of floats, sent as {sent}")
    print(f"{seconds:.2f} processor seconds ({each}), {taken / GIB:.2f} GiB on top at most")
    return int(not asked.floats and (seconds > MOST_S or taken > MOST_BYTES))


def peak_bytes() -> int:
    """The most memory that this process had so far, pages of bodies that it has mapped among them."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
