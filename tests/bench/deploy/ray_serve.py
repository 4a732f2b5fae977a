"""Serve deploy/ray/app.py by Ray on this machine, and ask for one picture many times, while a replica is killed.

python tests/bench/deploy/ray_serve.py [FOLDER]     # FOLDER keeps an environment over ours, of Ray Serve's packages

Printed: the digest of one request beside the picture of `latentloom run`; the replicas under load; that each of twelve
requests was answered by that same picture though a replica was killed among them; how long a hung-up request blocks.
"""

import io
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from picture import PROMPT, ROOT, SEED, STEPS, digest, expected

PACKAGE = "ray[serve]==2.60.0"
PORT = 21_810
LATEST_S = 300.0
NUM_REQUESTS = 12


def ask(steps: int = STEPS, timeout_s: float = LATEST_S) -> str:
    from PIL import Image

    body = json.dumps({"prompt": PROMPT, "seed": SEED, "steps": steps}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", data=body, timeout=timeout_s) as answer:
        return digest(Image.open(io.BytesIO(answer.read())).convert("RGB").tobytes())


def painters() -> list[Any]:
    """The processes of the replicas: of this script's Ray alone."""
    import psutil

    here = psutil.Process().children(recursive=True)
    return [each for each in here if "ServeReplica:default:Painter" in " ".join(each.cmdline())]


def until(holds: Any, what: str) -> None:
    end = time.monotonic() + LATEST_S
    while not holds():
        assert time.monotonic() < end, f"{what} is not so after {LATEST_S:g} s"
        time.sleep(0.2)


def serve_and_ask() -> None:
    """Run by the environment's interpreter: it has Ray Serve."""
    import ray
    from ray import serve

    sys.path.insert(0, str(ROOT))
    from deploy.ray.app import app

    env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def num_replicas() -> int:
        return serve.status().applications["default"].deployments["Painter"].replica_states.get("RUNNING", 0)

    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # a socket's path is short
        ray.init(
            num_cpus=4,
            object_store_memory=200 << 20,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": env},
            _temp_dir=temporary,
        )
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        serve.run(app({"devices": "cpu*2", "plan": "cfg=2"}))
        try:
            begin = time.monotonic()
            first = ask()
            print(f"Ray Serve: {first} ({time.monotonic() - begin:.1f} s, with the ranks' start)", flush=True)
            assert first == os.environ["EXPECTED"] and num_replicas() == 1
            with ThreadPoolExecutor(NUM_REQUESTS) as threads:
                begin = time.monotonic()
                asked = [threads.submit(ask, 30) for _ in range(NUM_REQUESTS)]
                until(lambda: num_replicas() == 2, "two replicas")
                print(f"replicas under load: 1, and 2 after {time.monotonic() - begin:.1f} s", flush=True)
                until(lambda: sum(each.done() for each in asked) >= 2, "two answers")
                os.kill(painters()[0].pid, signal.SIGKILL)
                found = [each.result() for each in asked]
            assert len(found) == NUM_REQUESTS and len(set(found)) == 1
            print(f"{len(found)} requests, one replica killed: {len(found)} answers of {len(set(found))} digest")
            begin = time.monotonic()
            try:
                ask(steps=100_000, timeout_s=3)
            except TimeoutError:
                again = ask()
                later_s = time.monotonic() - begin - 3
                print(f"hung up after 3 s of 100000 steps; the next, {again}, came {later_s:.1f} s later")
                assert again == first
        finally:
            serve.shutdown()
            ray.shutdown()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ray-serve-")).resolve()
    if "EXPECTED" in os.environ:
        serve_and_ask()
        return
    from environment import environment

    python = environment(folder / "ray", PACKAGE, is_over_ours=True)
    env = {**os.environ, "EXPECTED": expected(folder / "out"), "RAY_USAGE_STATS_ENABLED": "0"}
    env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}  # or Ray writes one to the home folder
    print(f"latentloom run: {env['EXPECTED']}", flush=True)
    subprocess.run([python, __file__, folder], env=env, check=True)


if __name__ == "__main__":
    main()
