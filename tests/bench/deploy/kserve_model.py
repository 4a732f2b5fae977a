"""Serve deploy/kserve/model.py by KServe's own server on the loopback, and ask it by the Open Inference Protocol.

python tests/bench/deploy/kserve_model.py [FOLDER]     # FOLDER keeps an environment over ours, of KServe's packages

Printed: the digest of one request beside the picture of `latentloom run`, and what a request without a prompt is told.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from environment import environment
from picture import PLACE, PROMPT, ROOT, SEED, STEPS, digest, expected

PACKAGE = "kserve==0.21.0"
PORT = 21_820
LATEST_S = 240.0


def ask(path: str, inputs: dict[str, tuple[str, Any]] | None = None) -> Any:
    listed = [
        {"name": name, "shape": [1], "datatype": kind, "data": [value]}
        for name, (kind, value) in (inputs or {}).items()
    ]
    body = json.dumps({"inputs": listed}).encode() if inputs else None
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LATEST_S) as answer:
        return json.loads(answer.read() or b"{}")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="kserve-")).resolve()
    python = environment(folder / "kserve", PACKAGE, is_over_ours=True)
    log = folder / "kserve.log"
    command = [python, ROOT / "deploy" / "kserve" / "model.py", *PLACE, f"--http_port={PORT}", "--enable_grpc=false"]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        end = time.monotonic() + LATEST_S
        while True:
            assert server.poll() is None and time.monotonic() < end, log.read_text()[-3000:]
            try:
                ask("/v2/models/latentloom/ready")
                break
            except OSError:
                time.sleep(0.5)
        print(f"latentloom run: {(wanted := expected(folder / 'out'))}", flush=True)
        given = {"PROMPT": ("BYTES", PROMPT), "SEED": ("INT64", SEED), "STEPS": ("INT32", STEPS)}
        image = ask("/v2/models/latentloom/infer", given)["outputs"][0]
        found = digest(bytes(image["data"]))
        print(f"KServe: {found}, {image['datatype']} {image['shape']}")
        assert found == wanted
        try:
            ask("/v2/models/latentloom/infer", {"SEED": ("INT64", SEED)})
        except urllib.error.HTTPError as refused:
            print(f"without a prompt: {refused.code} {refused.read().decode()}")
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
