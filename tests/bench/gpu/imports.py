"""Print what the fork server imports for bobbin on a machine with a GPU, who of it asks for CUDA, and what fails then.

    python tests/bench/gpu/imports.py        # a minute or two; needs a torch built for CUDA, a C compiler, and no GPU

Worth it beside torchao, xformers and bitsandbytes, which look at the GPU as they are imported. The GPU is one that is
none: a libnvidia-ml.so.1 made here tells of it, and a libcuda.so.1 can only be started. Then pools, for which modules
start CUDA as they are imported: a tensor on a GPU, or past torch. Exits with 1 where an import asks or fails, torch's
compiler would miss Triton, or a pool does not start its ranks afresh and name the module.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import support.checkout  # noqa: F401 (makes the checkout importable)

PACKAGES = ("torch", "diffusers", "transformers", "peft", "torchao", "xformers", "bitsandbytes")
NVML = """
#include <string.h>
int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(long)(i + 1); return i ? 2 : 0; }
int nvmlDeviceGetUUID(void *h, char *b, unsigned n) { strncpy(b, "GPU-00000000-0000-0000-0000-000000000001", n); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 9; *b = 0; return 0; }
int nvmlDeviceGetName(void *h, char *b, unsigned n) { strncpy(b, "NVIDIA H200", n); return 0; }
"""  # noqa: E501 (C)
DRIVER = """
static int started;
int cuInit(unsigned flags) { started = 1; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return started ? 0 : 3; }
"""
PLANTED = {
    "tensor_on_a_gpu": "import torch\ntorch.zeros(1, device='cuda')\n",
    "past_torch": "import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n",
}


def main() -> int:
    print(", ".join(f"{name} {version(name)}" for name in PACKAGES if importlib.util.find_spec(name)))
    is_well = True
    with tempfile.TemporaryDirectory() as folder:
        compiled(NVML, Path(folder, "libnvidia-ml.so.1"))
        print("\n| GPUs | imported | asked for CUDA | asked of a child | failed | has_triton() | s |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for num_gpus in (1, 0):
            found = json.loads(run_here("served", str(num_gpus), folder=folder))
            print(f"| {num_gpus} | {' | '.join(str(each) for each in found.values())} |", flush=True)
            asked = found["refused"], found["children"], found["failed"]
            is_well &= asked == ("none", 0, "none") and found["has_triton"] is bool(num_gpus)
        compiled(DRIVER, Path(folder, "libcuda.so.1"))
        print("\n| a module that starts CUDA | the pool names | sum over 2 ranks | s |\n| --- | --- | --- | --- |")
        for name, body in PLANTED.items():
            Path(folder, f"{name}.py").write_text(body)
            found = json.loads(run_here("pooled", name, folder=folder))
            print(f"| {name} | {found['culprit']} | {found['total']:g} | {found['seconds']} |", flush=True)
            is_well &= (found["culprit"], found["total"]) == (name, 3)
    print("\nall is well" if is_well else "\nnot all is well")
    return 0 if is_well else 1


def compiled(source: str, library: Path) -> None:
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)], input=source, text=True, check=True)


def run_here(*order: str, folder: str) -> str:
    """The last line of a new process that finds the libraries and modules of `folder`."""
    env = {**os.environ, "LD_LIBRARY_PATH": folder, "PYTHONPATH": folder}
    done = subprocess.run(
        [sys.executable, "-P", __file__, *order], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def served(num_gpus: str) -> dict[str, Any]:
    """What `fork_server.main` imports, and what came of it."""
    from latentloom.parallel.ranks import fork_server, unasked

    failed: list[str] = []
    children: list[int] = []
    own, told = fork_server._import, unasked.DriverAnswers._told_by_child

    def watched(name: str) -> None:
        try:
            own(name)
        except Exception as error:
            failed.append(f"{name}: {error}"[:200])
            raise

    os.environ.update(fork_server.environment(int(num_gpus)))
    start = time.monotonic()
    with (
        mock.patch.object(fork_server, "_import", watched),
        mock.patch.object(unasked.DriverAnswers, "_told_by_child", lambda self: (children.append(1), told(self))[1]),
    ):
        culprit = fork_server.import_all(bobbins(), num_gpus=int(num_gpus))
    seconds = round(time.monotonic() - start, 1)
    from torch.utils._triton import has_triton

    with unasked.driver_unasked(int(num_gpus)):  # should nobody have asked yet
        found = has_triton()
    return {
        "imported": ", ".join(name for name in PACKAGES if name in sys.modules),
        "refused": culprit or "none",
        "children": len(children),
        "failed": "; ".join(failed) or "none",
        "has_triton": found,
        "seconds": seconds,
    }


def pooled(planted: str) -> dict[str, Any]:
    """A pool whose fork server believes in one GPU; its ranks are on the CPU, for want of any."""
    from latentloom.parallel.pool.pool import Pool
    from latentloom.parallel.pool.server_process import ServerProcess

    start, own = time.monotonic(), ServerProcess.start
    with (
        mock.patch.object(ServerProcess, "start", lambda log, preload, num_gpus: own(log, preload, num_gpus=1)),
        Pool(["cpu", "cpu"], preload=[*bobbins(), planted]) as pool,
    ):
        total = pool.call(".parallel.pool.trial:meet", {}, num_ranks=2)["total"]
        return {"culprit": pool.culprit, "total": total, "seconds": round(time.monotonic() - start, 1)}


def bobbins() -> list[str]:
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.pools import preloads

    return preloads(describe_model("builtin:bobbin", device="cpu"))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    print(json.dumps({"served": served, "pooled": pooled}[sys.argv[1]](sys.argv[2])))
