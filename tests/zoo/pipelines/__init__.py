"""Every diffusers pipeline whose transformer has a split plan, tiny and with random weights, and how each is called.

tiny.py: What a row holds, pictures to give them, and how one is built.
live.py: Which pipelines the installed diffusers has today for the transformers that the project splits.
blocks.py: Families that diffusers has as modular blocks alone: Anima, FLUX.3 and Wan Animate 2.
cosmos.py: Cosmos 1 to 3, and Kandinsky 5 and 6.
flux.py: FLUX.1 and what is made from it (VisualCloze, Chroma), and FLUX.2.
hunyuan.py: HunyuanVideo, HunyuanVideo 1.5, FramePack, and HunyuanImage.
ltx.py: LTX, and LTX-2 with sound.
minimax.py: Families of MiniMax: H3, whose videos have sound, with a transformer for references of its own.
other.py: Families of one or two pipelines: AuraFlow, Bria, DiT, PixArt, PRX, and the first HunyuanDiT and Lumina.
other_image.py: ERNIE-Image, GLM-Image, Ideogram 4 and OmniGen.
other_video.py: CogVideoX, Mochi, Allegro, Latte, EasyAnimate and Motif-Video.
qwen3_vl.py: Families whose text encoder is Qwen3-VL: Fibo 2, JoyImage Edit, Nucleus Image.
qwen_image.py: Qwen-Image: text, pictures, edits, layers and ControlNet; Qwen-Image 2.1; Krea 2, which has its VAE.
sana.py: Sana: pictures, Sprint, ControlNet, video, and a world that a camera walks through.
sd3.py: Stable Diffusion 3 with ControlNet and PAG, CogView 3 and 4, HiDream.
sound.py: Families that make sound: ACE-Step, LongCat audio, Stable Audio.
wan.py: Wan and what is built on it: Lucy-Edit, ChronoEdit, SkyReels-V2, AnyFlow and Helios.
z_image.py: Z-Image with ControlNet and Omni, Lumina 2, Ovis-Image and LongCat-Image.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.pipelines.tiny import Tiny

    MODULES: tuple[ModuleType, ...]
    TINY: dict[str, Tiny]
    LEFT_OUT: dict[str, str]  # classes that are not tried, each with the reason

NAMES = (
    "blocks",
    "cosmos",
    "flux",
    "hunyuan",
    "ltx",
    "minimax",
    "other",
    "other_image",
    "other_video",
    "qwen3_vl",
    "qwen_image",
    "sana",
    "sd3",
    "sound",
    "wan",
    "z_image",
)


def __getattr__(name: str) -> Any:
    """The tables of all modules, which import most of diffusers: made when somebody asks for them."""
    if name not in ("MODULES", "TINY", "LEFT_OUT"):
        raise AttributeError(name)
    modules = tuple(importlib.import_module(f"{__name__}.{each}") for each in NAMES)
    tables = {
        "MODULES": modules,
        "TINY": {row: tiny for module in modules for row, tiny in module.TINY.items()},
        "LEFT_OUT": {row: why for module in modules for row, why in getattr(module, "LEFT_OUT", {}).items()},
    }
    globals().update(tables)
    return tables[name]


def tiny_of(row: str) -> Tiny:
    """One row, for which no modules are imported but those that name its class."""
    files = {each: Path(__file__).with_name(f"{each}.py") for each in NAMES}
    naming = (each for each, file in files.items() if row.partition(":")[0] in file.read_text())
    tables = (importlib.import_module(f"{__name__}.{each}").TINY for each in naming)
    return next(table[row] for table in tables if row in table)
