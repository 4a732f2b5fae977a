"""Every diffusers pipeline whose transformer has a split plan, tiny and with random weights, and how each is called.

tiny.py: What a row holds, pictures to give them, and how one is built.
cosmos.py: Cosmos 1 to 3, and Kandinsky 5 and 6.
flux.py: FLUX.1 and FLUX.2.
hunyuan.py: HunyuanVideo, HunyuanVideo 1.5, FramePack, and HunyuanImage.
ltx.py: LTX, and LTX-2 with sound.
other_video.py: CogVideoX, Mochi, Allegro, Latte, EasyAnimate and Motif-Video.
wan.py: Wan and what is built on it: Lucy-Edit, ChronoEdit, SkyReels-V2, AnyFlow and Helios.
"""

from zoo.pipelines import cosmos, flux, hunyuan, ltx, other_video, wan
from zoo.pipelines.tiny import Tiny

MODULES = (cosmos, flux, hunyuan, ltx, other_video, wan)
TINY: dict[str, Tiny] = {name: tiny for module in MODULES for name, tiny in module.TINY.items()}
"""By the name of the pipeline's class; a second way to call one is `Class:what is different`."""
LEFT_OUT: dict[str, str] = {name: why for module in MODULES for name, why in module.LEFT_OUT.items()}
"""Classes that are not tried, each with the reason."""
