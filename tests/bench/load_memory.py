"""What a process holds while it loads 1 GiB of weights that are quantized: `python tests/bench/load_memory.py`.

A transformer and a text encoder with random weights in fp32, made in a temporary folder, are loaded on the CPU in bf16,
each in a process of its own; the transformer also from a single file, in fp8 as it might be published. A process's own
memory is RssAnon and RssShmem, looked at every 2 ms; the mapped file is not counted. Exits with 1 where the peak is
above 1.15 x what is kept + 80 MB + the largest tensor as it was read. Needs torchao; Linux only.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ONE_FILE = "one.safetensors"
COMPONENTS = ("transformer", "text_encoder_2", ONE_FILE)
MB = 1_000_000
PACKING = """
import pathlib, sys, torch
from safetensors.torch import load_file, save_file
files = sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
held = {name: tensor for file in files for name, tensor in load_file(file).items()}
save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in held.items()}, sys.argv[2])
"""


def own_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * sum(int(number) for number in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", status, re.MULTILINE))


def load(folder: str, name: str, quantization: str) -> None:
    """In a process of its own: tells what it held, as JSON."""
    from latentloom.pipelines.components.memory import bytes_of
    from latentloom.pipelines.components.store import ComponentStore
    from latentloom.pipelines.models.component_files import inspect_model
    from latentloom.pipelines.models.describe import describe_model

    files = inspect_model(Path(folder)).components
    source = f"{folder}/{ONE_FILE}@{folder}" if name == ONE_FILE else folder
    model = describe_model(source, device="cpu", dtype="bf16", quantization=quantization)
    name = "transformer" if name == ONE_FILE else name
    store = ComponentStore()
    store.load(model, ("vae", "text_encoder"))  # the libraries, torchao among them
    before, peaks, done = own_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peaks.append(own_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    component = store.load(model, (name,))[name]
    done.set()
    watching.join()
    entries = [entry for file in files[name].weights for entry in file.tensors.values()]
    read = [Path(folder, ONE_FILE)] if ONE_FILE in source else [file.path for file in files[name].weights]
    found = {
        "read": sum(path.stat().st_size for path in read),
        "kept": bytes_of(component),
        "peak": max(peaks) - before,
        "after": own_bytes() - before,
        "largest": 2 * max(entry.numel for entry in entries),
    }
    print(json.dumps(found))


def main() -> int:
    command = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    command.add_argument("--width", type=int, default=1920, help="weights of about 290 x its square bytes")
    command.add_argument("--quantizations", nargs="+", default=["int8", "fp8"])
    command.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = command.parse_args()
    if asked.child:
        load(*asked.child)
        return 0
    wrong = 0
    print(f"{'MB':<16}{'':<6}{'read':>8}{'kept':>8}{'after':>8}{'peak':>8}{'allowed':>9}")
    with tempfile.TemporaryDirectory() as folder:
        making = "import sys; from support.large_models import write_large; from pathlib import Path; "
        making += "write_large(Path(sys.argv[1]), width=int(sys.argv[2]))"
        tests = str(Path(__file__).resolve().parents[1])
        subprocess.run([sys.executable, "-c", making, folder, str(asked.width)], check=True, cwd=tests)
        subprocess.run([sys.executable, "-c", PACKING, f"{folder}/transformer", f"{folder}/{ONE_FILE}"], check=True)
        for name in COMPONENTS:
            for quantization in asked.quantizations:
                child = [sys.executable, __file__, "--child", folder, name, quantization]
                found = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
                allowed = 1.15 * found["kept"] + 80 * MB + found["largest"]
                wrong += found["peak"] > allowed
                numbers = "".join(f"{found[each] / MB:8.0f}" for each in ("read", "kept", "after", "peak"))
                print(f"{name:<16}{quantization:<6}{numbers}{allowed / MB:9.0f}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
