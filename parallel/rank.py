"""One rank: joins the process group, runs one named function on one request, writes its answer, and ends.

Started by `launch.py` as `python -m latentloom.parallel.rank FOLDER RANK`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path


def main(folder: Path, rank: int) -> None:
    job = json.loads((folder / "job.json").read_text())
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ[name] = "lo"  # the ranks of one machine: nothing listens on the network
    import torch
    import torch.distributed as dist

    if job["backend"] == "nccl":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // job["num_ranks"]))
    dist.init_process_group(
        job["backend"],
        init_method=f"file://{folder / 'store'}",
        rank=rank,
        world_size=job["num_ranks"],
        timeout=timedelta(seconds=job["collective_s"]),
    )
    module, _, name = job["function"].partition(":")
    package = (__package__ or "").rpartition(".")[0]
    function = getattr(importlib.import_module(f"{package}.{module}"), name)
    try:
        answer = {"answer": function(job["request"], rank)}
    except Exception as error:  # whatever it is, the user sees it with the rank's number
        kind = "refused" if isinstance(error, ValueError) else "failed"
        answer = {kind: str(error) or type(error).__name__, "traceback": traceback.format_exc()}
    new = folder / f"answer{rank}.new"
    new.write_text(json.dumps(answer))
    new.rename(folder / f"answer{rank}.json")
    sys.stdout.flush()
    os._exit(0)  # leaving the process group in good order is collective, and the others may be gone


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
