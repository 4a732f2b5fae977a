"""How long it takes to import latentloom, to print the help, to check a workflow that will run and some that will not,
and to plan a folder of FLUX.1 dev, 34 GB by its headers: the median of fresh processes, beside Python itself. CPU
seconds are those of user and system. Exits with 1 where a command ends otherwise than it should.

    python tests/bench/start_up.py [RUNS]       # 11: two minutes
"""

import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.lora_files import write_pair

TESTS = Path(__file__).resolve().parent.parent
BOBBIN = TESTS.parent / "workflows" / "bobbin"
FIRST, FROM_PICTURE = "first_picture.json", "image_to_image.json"
PROGRAM = [sys.executable, "-m", "latentloom"]
HOLLOW_MODELS = TESTS / "support" / "hollow_models.py"
BAD = 2
Nodes = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    command: list[str]
    code: int = 0


def other_lora(nodes: Nodes) -> None:
    """Of a model that has no such layer."""
    file = write_pair(Path("other.safetensors"), "transformer.no_such.0")
    inputs = {"model": {"from": "load_model.model"}, "path": str(file)}
    nodes["lora"] = {"type": "LoomLoadLora", "version": 1, "inputs": inputs}
    nodes["denoise"]["inputs"]["model"] = {"from": "lora.model"}


def three_ranks(nodes: Nodes) -> None:
    """Bobbin's heads are no multiple of three."""
    inputs = {"model": {"from": "load_model.model"}, "devices": "cpu*3", "plan": "ulysses=3"}
    nodes["plan"] = {"type": "LoomParallelPlan", "version": 1, "inputs": inputs}
    nodes["denoise"]["inputs"]["model"] = {"from": "plan.model"}


def made(name: str, change: Callable[[Nodes], None]) -> str:
    plain = json.loads((BOBBIN / FIRST).read_text())
    change(plain["nodes"])
    Path(name).write_text(json.dumps(plain))
    return name


def setting(*values: str) -> list[str]:
    return [part for value in values for part in ("--set", value)]


def plan_of_flux() -> list[str]:
    """Configs and headers as published, and holes for the weights, made by a process of its own."""
    subprocess.run([sys.executable, HOLLOW_MODELS, "hollow"], check=True, capture_output=True)
    return [*PROGRAM, "plan", "hollow/flux", "--machine", "8xH100-nvlink"]


def cases() -> list[Case]:
    first, sweep = str(BOBBIN / FIRST), ["--sweep", "empty_latents.width=96,100,128"]
    refused = {
        "a model that is not here": [first, *setting("load_model.source=nobody/has-it")],
        "a picture that is not here": [str(BOBBIN / FROM_PICTURE), *setting("load_image.path=nowhere.png")],
        "100 x 77": [first, *setting("empty_latents.width=100", "empty_latents.height=77")],
        "1024 x 1024 of bobbin": [first, *setting("empty_latents.width=1024", "empty_latents.height=1024")],
        "a bad output name": [first, *setting("save.name=../picture")],
        "a bad point of a sweep": [first, *sweep],
        "a LoRA of another model": [made("lora.json", other_lora)],
        "a plan that cannot be": [made("plan.json", three_ranks)],
    }
    return [
        Case(name="python itself", command=[sys.executable, "-c", "pass"]),
        Case(name="import latentloom", command=[sys.executable, "-c", "import latentloom"]),
        Case(name="latentloom --help", command=[*PROGRAM, "--help"]),
        Case(name="latentloom check", command=[*PROGRAM, "check", first]),
        *(Case(name=name, command=[*PROGRAM, "check", *given], code=BAD) for name, given in refused.items()),
        Case(name="latentloom plan of 34 GB", command=plan_of_flux()),
    ]


def taken(case: Case) -> tuple[float, float, bool]:
    """Seconds on the clock, seconds of CPU, and whether it ended as it should."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = subprocess.run(case.command, check=False, capture_output=True).returncode
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, code == case.code


def main() -> int:
    runs, wrong = int(sys.argv[1]) if len(sys.argv) > 1 else 11, 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        listed = cases()
        found: dict[str, list[tuple[float, float, bool]]] = {case.name: [] for case in listed}
        for _ in range(runs):
            for case in listed:
                found[case.name].append(taken(case))
    for name, times in found.items():
        clock, cpu = (statistics.median(each[i] for each in times) for i in (0, 1))
        least = min(each[1] for each in times)
        ends = all(each[2] for each in times)
        wrong += not ends
        print(f"{name:<28} {clock:5.2f} s, {cpu:5.2f} CPU s, {least:5.2f} at best {'' if ends else 'ENDED OTHERWISE'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
