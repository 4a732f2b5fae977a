"""Cases that schemathesis makes of the service's own OpenAPI: no 5xx, no status or answer that is not described.

pip install schemathesis; python tests/bench/serve_schemathesis.py [--cases 500] [--seed 1]

All routes but POST /loom/measure, which takes the machine for itself. What is left out of a request, wrong or too much
is among the cases.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.service import serve

CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="at least; in all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    program = shutil.which("schemathesis") or shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    if program is None:
        sys.exit("schemathesis is not here; run: pip install schemathesis")
    with tempfile.TemporaryDirectory() as folder:
        serving = serve(Path(folder))
        try:
            told = serving.client.get("/loom/openapi.json").json()
            document = Path(folder) / "openapi.json"
            document.write_text(json.dumps(told))
            num_operations = sum(len(ways) for ways in told["paths"].values())
            each = -(-given.cases // num_operations)
            print(f"{num_operations} operations, at least {each} cases each")
            command = [program, "run", str(document), "--url", str(serving.client.base_url), "--seed", str(given.seed)]
            command += ["--header", f"Authorization: {serving.client.headers['Authorization']}", "--no-color"]
            command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"]
            command += ["--max-examples", str(each), "--continue-on-failure", "--exclude-path", "/loom/measure"]
            command += ["--suppress-health-check", "all", "--request-timeout", "60"]
            kept: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            ran = subprocess.run(command, cwd=folder, check=False, **kept)  # where it may leave files
            print(ran.stdout)
            made = re.search(r"(\d[\d,]*) generated", ran.stdout)
            num_made = int(made[1].replace(",", "")) if made else 0
            told_errors = len(re.findall(r" ERROR latentloom", serving.log.read_text()))
            print(f"{num_made} cases; {told_errors} errors in the service's log")
            return ran.returncode or int(num_made < given.cases or told_errors > 0)
        finally:
            serving.process.send_signal(signal.SIGTERM)
            serving.process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
