"""Print where the seconds of a rank's start go, each thing that a rank does first timed apart; then two joins of one
rank: `python tests/bench/gpu/rank_start.py [DEVICE]`.

In a process of its own, because only a first time is a first time. What hangs is dumped with its stack after 20 s;
`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV` has NCCL tell its own part.
"""

import faulthandler
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

faulthandler.dump_traceback_later(20, repeat=True)
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
STARTS = [time.perf_counter()]


def told(what: str) -> None:
    STARTS.append(time.perf_counter())
    print(f"| {1000 * (STARTS[-1] - STARTS[-2]):.1f} | {what} |", flush=True)


def main(device: str) -> None:
    print("| ms | what |\n| --- | --- |")
    import support.checkout  # noqa: F401 (makes the checkout importable)
    from latentloom.parallel.ranks.fork_server import ENVIRONMENT

    os.environ.update({**ENVIRONMENT, **os.environ})  # as in a pool's ranks
    import torch
    import torch.distributed

    told("import torch")
    from latentloom.parallel.ranks import rank  # noqa: F401 (timed)

    told("import of what a rank is")
    if device != "cpu":
        _gpu(torch.device(device))
    _kernels(torch.device(device))
    _joins(device)


def _gpu(device: Any) -> None:
    import torch

    def timed(what: str, action: Callable[[], Any]) -> None:
        action()
        torch.cuda.synchronize()
        told(what)

    half = {"device": device, "dtype": torch.bfloat16}
    timed("context", lambda: torch.cuda.set_device(device))
    timed("first allocation and kernel", lambda: torch.zeros(1, device=device))
    timed("a stream", lambda: torch.cuda.Stream(device, priority=-1))
    timed("first product (cuBLAS)", lambda: torch.ones(64, 64, **half) @ torch.ones(64, 64, **half))
    picture, filters = torch.ones(1, 4, 8, 8, **half), torch.ones(4, 4, 3, 3, **half)
    timed("first convolution (cuDNN)", lambda: torch.nn.functional.conv2d(picture, filters))


def _kernels(device: Any) -> None:
    import torch

    from latentloom.parallel.attention import choice

    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    for name in ("cpu_flash",) if device.type == "cpu" else ("cudnn", "sdpa", "efficient"):
        why = choice.fault(name, device, dtype)
        told(f"trial of attention kernel {name}: {why or 'works'}")
    choice.prefer(device)
    told("prefer cuDNN in torch")


def _joins(device: str) -> None:
    from latentloom.parallel import process_groups
    from latentloom.parallel.ranks import membership
    from latentloom.parallel.ranks.membership import Membership
    from latentloom.parallel.ranks.seat import World

    for owner, name in ((process_groups, "_made"), (process_groups, "set_up"), (membership, "prove")):
        _tell_of(owner, name)
    member = Membership(device)
    with tempfile.TemporaryDirectory() as folder:
        for turn in ("first", "second"):
            member.join(World(name=turn, store=f"{folder}/{turn}", size=1), 0)
            told(f"{turn} join")
            member.abort()
            told("stop")
            member.leave()
            told("leave")


def _tell_of(owner: Any, name: str) -> None:
    """What a join consists of; a part that has another name by now is not told of."""
    real = getattr(owner, name, None)
    if real is None:
        return

    def timed(*args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return real(*args, **options)
        finally:
            print(f"| ({1000 * (time.perf_counter() - start):.1f}) | of it: {name} |", flush=True)

    setattr(owner, name, timed)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    faulthandler.cancel_dump_traceback_later()
