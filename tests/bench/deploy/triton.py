"""Serve deploy/triton by a real tritonserver on the loopback, and ask it over HTTP and gRPC.

python tests/bench/deploy/triton.py [FOLDER]     # FOLDER keeps an environment of 370 MB

The server's binary is the one in nvidia-pytriton 0.7.0 (tritonserver is not on PyPI). Its Python backend (Triton 2.51)
misreads texts under numpy 2, so the model runs by an environment over ours that has numpy 1.26. Printed: the
digest of one request over both doors beside the picture of `latentloom run`; what a wrong request is told; after how
many seconds of how many a cancelled one has ended, and that the next is whole.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from pathlib import Path

from picture import PROMPT, ROOT, SEED, STEPS, digest, expected

PACKAGE = "nvidia-pytriton==0.7.0"
HTTP, GRPC = 21_800, 21_801
LATEST_S = 240.0


def serve(python: Path, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """The server, with the part of its Python backend that belongs to our Python."""
    asked = [python, "-c", "import pytriton, pathlib; print(pathlib.Path(pytriton.__file__).parent)"]
    parts = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()) / "tritonserver"
    backends = folder / "backends"
    shutil.copytree(parts / "backends", backends, dirs_exist_ok=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = backends / "python" / "triton_python_backend_stub"
    shutil.copy(parts / "python_backend_stubs" / version / stub.name, stub)
    (parts / "bin" / "tritonserver").chmod(0o755)
    stub.chmod(0o755)
    # The backend's Python is the first on the path.
    env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    # The stub is elsewhere than its wheel expects; and it would take the system's libpython, if any, for ours.
    env["LD_LIBRARY_PATH"] = f"{sysconfig.get_config_var('LIBDIR')}:{parts.parents[1] / 'nvidia_pytriton.libs'}"
    command = [parts / "bin" / "tritonserver", f"--model-repository={ROOT / 'deploy' / 'triton'}"]
    command += [
        f"--backend-directory={backends}",
        f"--http-port={HTTP}",
        f"--grpc-port={GRPC}",
        "--allow-metrics=false",
    ]
    command += ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
    with log.open("wb") as out:
        return subprocess.Popen(command, env=env, stdout=out, stderr=out)


def client() -> None:
    """Run by the environment's interpreter: it has tritonclient."""
    import numpy as np
    import tritonclient.grpc
    import tritonclient.http
    from tritonclient.utils import InferenceServerException

    http, grpc = tritonclient.http, tritonclient.grpc
    doors = {
        "HTTP": (http, http.InferenceServerClient(f"127.0.0.1:{HTTP}", network_timeout=LATEST_S)),
        "gRPC": (grpc, grpc.InferenceServerClient(f"127.0.0.1:{GRPC}")),
    }

    def inputs(door: str, steps: int, prompt: str = PROMPT) -> list[object]:
        kind, made = doors[door][0], []
        values = {"PROMPT": [prompt.encode()], "SEED": [SEED], "STEPS": [steps]}
        for (name, value), dtype in zip(values.items(), ("BYTES", "INT64", "INT32"), strict=True):
            made.append(kind.InferInput(name, [1], dtype))
            made[-1].set_data_from_numpy(np.array(value, dtype={"BYTES": object, "INT64": "i8", "INT32": "i4"}[dtype]))
        return made

    def ask(door: str) -> str:
        found = doors[door][1].infer("latentloom", inputs(door, STEPS)).as_numpy("IMAGE")
        made = digest(np.ascontiguousarray(found).tobytes())
        assert made == os.environ["EXPECTED"], made
        return made

    for door in doors:
        begin = time.monotonic()
        print(f"{door}: {ask(door)} ({time.monotonic() - begin:.1f} s)", flush=True)
    try:
        doors["gRPC"][1].infer("latentloom", inputs("gRPC", 0))
    except InferenceServerException as error:
        print(f"0 steps: {error.status()}: {error.message()}")
    ends: list[object] = []
    begin = time.monotonic()
    call = doors["gRPC"][1].async_infer("latentloom", inputs("gRPC", 3000), lambda result, error: ends.append(error))
    time.sleep(3)
    call.cancel()
    whole = ask("gRPC")  # waits until the one instance is free
    later_s = time.monotonic() - begin - 3
    print(f"cancelled after 3 s of 3000 steps: {ends[0]}; the next, {whole}, came {later_s:.1f} s later")


def main() -> None:
    if "--client" in sys.argv:
        client()
        return
    from environment import environment

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="triton-")).resolve()
    python = environment(folder / "triton", PACKAGE, is_over_ours=True)
    log = folder / "triton.log"
    server, end = serve(python, folder, log), time.monotonic() + LATEST_S
    try:
        while True:
            assert server.poll() is None and time.monotonic() < end, log.read_text()[-3000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{HTTP}/v2/models/latentloom/ready").close()
                break
            except OSError:
                time.sleep(0.5)
        env = {**os.environ, "EXPECTED": expected(folder / "out")}
        print(f"latentloom run: {env['EXPECTED']}", flush=True)
        subprocess.run([python, __file__, "--client"], env=env, check=True, timeout=LATEST_S)
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
