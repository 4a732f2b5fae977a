"""The shipped workflows of two commits: are the raw pixels the same, to the bit?

    git worktree add ../before COMMIT
    python tests/bench/same_pictures.py record before.json --checkout ../before     # ten minutes on two cores
    python tests/bench/same_pictures.py record after.json [--only flux] [--row ring]
    python tests/bench/same_pictures.py compare before.json after.json

Each workflow file of that checkout runs on one device and on two and four ranks by several plans: the bobbin ones with
their own model, the others with a tiny one of their family, all small and of few steps. Kept is the sha256 of the
decoded pixels and samples, or the sentence where a plan is refused. What a file holds already is not recorded anew, so
that a recording can be ended and taken up. `compare` exits with 1 if anything differs that both have.
"""

import contextlib
import hashlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.checkouts import call_in, commands, write_record
from bench.shipped import FOLDER, prepare, small_settings

TWO, FOUR = ("--devices", "cpu*2", "--plan"), ("--devices", "cpu*4", "--plan")
HALF = ("--set", "LOADER.dtype=bf16")
ROWS = {
    "one device": (),
    "ulysses=2": (*TWO, "ulysses=2"),
    "cfg=2,ulysses=2": (*FOUR, "cfg=2,ulysses=2"),
    "ring=2": (*TWO, "ring=2"),
    "bf16, one device": HALF,
    "cfg=2": (*TWO, "cfg=2"),
    "ulysses=4": (*FOUR, "ulysses=4"),
    "allgather=2": (*TWO, "allgather=2"),
    "bf16, ulysses=2": (*HALF, *TWO, "ulysses=2"),
}
RUN_S, ROW_S = 300, 3600
KINDS = (".png", ".mp4", ".flac")


def main() -> int:
    parser, recording, _ = commands(__doc__)
    recording.add_argument("--only", default="", help="workflows whose name holds this")
    recording.add_argument("--row", default="", help="rows whose name holds this")
    chosen = parser.parse_args()
    if chosen.command == "compare":
        return compare(chosen.old, chosen.new)
    for row in ROWS:
        if chosen.row in row:
            record(chosen.file, chosen.checkout, row, chosen.only)
    return 0


def record(file: Path, checkout: Path, row: str, only: str) -> None:
    """By workflow what comes of it, all of a row in one process and on its warm ranks."""
    before = json.loads(file.read_text()) if file.exists() else {}
    order = {"options": ROWS[row], "only": only, "but": [*before.get(row, {})]}
    told, start, ended = file.resolve().with_suffix(".part"), time.monotonic(), ""
    told.unlink(missing_ok=True)
    try:
        one_thread = {"OMP_NUM_THREADS": "1"}
        call_in(checkout, __file__, "pixels", timeout_s=ROW_S, env=one_thread, told=str(told), **order)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        ended = f", {type(error).__name__}"
    found = dict(json.loads(line) for line in told.read_text().splitlines()) if told.exists() else {}
    told.unlink(missing_ok=True)
    if found:
        write_record(file, before | {row: before.get(row, {}) | found})
    print(f"{row}: {len(found)} workflows, {time.monotonic() - start:.0f} s{ended}", file=sys.stderr, flush=True)


def compare(old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]) -> int:
    pairs = {
        (row, name): (old[row][name], new[row][name]) for row in new for name in new[row] if name in old.get(row, {})
    }
    differing = {at: pair for at, pair in pairs.items() if _told(pair[0]) != _told(pair[1])}
    for (row, name), (before, after) in differing.items():
        print(f"DIFFERENT  {name}, {row}\n    before  {before[:200]}\n    after   {after[:200]}")
    refused = sum(after.startswith("exit") for _, after in pairs.values())
    missing = sum(len(old[row]) for row in old) - len(pairs)
    print(
        f"{len(pairs) - len(differing)} of {len(pairs)} are the same, {refused} of them refusals; "
        f"{missing} that were recorded before are not here"
    )
    return int(bool(differing) or not pairs)


def _told(outcome: str) -> str:
    """Which rank is the first to refuse is chance."""
    return re.sub(r"\brank \d+ ", "rank ", outcome)


# ---- in the process of one checkout


def pixels(options: list[str], only: str, but: list[str], told: str) -> None:
    """A line of JSON in the file `told` for each workflow, once it has run."""
    from latentloom.nodes.headless.workflow_files import SHIPPED

    signal.signal(signal.SIGALRM, _too_long)
    with Path(told).open("a") as lines, _small_pictures(options):
        for file in prepare(SHIPPED):
            nodes = json.loads(file.read_text())["nodes"]
            for family, small in small_settings(file):
                name = f"{file.stem}, {family}" if family else file.stem
                if only not in name or name in but:
                    continue
                settings = {**(small or small_nodes(nodes)), **lossless(nodes)}
                given = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
                given += [option.replace("LOADER", loader_of(nodes)) for option in options]
                start = time.monotonic()
                lines.write(json.dumps([name, outcome([str(file), *given])]) + "\n")
                lines.flush()
                print(f"    {name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def _small_pictures(options: list[str]) -> contextlib.AbstractContextManager[None]:
    """Reference pictures of a few tokens, in this process: ranks make them as large as diffusers does."""
    from support.tiny_rows import small_references

    return contextlib.nullcontext() if "--devices" in options else small_references()


def loader_of(nodes: Mapping[str, Mapping[str, Any]]) -> str:
    return next(name for name, node in nodes.items() if node["type"] in ("LoomLoadModel", "LoomRunPipeline"))


def lossless(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """Videos as they are: what x264 leaves out of the same frames is not the same in every run (PyAV 18.1)."""
    return {f"{name}.quality": 0 for name, node in nodes.items() if node["type"] == "LoomSaveVideo"}


def small_nodes(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """For a workflow of the built-in model: two steps of every denoise, and a small canvas."""
    size = 96 if any(node["type"] == "LoomUpscaleLatents" for node in nodes.values()) else 64  # which makes it larger
    small: Mapping[str, dict[str, object]] = {
        "LoomDenoise": {"steps": 2},
        "LoomRunPipeline": {"num_inference_steps": 2},
        "LoomEmptyLatents": {"width": size, "height": size},
    }
    return {
        f"{name}.{socket}": value
        for name, node in nodes.items()
        for socket, value in small.get(node["type"], {}).items()
    }


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it did not end within {RUN_S} s")


def outcome(arguments: list[str]) -> str:
    from latentloom.__main__ import main as latentloom

    folder, error = Path("made").resolve(), io.StringIO()
    shutil.rmtree(folder, ignore_errors=True)
    signal.alarm(RUN_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
            ended = latentloom(["run", *arguments, "--no-cache", "--allow", str(FOLDER), "--out", str(folder)])
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"
    finally:
        signal.alarm(0)
    return digest(folder) if ended == 0 else f"exit {ended}: {error.getvalue().strip().splitlines()[-1]}"


def digest(folder: Path) -> str:
    """sha256 of the decoded pixels and samples of every picture, video and sound in a folder, by name."""
    import av
    import numpy as np

    total = hashlib.sha256()
    for file in sorted(each for each in folder.rglob("*") if each.suffix in KINDS):
        total.update(file.name.encode())
        for array in _arrays(file, av):
            total.update(repr(array.shape).encode())
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _arrays(file: Path, av: Any) -> list[Any]:
    import numpy as np
    from PIL import Image

    if file.suffix == ".png":
        return [np.asarray(Image.open(file).convert("RGB"))]
    found = []
    with av.open(str(file)) as container:
        for stream in container.streams:
            if stream.type in ("video", "audio"):
                container.seek(0)
                options = {"format": "rgb24"} if stream.type == "video" else {}
                found += [frame.to_ndarray(**options) for frame in container.decode(stream)]
    return found


if __name__ == "__main__":
    sys.exit(main())
