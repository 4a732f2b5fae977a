"""Run the steps of deploy/Containerfile without a container engine, in an empty folder, and then the service itself, as
a user with a number only and no home, with its tokens in a file that this user may only read.

sudo /usr/bin/python3 tests/bench/deploy/container.py

Needs root, to become that user, and the network or an index of packages. The base image is the Python that runs this,
which every user must be able to run; paths of the image lie below the folder.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FILE = ROOT / "deploy" / "Containerfile"
USER = 10001
PORT = 7861
MOST_S = 600


def steps() -> tuple[list[str], dict[str, str], list[str]]:
    """The commands of the image, its environment, and the command that it starts."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    runs = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]
    pairs = [pair.partition("=") for line in lines if line.startswith("ENV ") for pair in line.split()[1:]]
    (start,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    return runs, {name: value for name, _, value in pairs}, start


def inside(folder: Path, text: str) -> str:
    """A text whose absolute paths of the image lead below the folder."""
    return re.sub(r"(?<![\w./])/(opt/latentloom|data|models|run/secrets)\b", rf"{folder}/\1", text)


@contextlib.contextmanager
def served(folder: Path, command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
    process = subprocess.Popen([*user, *command], env=environment, cwd=folder / "opt" / "latentloom")
    try:
        yield process
    finally:
        process.terminate()
        print(f"it ended with {process.wait(120)}")


def ask(path: str, *, host: str, token: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
    headers = {"Host": host} | ({"Authorization": f"Bearer {token}"} if token else {})
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def main() -> int:
    runs, pairs, start = steps()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        place = folder / "opt" / "latentloom"
        place.mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(sys.executable)
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for each in filter(None, listed.decode().split("\0")):
            (place / "source" / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / each, place / "source" / each)
        base = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TORCH": os.environ.get("TORCH", "")}
        for run in runs:
            command = (
                inside(folder, run) if base["TORCH"] else inside(folder, run).replace('--extra-index-url "$TORCH" ', "")
            )
            begun = time.monotonic()
            subprocess.run(command, shell=True, cwd=place, check=True, env={**os.environ, **base})
            print(f"{time.monotonic() - begun:6.1f} s  {run}")
        environment = {name: inside(folder, value).replace("$PATH", base["PATH"]) for name, value in pairs.items()}
        program = str(place / "venv" / "bin" / "latentloom")
        told = subprocess.run([program, "token", "studio"], env=environment, capture_output=True, text=True, check=True)
        token, line = told.stdout.splitlines()
        secrets = folder / "run" / "secrets"
        secrets.mkdir(parents=True)
        (secrets / "tokens").write_text(f"{line}\n")
        os.chown(secrets / "tokens", 0, USER)
        (secrets / "tokens").chmod(0o440)  # as a secret is mounted: the group may read it
        command = [
            program,
            *(inside(folder, each) for each in start),
            "--port",
            str(PORT),
            "--allow-host",
            "latentloom.farm.svc",
        ]
        with served(folder, command, environment):
            until = time.monotonic() + MOST_S
            while True:
                with contextlib.suppress(OSError):
                    if ask("/readyz", host="localhost")[0] == 200:
                        break
                assert time.monotonic() < until, "it is not ready"
                time.sleep(0.5)
            wanted = {
                "readyz, by any name": (ask("/readyz", host="10.0.0.1")[0], 200),
                "runs, by its own name, with the token": (
                    ask("/loom/runs", host="latentloom.farm.svc", token=token)[0],
                    200,
                ),
                "runs, without a token": (ask("/loom/runs", host="latentloom.farm.svc")[0], 401),
                "runs, by a stranger's name": (ask("/loom/runs", host="elsewhere.org", token=token)[0], 403),
            }
            for says, (found, want) in wanted.items():
                print(f"{says}: {found}" + ("" if found == want else f", wanted {want}"))
    return int(any(found != want for found, want in wanted.values()))


if __name__ == "__main__":
    sys.exit(main())
