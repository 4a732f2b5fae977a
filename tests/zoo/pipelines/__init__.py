"""Every diffusers pipeline whose transformer has a split plan, tiny and with random weights, and how each is called.

tiny.py: What a row holds, pictures to give them, and how one is built.
flux.py: FLUX.1 and what is made from it, FLUX.2.
qwen_image.py: Qwen-Image with edits, layers and ControlNet, Qwen-Image 2.1, Krea 2.
z_image.py: Z-Image, Lumina 2, Ovis-Image, LongCat-Image.
sd3.py: Stable Diffusion 3, CogView 3 and 4, HiDream.
other_image.py: ERNIE-Image, GLM-Image, Ideogram 4, OmniGen.
"""

from zoo.pipelines import flux, other_image, qwen_image, sd3, z_image
from zoo.pipelines.tiny import Tiny

MODULES = (flux, qwen_image, z_image, sd3, other_image)
TINY: dict[str, Tiny] = {name: tiny for module in MODULES for name, tiny in module.TINY.items()}
"""By the name of the pipeline's class; a second way to call one is `Class:what is different`."""
LEFT_OUT: dict[str, str] = {name: why for module in MODULES for name, why in module.LEFT_OUT.items()}
"""Classes that are not tried, each with the reason."""
