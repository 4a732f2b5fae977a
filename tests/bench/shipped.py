"""The workflows that ship, with tiny models of their families in place of their own, for benches that record them."""

import contextlib
import fcntl
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# One path for all: the keys of results depend on where a model lies.
FOLDER = Path(tempfile.gettempdir()) / "latentloom-shipped"
# For each workflow whose model is not built in.
TINY = {
    "flux_text_to_image": ("flux",),
    "qwen_image": ("qwen_image",),
    "wan_text_to_video": ("wan", "wan22"),
    "wan_image_to_video": ("wan_i2v", "wan22_i2v"),
    "wan_first_last_frame": ("wan22_i2v", "wan_flf2v"),
    "z_image": ("z_image_turbo",),
    "qwen_image_21": ("qwen_image_21",),
    "krea_2": ("krea_2",),
    "flux_2": ("flux_2_klein",),
    "flux_3": ("flux_3_distilled",),
    "ernie_image": ("ernie_image",),
    "anima": ("anima",),
    "qwen_image_layered": ("qwen_image_layered",),
    "stable_diffusion_35": ("sd3",),
    "hunyuan_video_15": ("hunyuan_video_15",),
    "wan_vace": ("wan_vace",),
    "hunyuan_video_15_image_to_video": ("hunyuan_video_15_image",),
    "ltx": ("ltx",),
    "ltx_2": ("ltx_2",),
    "minimax_h3": ("minimax_h3",),
    "flux_kontext": ("flux_kontext",),
    "flux_2_edit": ("flux_2",),
    "flux_3_edit": ("flux_3_distilled",),
    "qwen_image_21_edit": ("qwen_image_21_turbo",),
    "qwen_image_edit": ("qwen_image_edit",),
    "qwen_image_edit_plus": ("qwen_image_edit_plus",),
    "minimax_h3_image_to_video": ("minimax_h3",),
    "cosmos_3_text_to_image": ("cosmos_3",),
    "cosmos_3_text_to_video": ("cosmos_3",),
    "cosmos_3_image_to_video": ("cosmos_3",),
    "cosmos_3_video_with_sound": ("cosmos_3",),
    "minimax_h3_references": ("minimax_h3",),
    "minimax_h3_continuation": ("minimax_h3",),
    "minimax_h3_turbo": ("minimax_h3",),
    "minimax_h3_image_to_video_turbo": ("minimax_h3",),
    "minimax_h3_references_turbo": ("minimax_h3",),
    "ltx_2_image_to_video": ("ltx_2",),
    "ltx_25": ("ltx_25",),
    "ltx_25_image_to_video": ("ltx_25",),
    "ltx_2_two_passes": ("ltx_2_larger",),
    "ltx_25_two_passes": ("ltx_25_larger",),
    "ltx_25_image_two_passes": ("ltx_25_larger",),
}
HOLLOW = {"flux_text_to_image": "flux", "qwen_image": "qwen_image", "wan_text_to_video": "wan22"}
# Of models that make none shorter, and of one whose frames are layers.
FRAMES = {name: 124 for name in TINY if name.startswith("minimax_h3")} | {"qwen_image_layered": 2}
STEPS = {"ltx_25": 8, "ltx_25_image_to_video": 8}  # of a model that takes no other number
CLIP = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "clip.mp4"
FRAME = FOLDER / "frame.png"
# A linear layer of each model that a workflow puts a LoRA on, and how many numbers it gives and takes.
LAYERS = {"ltx_2_larger": ("attn1.to_q", 24, 24), "minimax_h3": ("attn.to_q", 64, 24)}


def write_lora(path: Path, family: str) -> Path:
    """Of that tiny model, for one layer."""
    import torch
    from safetensors.torch import save_file

    layer, height, width = LAYERS[family]
    name = f"transformer.transformer_blocks.0.{layer}"
    pair = {f"{name}.lora_A.weight": torch.full((2, width), 0.1), f"{name}.lora_B.weight": torch.full((height, 2), 0.1)}
    save_file(pair, path)
    return path


def prepare(shipped: Path) -> list[Path]:
    """Models and pictures in FOLDER, and there a copy of these workflows, whose files it gives: made by the first who
    needs them, kept for all who come later."""
    from PIL import Image

    with _alone():
        picture = Image.radial_gradient("L").resize((96, 96))
        _made_whole(FRAME, lambda path: picture.convert("RGB").save(path, format="png"))
        files = sorted(path for path in shipped.rglob("*") if path.suffix == ".json")
        mark = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
        workflows = FOLDER / f"workflows_{mark}"
        _made_whole(workflows, lambda path: shutil.copytree(shipped, path))
        for family in sorted({each for families in TINY.values() for each in families}):
            _made_whole(FOLDER / family, lambda path, family=family: _tiny(family, path))
        for name in HOLLOW.values():
            _made_whole(FOLDER / f"hollow_{name}", lambda path, name=name: _hollow(name, path))
    return sorted(workflows / file.relative_to(shipped) for file in shipped.glob("*/*.json"))


def place_built_in() -> None:
    """The built-in model of this checkout in FOLDER too."""
    from latentloom.pipelines.models.source import BUILTINS

    for name, folder in BUILTINS.items():
        mark = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()))
        BUILTINS[name] = FOLDER / f"{name}_{mark.hexdigest()[:12]}"
        with _alone():
            _made_whole(BUILTINS[name], lambda path, folder=folder: shutil.copytree(folder, path))


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tiny(family: str, path: Path) -> None:
    from support.tiny_models import write_tiny

    write_tiny(family, path)


def _hollow(name: str, path: Path) -> None:
    from support.hollow_models import write_hollow

    write_hollow(path, FOLDER / name, name=name)


def _made_whole(path: Path, make: Callable[[Path], object]) -> None:
    if not path.exists():
        beside = path.with_name(f"{path.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        make(beside)
        beside.rename(path)


def small_settings(file: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """(family, values of params) for each of its tiny models, small and of few steps; ("", {}) for the built-in one."""
    params = json.loads(file.read_text())["params"]
    for family in TINY.get(file.stem, ()):
        small: dict[str, object] = {"source": FOLDER / family, "width": 64, "height": 64}
        small |= {"steps": STEPS.get(file.stem, 2)} if "steps" in params else {}
        small |= {"lora": write_lora(FOLDER / f"{family}.safetensors", family)} if "lora" in params else {}
        small |= dict.fromkeys({"image", "image_2"} & params.keys(), FRAME)
        small |= {"video": CLIP} if "video" in params else {}
        small |= {"frames": FRAMES.get(file.stem, 9)} if "frames" in params else {}
        yield family, small
    if file.stem not in TINY:
        yield "", {}
