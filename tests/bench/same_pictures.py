"""The shipped workflows in two checkouts: are the raw pixels the same, to the bit?

    git worktree add ../before bcf9f8e
    python tests/bench/same_pictures.py --before ../before

Each workflow file of this checkout runs in both, on one device and on `cpu*2` under `ulysses=2` and under `cfg=2`: the
bobbin ones as they are, the others with a tiny model of their family that is made here, small and of few steps. The
sha256 of the decoded pixels is compared, or the sentence where a plan is refused. Both checkouts run in this Python, so
that the libraries are the same. Exits with 1 if anything differs.
"""

import argparse
import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.checkout import ROOT

PLANS = {
    "one device": (),
    "ulysses=2": ("--devices", "cpu*2", "--plan", "ulysses=2"),
    "cfg=2": ("--devices", "cpu*2", "--plan", "cfg=2"),
}
FAMILY_OF = {
    "flux_text_to_image": "flux",
    "qwen_image": "qwen_image",
    "wan_text_to_video": "wan",
    "wan_image_to_video": "wan_i2v",
}
SMALL = {
    "flux": ("width=64", "height=64", "steps=3"),
    "qwen_image": ("width=64", "height=64", "steps=3"),
    "wan": ("width=64", "height=64", "steps=3", "frames=5"),
    "wan_i2v": ("width=64", "height=64", "steps=3", "frames=5"),
}
BOOT = """
import importlib.util, json, runpy, sys
root, script, order = sys.argv[1:4]
spec = importlib.util.spec_from_file_location("latentloom", root + "/__init__.py", submodule_search_locations=[root])
sys.modules["latentloom"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["latentloom"])
runpy.run_path(script)["run_all"](json.loads(order))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, type=Path, help="the other checkout")
    parser.add_argument("--only", default="", help="workflows whose name holds this")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        orders = list(orders_in(Path(work), chosen.only))
        before = pixels_of(chosen.before.resolve(), orders, Path(work) / "before")
        after = pixels_of(ROOT, orders, Path(work) / "after")
    for name in before:
        verdict = "same" if before[name] == after[name] else "DIFFERENT"
        print(f"{verdict:9}  {name:44} {after[name][:72]}")
        if verdict != "same":
            print(f"{'before':>9}  {'':44} {before[name][:72]}")
    num_same = sum(before[name] == after[name] for name in before)
    print(f"{num_same} of {len(before)} have the same pixels")
    return int(num_same < len(before))


def orders_in(work: Path, only: str) -> Iterator[tuple[str, list[str]]]:
    """(name, arguments of `run`) of every workflow under every plan; tiny models and a first frame are made."""
    from PIL import Image

    from support.tiny_models import write_tiny

    frame = work / "picture.png"
    Image.radial_gradient("L").resize((96, 96)).convert("RGB").save(frame)
    for file in sorted((ROOT / "workflows").glob("*/*.json")):
        if only not in file.stem:
            continue
        arguments = ["run", str(file), "--no-cache", "--allow", str(work)]
        if "image" in json.loads(file.read_text())["params"]:
            arguments += ["--set", f"image={frame}"]
        if family := FAMILY_OF.get(file.stem):
            folder = write_tiny(family, work / family)
            for each in (f"source={folder}", *SMALL[family]):
                arguments += ["--set", each]
        for plan, devices in PLANS.items():
            yield f"{file.stem}, {plan}", [*arguments, *devices]


def pixels_of(checkout: Path, orders: list[tuple[str, list[str]]], out: Path) -> dict[str, str]:
    """Per name the digest that this checkout gives, all of them made in one process of its own."""
    out.mkdir()
    told = out / "digests.json"
    order = json.dumps({"orders": orders, "out": str(out), "told": str(told)})
    subprocess.run(
        [sys.executable, "-P", "-c", BOOT, str(checkout), __file__, order], cwd=out, check=True, timeout=3600
    )
    return json.loads(told.read_text())


def run_all(order: dict[str, Any]) -> None:
    """In the process of one checkout: run each order and write what came of it."""
    from latentloom.__main__ import main as latentloom

    digests = {}
    for number, (name, arguments) in enumerate(order["orders"]):
        folder = Path(order["out"]) / str(number)
        error = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
            ended = latentloom([*arguments, "--out", str(folder)])
        digests[name] = digest(folder) if ended == 0 else f"exit {ended}: {error.getvalue().strip().splitlines()[-1]}"
        print(f"{name}: {digests[name][:60]}", file=sys.stderr, flush=True)
    Path(order["told"]).write_text(json.dumps(digests))


def digest(folder: Path) -> str:
    """sha256 of the decoded pixels of every picture and video in a folder, by name."""
    import av
    import numpy as np
    from PIL import Image

    total = hashlib.sha256()
    for file in sorted(each for each in folder.rglob("*") if each.suffix in (".png", ".mp4")):
        total.update(file.name.encode())
        if file.suffix == ".png":
            frames = [np.asarray(Image.open(file).convert("RGB"))]
        else:
            with av.open(str(file)) as video:
                frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        for frame in frames:
            total.update(repr(frame.shape).encode())
            total.update(np.ascontiguousarray(frame).tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
