"""Every diffusers pipeline whose transformer has a split plan, tiny and with random weights, and how each is called.

tiny.py: What a row holds, pictures to give them, and how one is built.
flux.py: FLUX.1 and FLUX.2.
other.py: AuraFlow, Bria, DiT, PixArt, PRX, and the first HunyuanDiT and Lumina.
qwen3_vl.py: Families whose text encoder is Qwen3-VL: Fibo 2, JoyImage Edit, Nucleus Image.
sana.py: Sana: pictures, Sprint, ControlNet, video, and a world that a camera walks through.
sound.py: Families that make sound: ACE-Step, LongCat audio, Stable Audio.
live.py: Which pipelines the installed diffusers has today.
"""

from zoo.pipelines import flux, other, qwen3_vl, sana, sound
from zoo.pipelines.tiny import Tiny

MODULES = (flux, other, qwen3_vl, sana, sound)
TINY: dict[str, Tiny] = {name: tiny for module in MODULES for name, tiny in module.TINY.items()}
"""By the name of the pipeline's class; a second way to call one is `Class:what is different`."""
LEFT_OUT: dict[str, str] = {name: why for module in MODULES for name, why in module.LEFT_OUT.items()}
"""Classes that are not tried, each with the reason."""
