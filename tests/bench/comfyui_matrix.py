"""ComfyUI's own model classes by our split plans: sharded against whole, on gloo ranks on the CPU.

    COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_matrix.py [--plans PLAN ...] [--cases WORD]

DIR is a checkout of ComfyUI, PYTHON as in `comfyui_session.py`. Each case of `comfyui_models.py` has to be within 1e-5
of the largest value, with the same bits on all ranks, and the module as it was after `remove()`. Prints a table and
counts, and ends with 1 where a cell is not so. By plans with cfg each case is asked for two conditionings at once, as
ComfyUI batches them. About four minutes on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLANS = ("ulysses=2", "ulysses=3", "ring=2", "allgather=2", "ulysses=2,ring=2", "cfg=2", "cfg=2,ulysses=2")
# By plans with cfg these are compared with what they give of each row alone: 0.3.64 mixes up the tiles of two.
ROW_BY_ROW = ("chroma radiance, the first",)
ALLOWED, LIMIT_S = 1e-5, 540.0
Cell = dict[str, Any]


def asked_of_ranks(script: str, num_ranks: int, asked: Any) -> list[Any]:
    """What each rank answers of a script that is called `SCRIPT RANK RANKS ASKED FOLDER` in ComfyUI's environment, and
    writes its answer to FOLDER. Ends this process with what they said where one fails."""
    paths = [str(Path(__file__).parent / "comfyui_shims"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PIP_NO_INDEX": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    start = [os.environ.get("COMFYUI_PYTHON", sys.executable), script]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ranks = []
        for rank in range(num_ranks):
            with (folder / f"log{rank}").open("w") as log:
                words = [*start, str(rank), str(num_ranks), json.dumps(asked), name]
                ranks.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
        end = time.monotonic() + LIMIT_S
        try:
            while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
                if time.monotonic() > end:
                    break
                time.sleep(0.1)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        if any(rank.returncode for rank in ranks):
            raise SystemExit("\n".join((folder / f"log{rank}").read_text()[-2000:] for rank in range(num_ranks)))
        return [json.loads((folder / f"answer{rank}").read_text()) for rank in range(num_ranks)]


def joined() -> tuple[int, Any, Path]:
    """Collective, what such a script does first: its rank, what is asked, and where the answer goes."""
    rank, num_ranks, asked, folder = sys.argv[1:]
    sys.path.append(str(ROOT / "tests"))
    import torch
    import torch.distributed as dist
    from comfyui_made import set_up

    import support.checkout  # noqa: F401 (makes the checkout importable)

    set_up(os.environ["COMFYUI_DIR"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=int(rank), world_size=int(num_ranks))
    return int(rank), json.loads(asked), Path(folder) / f"answer{rank}"


def compared(case: str, plan: str) -> Cell | None:
    """Collective: one cell, on the plan's ranks; None on the others."""
    from comfyui_made import in_two_rows, outputs, row_of
    from comfyui_models import CASES
    from torch import cat, equal

    from latentloom.nodes.hosts.native.rows import share_rows, unfit
    from latentloom.nodes.hosts.native.splits.plans import plan_of
    from latentloom.parallel.mesh import make_mesh_among
    from latentloom.parallel.plan import ParallelPlan
    from latentloom.parallel.sharding.shard import shard

    parsed = ParallelPlan.parse(plan)
    if (mesh := make_mesh_among(range(parsed.num_ranks), parsed)) is None:
        return None
    try:
        model, call = CASES[case]()
        whole = outputs(model, call)
    except Exception as error:  # of an older version, which has no such class, option or input
        return {"absent": f"{error}"[:120]}
    if parsed.cfg > 1:
        call = in_two_rows(call)
    if unfit(parsed, model, call):
        return {"own": True}  # refused by name
    if parsed.cfg > 1:
        if hasattr(model, "clear_kv_cache"):  # what it keeps of one row's prompt is not for two
            model.register_forward_pre_hook(lambda module, _: module.clear_kv_cache())
        try:
            whole = outputs(model, call)
        except Exception:
            return {"own": True}  # some classes take no two rows of such inputs
    is_apart = parsed.cfg > 1 and case in ROW_BY_ROW
    right = [cat([*outputs(model, row_of(call, 0)), *outputs(model, row_of(call, 1))])] if is_apart else whole
    before, handle = mesh.sent.sent_bytes, None
    try:
        handle = shard(model, plan_of(model), mesh)
        share_rows(handle)
        found = outputs(model, call)
    except Exception as error:
        if "is not split with" in str(error):
            return {"absent": f"{error}"[:120]}
        return {"error": f"{type(error).__name__}: {error}"[:240]}
    finally:
        if handle is not None:
            handle.remove()
    return {
        "apart": max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, right, strict=True)),
        "same": all(map(equal, found, right)),
        "bits": hashlib.sha256(b"".join(each.numpy().tobytes() for each in found)).hexdigest(),
        "restored": all(map(equal, outputs(model, call), whole)),
        "sent": mesh.sent.sent_bytes - before,
    }


def on_rank() -> None:
    _, asked, answer = joined()
    answer.write_text(json.dumps([compared(case, plan) for plan, case in asked]))


def faults(cells: Sequence[Cell]) -> list[str]:
    """What is not as it should be in a cell, of all its ranks."""
    if absent := [cell["absent"] for cell in cells if "absent" in cell]:
        return [f"not in this version: {absent[0]}"]
    if errors := [cell["error"] for cell in cells if "error" in cell]:
        return errors[:1]
    wrong = {
        f"off by {cells[0]['apart']:.1e}": cells[0]["apart"] <= ALLOWED,
        "ranks differ": len({cell["bits"] for cell in cells}) == 1,
        "not restored": all(cell["restored"] for cell in cells),
        "nothing was sent": all(cell["sent"] for cell in cells),
    }
    return [name for name, is_right in wrong.items() if not is_right]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plans", nargs="+", default=PLANS)
    parser.add_argument("--cases", default="", help="those with this in their names")
    parser.add_argument("--older", action="store_true", help="what this version does not have is told, and no failure")
    options = parser.parse_args()
    if "COMFYUI_DIR" not in os.environ:
        print("blocked: COMFYUI_DIR names no checkout of ComfyUI")
        return 1
    from comfyui_models import CASES

    asked = [(plan, case) for plan in options.plans for case in CASES if options.cases in case]
    num_ranks = max(math.prod(int(part.partition("=")[2]) for part in plan.split(",")) for plan in options.plans)
    found = [[cell for cell in row if cell] for row in zip(*asked_of_ranks(__file__, num_ranks, asked), strict=True)]
    failed, absent, table = 0, set[str](), dict[str, list[Cell]]()
    for (plan, case), cells in zip(asked, found, strict=True):
        if "own" in cells[0]:
            print(f"{plan:17} {case:29} not by this plan: ComfyUI itself fails, or it is refused")
            continue
        told = faults(cells)
        first = cells[0]
        if options.older and "absent" in first:
            if case not in absent:
                print(f"{case:47} {told[0]}")
            absent.add(case)
            continue
        failed += bool(told)
        table.setdefault(plan, []).append(first)
        bits = "same bits" if first.get("same") else ""
        if "absent" in first:
            told = [f"not here: {first['absent']}"]
        print(f"{plan:17} {case:29} {first.get('apart', math.nan):.1e} {bits:9} {'; '.join(told)}".rstrip())
    print("\n| plan | cases | worst, of the largest value | same bits |\n| --- | --- | --- | --- |")
    for plan, cells in table.items():
        worst = max((cell["apart"] for cell in cells if "apart" in cell), default=math.nan)
        print(f"| {plan} | {len(cells)} | {worst:.1e} | {sum(cell.get('same', False) for cell in cells)} |")
    num_asked = sum(map(len, table.values()))
    print(f"{num_asked - failed} of {num_asked} cells right, {failed} failed; {len(absent)} cases not in this version")
    return int(failed > 0)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1].isdigit():
        on_rank()
    else:
        sys.exit(main())
