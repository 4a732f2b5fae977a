"""The one request of these scripts, and the picture of `latentloom run`, whose digest every answer must have."""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = ROOT / "workflows" / "bobbin" / "run_pipeline.json"
PROMPT, SEED, STEPS = "a red star left of a blue cube", 7, 2
PLACE = ["--devices", "cpu*2", "--plan", "cfg=2"]


def digest(pixels: bytes) -> str:
    return hashlib.sha256(pixels).hexdigest()[:12]


def expected(folder: Path) -> str:
    """The digest of its pixels, red, green and blue by rows."""
    from PIL import Image

    settings = [f"prompt={PROMPT}", f"seed={SEED}", f"run_pipeline.num_inference_steps={STEPS}"]
    given = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "latentloom", "run", WORKFLOW, *given, *PLACE, "--no-cache", "--out", folder]
    subprocess.run(command, check=True, capture_output=True)
    with Image.open(folder / "picture.png") as picture:
        return digest(picture.convert("RGB").tobytes())
