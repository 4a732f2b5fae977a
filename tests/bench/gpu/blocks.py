"""Run everything that one GPU can tell, block by block, each with a deadline of its own: `one_gpu.sh` has the commands.

    python tests/bench/gpu/blocks.py first|second|third|all|BLOCK... [--dry] [--out FOLDER] [--site FOLDER]

A wave is some blocks that run side by side, and what is worth most comes first. What a block prints is kept, and told
at the end, after a table of how all of them went. `--dry` runs every block on a CPU with small shapes, to see that it
would run at all. Where the card is no H200, for which the bars are, 8c3eb376 is timed beside, and ratios are told.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BENCH = "tests/bench"
TAIL = 4000  # characters of what a block printed that are told again at the end
KILL_S = 5.0
DRY_SLOWNESS = 8  # how much longer a CPU that others use may take
AS_IT_SHOULD = "as it should"
CARD, BEFORE = "H200", "before"
# Milliseconds of a FLUX step as rank 0 of 8, on an H200.
BARS = {("ulysses=8", "compiled, captured"): 20.0, ("ulysses=8", "compiled"): 60.0}
GPU_TESTS = ("tests/parallel/test_gpu.py", "tests/parallel/test_kernels.py", "tests/pipelines/test_gpu.py")
# Tests that look at the memory of the whole card.
ALONE = "without_room or repeats_an_error or second_model or quantized_load or what_is_loaded"
PYTEST = ("-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "gpu", "--tb=short", "--timeout=120")
# A machine's own libraries are not those of constraints.txt, and deprecate other things.
OTHER_VERSIONS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning")
PAINT = ("-m", "latentloom", "run", "workflows/bobbin/first_picture.json", "--no-cache", "--out", "{scratch}/{name}")
STEP = (f"{BENCH}/one_gpu.py", "step", "--models", "flux-1024", "--plans", "ulysses=8", "{tiny}")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Arguments for Python: `{device}` is the device, `{tiny}` is left out but in a dry run, `{cores}` are workers."""

    name: str
    command: tuple[str, ...]
    deadline_s: int
    shares_card: bool = False  # its ranks share the card, by an NCCL of its own
    environment: Mapping[str, str] = field(default_factory=dict)
    tree: str = ""  # the folder whose code is run, of the set-up; "" is this checkout


Wave = tuple[Block, ...]
INIT = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV"}
START = (f"{BENCH}/gpu/rank_start.py", "{device}")
FIRST: tuple[Wave, ...] = (
    (Block(name="rank_start", command=START, deadline_s=40, environment=INIT),),
    (
        Block(name="rank_start_no_ras", command=START, deadline_s=45, environment={**INIT, "NCCL_RAS_ENABLE": "0"}),
        Block(name="rank_start_new_nccl", command=START, deadline_s=45, environment=INIT, shares_card=True),
        Block(name="doctor", command=("-m", "latentloom", "doctor"), deadline_s=60),
        Block(name="picture", command=(*PAINT, "--devices", "{device}"), deadline_s=60),
    ),
    (
        Block(
            name="two_ranks",
            command=(f"{BENCH}/gpu/two_ranks.py", "{device}", "{tiny}"),
            deadline_s=140,
            shares_card=True,
        ),
        Block(
            name="tests",
            command=(*PYTEST, *OTHER_VERSIONS, "-n", "{cores}", "-k", f"not ({ALONE})", *GPU_TESTS),
            deadline_s=140,
        ),
        Block(name="kernels", command=(f"{BENCH}/one_gpu.py", "kernels", "noise", "{tiny}"), deadline_s=120),
    ),
    (
        Block(
            name="kills",
            command=(f"{BENCH}/drills.py", "kill", "--devices", "{device},{device}", "--times", "4"),
            deadline_s=90,
            shares_card=True,
        ),
        Block(name="quant", command=(f"{BENCH}/one_gpu.py", "quant", "join", "{tiny}"), deadline_s=60),
    ),
    (Block(name="tests_alone", command=(*PYTEST, *OTHER_VERSIONS, "-k", ALONE, *GPU_TESTS), deadline_s=80),),
)
SECOND: tuple[Wave, ...] = (
    (Block(name="step", command=STEP, deadline_s=105),),
    (Block(name=BEFORE, command=STEP, deadline_s=90, tree="before/latentloom"),),
    (
        Block(
            name="host_split",
            command=(f"{BENCH}/host_split.py", "--device", "{device}", "--runs", "100"),
            deadline_s=80,
        ),
    ),
    (Block(name="fused", command=(f"{BENCH}/gpu/fused.py", "--plans", "ulysses=8", "{tiny}"), deadline_s=90),),
    (
        Block(
            name="breakdown",
            command=(f"{BENCH}/one_gpu.py", "breakdown", "--plans", "ulysses=8", "{tiny}"),
            deadline_s=45,
        ),
    ),
)
# For a machine of its own, or what is left of fifteen minutes.
THIRD: tuple[Wave, ...] = (
    (Block(name="streamed", command=(f"{BENCH}/one_gpu.py", "streamed", "{tiny}"), deadline_s=240),),
)
PARTS: dict[str, tuple[Wave, ...]] = {"first": FIRST, "second": SECOND, "third": THIRD, "all": (*FIRST, *SECOND)}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where blocks run: with which device, shapes and folders."""

    device: str
    is_dry: bool
    out: Path
    site: Path

    @property
    def scratch(self) -> Path:
        return self.out / "scratch"

    def deadline_s(self, block: Block) -> int:
        return block.deadline_s * (DRY_SLOWNESS if self.is_dry else 1)

    def log(self, block: Block) -> Path:
        return self.scratch / f"{block.name}.log"


@dataclass(frozen=True, kw_only=True)
class Ended:
    block: Block
    seconds: float
    how: str


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    every = {block.name: block for waves in PARTS.values() for wave in waves for block in wave}
    parser.add_argument("what", nargs="+", choices=[*PARTS, *every], metavar="first|second|third|all|BLOCK")
    parser.add_argument("--dry", action="store_true", help="on a CPU, small")
    parser.add_argument("--out", type=Path, default=Path("one_gpu_out"))
    parser.add_argument("--site", type=Path, default=Path("site"), help="what was set up")
    asked = parser.parse_args()
    where = Setting(
        device="cpu" if asked.dry else "cuda:0", is_dry=asked.dry, out=asked.out.resolve(), site=asked.site.resolve()
    )
    where.scratch.mkdir(parents=True, exist_ok=True)
    card, start = card_of(where), time.monotonic()
    print(f"{card}\n", flush=True)
    ended: list[Ended] = []
    for wave in [wave for name in asked.what for wave in PARTS.get(name, ((every.get(name),),))]:
        ended += run_wave([block for block in wave if block], where, card)
        print(
            f"[{time.monotonic() - start:.0f} s] {', '.join(_title(each) for each in ended[-len(wave) :])}", flush=True
        )
    text = report(ended, where, card)
    (where.out / "report.md").write_text(text)
    print(text)
    return 0 if is_all_good(ended) else 1


def is_all_good(ended: Sequence[Ended]) -> bool:
    return all(each.how.startswith((AS_IT_SHOULD, "left out")) for each in ended)


def card_of(where: Setting) -> str:
    if where.is_dry:
        return "a CPU"
    ask = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    return subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=False).stdout.strip() or "no GPU"


def _title(ended: Ended) -> str:
    return f"{ended.block.name}: {ended.how}"


def run_wave(wave: Sequence[Block], where: Setting, card: str) -> list[Ended]:
    """Start all, and end each that is not done by its deadline."""
    start, ended = time.monotonic(), dict[str, Ended]()
    running: dict[str, subprocess.Popen[bytes]] = {}
    for block in wave:
        if why := _left_out(block, where, card):
            ended[block.name] = Ended(block=block, seconds=0.0, how=f"left out: {why}")
        else:
            running[block.name] = _start(block, where)
    while len(ended) < len(wave):
        for block in wave:
            seconds = time.monotonic() - start
            if block.name not in ended and (how := _how(running[block.name], where.deadline_s(block), seconds)):
                ended[block.name] = Ended(block=block, seconds=seconds, how=how)
        time.sleep(0.05)
    return [ended[block.name] for block in wave]


def _how(process: subprocess.Popen[bytes], deadline_s: int, seconds: float) -> str:
    """How a block has ended; "" while it has not."""
    if process.poll() is not None:
        return AS_IT_SHOULD if process.returncode == 0 else f"exit status {process.returncode}"
    if seconds <= deadline_s:
        return ""
    _end(process)
    return f"ended at its deadline of {deadline_s} s"


def _left_out(block: Block, where: Setting, card: str) -> str:
    """Why it is not run here; "" if it is."""
    tree = where.site / block.tree if block.tree else ROOT
    script = next((part for part in block.command if part.endswith(".py")), "")
    if block.name == BEFORE and CARD in card:
        return f"the bars are for an {CARD}"
    return "" if (tree / script).exists() else f"{block.tree or script} is not here"


def _start(block: Block, where: Setting) -> subprocess.Popen[bytes]:
    tree, library = (where.site / block.tree if block.tree else ROOT), where.site / "libnccl.so.2"
    words = {"device": where.device, "scratch": str(where.scratch), "name": block.name, "tiny": "--tiny"}
    words["cores"] = "2" if where.is_dry else "4"
    command = [part.format(**words) for part in block.command if where.is_dry or part != "{tiny}"]
    environment = {**os.environ, "DEVICE": where.device, **block.environment}
    if block.tree:
        environment["PYTHONPATH"] = os.pathsep.join([str(tree.parent), environment.get("PYTHONPATH", "")])
    if block.shares_card:
        environment["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
        if not where.is_dry and library.exists():
            environment["LD_PRELOAD"] = str(library)
    with where.log(block).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and what it has started; a Python that hangs in a library hears no SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(KILL_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def report(ended: Sequence[Ended], where: Setting, card: str) -> str:
    """How each block went, the steps against their bars or against before, and what each printed last."""
    lines = [f"# {card}", "", "| block | s | deadline s | how it ended |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {each.block.name} | {each.seconds:.0f} | {where.deadline_s(each.block)} | {each.how} |" for each in ended
    ]
    lines += ["", *steps(where, card)]
    for each in ended:
        log = where.log(each.block)
        if log.exists():
            lines += [f"## {each.block.name}", "", log.read_text(errors="replace")[-TAIL:], ""]
    return "\n".join(lines)


def steps(where: Setting, card: str) -> list[str]:
    """A table of milliseconds a step: against the bars on the card that they are for, else against 8c3eb376."""
    now, before = (_milliseconds(where.scratch / f"{name}.log") for name in ("step", BEFORE))
    if not now:
        return []
    lines = ["| plan | way | ms | bar ms | 8c3eb376 ms | ratio |", "| --- | --- | --- | --- | --- | --- |"]
    for (plan, way), ms in now.items():
        bar = str(BARS.get((plan, way), "")) if CARD in card else ""
        then = before.get((plan, way))
        ratio = "" if then is None else f"{then:.2f} | {ms / then:.2f}"
        lines.append(f"| {plan} | {way} | {ms:.2f} | {bar} | {ratio or ' | '} |")
    return [*lines, ""]


def _milliseconds(log: Path) -> dict[tuple[str, str], float]:
    """From the table that `step` prints: plan, way, host ms, ms."""
    text = log.read_text(errors="replace") if log.exists() else ""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [\d.]+ \| ([\d.]+) \|", text, re.MULTILINE)
    return {(plan, way): float(ms) for plan, way, ms in rows}


if __name__ == "__main__":
    sys.exit(main())
