"""Faults put into a copy of the checkout, one at a time, which the tests must catch: does a faster suite see as much?

    python tests/bench/seeded_faults.py [--only NUMBER ...]

Runs the named tests as they are and with each fault, and prints a table; a fault is caught when they pass without it
and one fails with it, not when nothing can be collected. Exits with 1 if one is not caught. A quarter of an hour on two
cores.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600
LEFT_OUT = shutil.ignore_patterns(".git", "node_modules", "__pycache__", "build", "*.egg-info")
FAILED = 1
"""What pytest ends with when tests ran and one failed."""


@dataclass(frozen=True)
class Fault:
    """`text` is in the file exactly once."""

    what: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]


OPERATOR = "tests/parallel/test_operator.py::test_sharded_attention_equals_one_attention_in_fp64"
FAULTS = (
    Fault(
        "a sign: blocks of ring attention are weighed upside down",
        "parallel/attention/ring.py",
        "torch.sigmoid(other_lse - lse)",
        "torch.sigmoid(lse - other_lse)",
        (OPERATOR,),
    ),
    Fault(
        "off by one: the ring's last hop is not made",
        "parallel/attention/ring.py",
        "for step in range(layout.num_ranks)]",
        "for step in range(layout.num_ranks - 1)]",
        (OPERATOR,),
    ),
    Fault(
        "dropped collective: answers to replicated queries are not shared",
        "parallel/attention/allgather.py",
        "    return share_answers(out, layout=layout, mesh=mesh)\n",
        "    return out\n",
        (OPERATOR,),
    ),
    Fault(
        "off by one: the last key head of uneven groups is left out",
        "parallel/attention/heads.py",
        "-(-end // group)",
        "end // group",
        (OPERATOR,),
    ),
    Fault(
        "wrong order: heads come back from one buffer to another batch item",
        "parallel/attention/packed.py",
        "rows = np.arange(num_here) * batch + item[:, None]",
        "rows = np.arange(num_here) + item[:, None] * num_here",
        ("tests/parallel/test_operator.py::test_one_buffer_each_way_gives_the_bits_of_many_pieces",),
    ),
    Fault(
        "off by one: shares have a token too many",
        "parallel/layout.py",
        "(i < units % count)",
        "(i <= units % count)",
        ("tests/parallel/test_layout.py",),
    ),
    Fault(
        "dropped collective: each rank decides by its own tokens",
        "parallel/agreement.py",
        "return value if group.size == 1 else add(value, group=group)",
        "return value",
        ("tests/pipelines/test_step_cache.py::test_thresholds_one_float_apart_never_split_the_ranks",),
    ),
    Fault(
        "wrong count: a gather counts one receiver only",
        "parallel/collectives.py",
        "    _count(group, block.numel() * block.element_size() * (group.size - 1))\n"
        "    staged = _staged(block, group)\n    gathered = staged.new_empty(sum(sizes))",
        "    _count(group, block.numel() * block.element_size())\n"
        "    staged = _staged(block, group)\n    gathered = staged.new_empty(sum(sizes))",
        ("tests/parallel/test_traffic.py", "-k", "allgather"),
    ),
    Fault(
        "off by one: a rank begins a step that was not granted",
        "parallel/ranks/grants.py",
        "while step > self._words[GRANTED]:",
        "while step > self._words[GRANTED] + 1:",
        ("tests/parallel/test_grants.py", "-k", "thousand"),
    ),
    Fault(
        "wrong blame: what a rank refuses is told as its failure",
        "parallel/ranks/rank_job.py",
        'return "refused" if isinstance(error, ValueError) else "failed"',
        'return "failed"',
        ("tests/parallel/test_pool.py", "-k", "refuse"),
    ),
    Fault(
        "off by one: a job that lost a rank is not tried again",
        "parallel/pool/job.py",
        "if self.num_deaths < MAX_DEATHS:",
        "if self.num_deaths < MAX_DEATHS - 1:",
        ("tests/parallel/test_pool_faults.py::test_a_death_is_mended_and_the_job_tried_again_with_the_same_result",),
    ),
    Fault(
        "wrong seed: all pictures of a batch are one",
        "pipelines/denoising/noise.py",
        "(seed + i) % NUM_SEEDS",
        "seed % NUM_SEEDS",
        ("tests/pipelines/test_noise.py",),
    ),
    Fault(
        "off by one: guidance of 1 is taken for guidance",
        "pipelines/denoising/guidance.py",
        "return guidance > 1",
        "return guidance >= 1",
        ("tests/pipelines/test_guidance.py",),
    ),
    Fault(
        "wrong order: predictions of branches are given to each other",
        "pipelines/spreading/guidance.py",
        "order = [number for owner in range(size) for number in range(owner, count, size)]",
        "order = [number for owner in reversed(range(size)) for number in range(owner, count, size)]",
        ("tests/parallel/test_split_guidance.py", "-k", "three_branches"),
    ),
    Fault(
        "not undone: tiling stays off after a split decode",
        "pipelines/spreading/vae.py",
        "            vae.use_tiling = is_tiled\n",
        "            pass\n",
        ("tests/pipelines/test_split_vae.py", "-k", "as_it_was and sd"),
    ),
    Fault(
        "lost lock: two threads change one component",
        "pipelines/components/store.py",
        "with self._loans.of(self._wanted(model, names, mesh, condition), progress.check):",
        "with contextlib.nullcontext():",
        ("tests/pipelines/test_loans.py::test_loras_are_not_exchanged_under_a_denoise",),
    ),
    Fault(
        "lost lock: two processes write into one folder",
        "nodes/headless/claim.py",
        "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        ("tests/nodes/test_claim.py",),
    ),
    Fault(
        "left behind: a write that failed leaves its temporary file",
        "nodes/files/atomic.py",
        "    finally:\n        temporary.unlink(missing_ok=True)\n        LIVE.discard(temporary)",
        "    finally:\n        LIVE.discard(temporary)",
        ("tests/nodes/test_atomic.py",),
    ),
    Fault(
        "swallowed error: a write that failed says nothing",
        "nodes/files/atomic.py",
        "        sync(target.parent)\n    except OSError as error:\n"
        "        raise NotWritten(target, error) from error\n",
        "        sync(target.parent)\n    except OSError:\n        pass\n",
        ("tests/nodes/test_atomic.py",),
    ),
    Fault(
        "wrong key: the values of a node are not in its key",
        "nodes/execution/schedule.py",
        "node.spec.version, node.values, links",
        "node.spec.version, links",
        ("tests/nodes/test_keys.py", "tests/nodes/test_run.py"),
    ),
    Fault(
        "wrong victim: what was just used is dropped first",
        "nodes/execution/cache.py",
        "            self._entries.move_to_end(key)\n",
        "",
        ("tests/nodes/test_cache.py",),
    ),
    Fault(
        "no delay: wrong passwords cost nothing",
        "ui/access/throttle.py",
        "                await self.sleep(WRONG_S)\n",
        "",
        ("tests/ui/test_throttle.py",),
    ),
    Fault(
        "open door: requests of any page are taken for the own one's",
        "ui/access/origin.py",
        "return parts.netloc.lower() in {host.lower(), self.public_netloc.lower()}",
        "return True",
        ("tests/ui/test_auth.py", "-k", "origin or foreign"),
    ),
    Fault(
        "off by one: one thing more than the most is kept",
        "ui/store/quota.py",
        "if count and own.count + count > most.count:",
        "if count and own.count > most.count:",
        ("tests/ui/test_quota.py",),
    ),
    Fault(
        "off by one: a page is told again what it has seen",
        "ui/live/live.py",
        "w.run.user == user and w.number > since}",
        "w.run.user == user and w.number >= since}",
        ("tests/ui/test_live.py",),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", type=int, help="numbers of faults, from 1")
    chosen = parser.parse_args().only or range(1, len(FAULTS) + 1)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = Path(shutil.copytree(ROOT, Path(folder) / "latentloom", ignore=LEFT_OUT, symlinks=True))
        found = [is_caught(copy, number, FAULTS[number - 1]) for number in chosen]
    print(f"{sum(found)} of {len(found)} caught")
    return int(not all(found))


def is_caught(copy: Path, number: int, fault: Fault) -> bool:
    path, started = copy / fault.file, time.monotonic()
    sound = path.read_text(encoding="utf-8")
    assert sound.count(fault.text) == 1, f"{fault.file} has {fault.text!r} {sound.count(fault.text)} times, not once"
    if passes(copy, fault.tests):
        path.write_text(sound.replace(fault.text, fault.instead), encoding="utf-8")
        code = ended(copy, fault.tests)
        path.write_text(sound, encoding="utf-8")
        told = {0: "NOT CAUGHT", FAILED: "caught"}.get(code, f"NOT RUN ({code})")
    else:
        code, told = 0, "NO PROOF: the tests fail without it"
    print(f"{number:2} {told:10} {time.monotonic() - started:4.0f} s  {fault.file}: {fault.what}", flush=True)
    return code == FAILED


@functools.cache
def passes(copy: Path, tests: tuple[str, ...]) -> bool:
    return ended(copy, tests) == 0


def ended(copy: Path, tests: tuple[str, ...]) -> int:
    """How pytest ends in the copy, whose parent comes first on the path: it is `latentloom`, whatever is installed."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    path = os.pathsep.join([str(copy.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=copy, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=LIMIT_S, check=False
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
