"""The picture of Spread Model in README: a graph of ComfyUI's own nodes with it, on the page of a real ComfyUI.

    COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_picture.py FILE.png

DIR and PYTHON are as in `comfyui_session.py`; needs playwright, Pillow and Chromium (CHROMIUM=/path/to/it). Models are
empty files with the names of real ones, because nothing is run.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from comfyui_session import comfyui
from page_browser import chromium
from PIL import Image

SIZE, WAIT_MS, SETTLE_MS = {"width": 1480, "height": 640}, 60_000, 1500
FILES = {
    "diffusion_models": "flux1-dev.safetensors",
    "text_encoders": "t5xxl_fp16.safetensors",
    "vae": "ae.safetensors",
    "loras": "my_style.safetensors",
}
CLIP = {"text_encoders": "clip_l.safetensors"}
PROMPT = "a red star left of a blue metal cube on grass"
# Each node: its type, where it stands, how wide it is, and values of its widgets in their order.
NODES = {
    "load": ("UNETLoader", (0, 0), 290, ["flux1-dev.safetensors", "default"]),
    "spread": ("LoomSpreadModel", (330, 0), 270, ["cuda*4", "auto", False]),
    "lora": ("LoraLoaderModelOnly", (640, 0), 270, ["my_style.safetensors", 0.8]),
    "clip": ("DualCLIPLoader", (0, 190), 290, ["t5xxl_fp16.safetensors", "clip_l.safetensors", "flux", "default"]),
    "words": ("CLIPTextEncode", (330, 210), 270, [PROMPT]),
    "none": ("ConditioningZeroOut", (640, 210), 270, []),
    "empty": ("EmptySD3LatentImage", (640, 310), 270, [1024, 1024, 1]),
    "sample": ("KSampler", (950, 0), 270, [7, "fixed", 20, 1.0, "euler", "simple", 1.0]),
    "vae": ("VAELoader", (640, 480), 270, ["ae.safetensors"]),
    "decode": ("VAEDecode", (950, 340), 270, []),
    "save": ("SaveImage", (1260, 0), 220, ["spread"]),
}
# From a node's output to another's input.
LINKS = (
    ("load", 0, "spread", "model"),
    ("spread", 0, "lora", "model"),
    ("lora", 0, "sample", "model"),
    ("clip", 0, "words", "clip"),
    ("words", 0, "none", "conditioning"),
    ("words", 0, "sample", "positive"),
    ("none", 0, "sample", "negative"),
    ("empty", 0, "sample", "latent_image"),
    ("sample", 0, "decode", "samples"),
    ("vae", 0, "decode", "vae"),
    ("decode", 0, "save", "images"),
)
DRAWN = """([nodes, links]) => {
  const app = window.app ?? window.comfyAPI.app.app;
  app.graph.clear();
  const made = {};
  for (const [name, [type, at, width, values]] of Object.entries(nodes)) {
    const node = made[name] = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [...at];
    values.forEach((value, index) => { node.widgets[index].value = value; });
    node.setSize([width, node.computeSize()[1]]);
  }
  for (const [from, output, to, input] of links) {
    made[from].connect(output, made[to], made[to].inputs.findIndex((each) => each.name === input));
  }
  Object.assign(made.spread, { color: "#223355", bgcolor: "#335577" });
  app.canvas.ds.scale = 0.92;
  app.canvas.ds.offset = [90, 130];
  app.canvas.setDirty(true, true);
}"""


def prepared(base: Path) -> None:
    for folder, name in (*FILES.items(), *CLIP.items()):
        (base / "models" / folder).mkdir(parents=True, exist_ok=True)
        (base / "models" / folder / name).touch()


def main(file: Path) -> int:
    checkout, python = Path(os.environ["COMFYUI_DIR"]), os.environ.get("COMFYUI_PYTHON", sys.executable)
    with comfyui(checkout, python, prepare=prepared) as host, chromium() as browser:
        host.ask(
            "/settings",
            {"Comfy.TutorialCompleted": True, "Comfy.Minimap.Visible": False, "Comfy.Graph.CanvasInfo": False},
        )
        page = browser.new_page(viewport=SIZE, locale="en-US")
        page.goto(host.url)
        page.wait_for_function("() => (window.app ?? window.comfyAPI?.app?.app)?.graph && window.LiteGraph")
        page.wait_for_timeout(SETTLE_MS)
        page.keyboard.press("Escape")
        page.evaluate(DRAWN, [NODES, LINKS])
        page.wait_for_timeout(SETTLE_MS)
        shot = page.screenshot()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(128).save(file, optimize=True)
    print(file, f"{file.stat().st_size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
