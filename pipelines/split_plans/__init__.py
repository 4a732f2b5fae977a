"""How each transformer class of diffusers is split: literal data, a row for each class, in modules by kind of model.

Importing this imports neither torch nor diffusers. A new class is a row in the module of its kind; a model line whose
classes share much has a module to itself.

audio: Split plans of audio transformers: latents in time, text by cross attention if any. ACE-Step, LongCat-Audio,
    MiniMax Music, Stable Audio, the decoder of Spectrogram Diffusion.
cross_attention: Split plans of image models that read a text, if any, without changing it. PixArt, DiT, the general
    2D transformer, DreamLite, Lumina-Next, PRX, Nucleus-Image.
flux: Split plans of FLUX and the image models built like it: text and image in two streams, then in one. FLUX.1,
    FLUX.2, FLUX.3, Chroma, Ovis-Image, LongCat-Image, Bria, Bria Fibo.
hunyuan: Split plans of Tencent's Hunyuan models: HunyuanVideo and what grew from it, HunyuanImage and HunyuanDiT.
joint_image: Split plans of image models whose picture and text attend jointly, each a stream of its own, but not like
    FLUX. Stable Diffusion 3 and 3.5, AuraFlow, CogView3-Plus, CogView4, GLM-Image, HiDream, Qwen-Image, JoyImage-Edit.
kandinsky: Split plans of Kandinsky 5 and 6 and of Kandinsky 6 super-resolution: text joins by cross attention.
ltx: Split plans of LTX, of LTX-2 with its sound, and of the SANA-WM refiner, which is LTX-2 without it.
paddings: Which masks of a class hide the padding of its texts, and where the texts' keys stand in attention.
sana: Split plans of Sana: linear attention summed over the ranks, and convolutions that see a neighbour's edge.
sequence: The forms that most split plans have: one sequence of tokens that enters the first block and leaves behind
    the last, or a picture and a text that do so and attend jointly.
single_stream: Split plans of image models where text and picture are one sequence before the sharded blocks. Z-Image,
    Lumina 2, Bria Fibo 2, OmniGen, Krea 2, Ideogram 4, ERNIE-Image, the prior of unCLIP, Qwen-Image 2.1.
video: Split plans of the video models with no module of their own. CogVideoX, ConsisID, EasyAnimate, Mochi,
    Motif-Video, MiniMax-H3, Allegro, Latte, Helios, Cosmos.
wan: Split plans of Wan and of the models grown from it: ChronoEdit, SkyReels-V2, VACE, Animate and AnyFlow.
processors/: Attention processors and layers that stand in for those of diffusers where tokens are spread.
"""

from dataclasses import replace

from ...parallel.errors import did_you_mean
from ...parallel.sharding.split_plan import SplitPlan
from . import audio, cross_attention, flux, hunyuan, joint_image, kandinsky, ltx, sana, single_stream, video, wan
from .paddings import PADDINGS

MODULES = (audio, cross_attention, flux, hunyuan, joint_image, kandinsky, ltx, sana, single_stream, video, wan)
_PLANS: dict[str, SplitPlan] = {name: plan for module in MODULES for name, plan in module.PLANS.items()}
# By class name, or by "module.Class" where that would not tell which is meant; ours are of diffusers' classes.
SPLIT_PLANS = {name: replace(plan, paddings=PADDINGS.get(name, plan.paddings)) for name, plan in _PLANS.items()}

# Class name to the reason why it runs on one device only.
REFUSED: dict[str, str] = {
    "MiniMaxMusic3RVQDepthDecoder": "it writes the few codes of one audio frame one after the other, no denoising",
    "TransformerTemporalModel": "it is a stage of UNets, and its tokens are the frames of one pixel",
    "RFD4ProteinaTransformer": "it designs proteins, and its attention carries a bias for each pair of residues",
}


def plan_of_class(kind: type) -> SplitPlan:
    """The split plan of this very class: by its module and name, else by the name alone; ValueError as `plan_named`.

    A class that is none of diffusers' is not split by a plan of ours, be its name the same.
    """
    name = kind.__name__.removeprefix("FSDP")  # how FSDP names the class that it derives
    modules = [each.__module__ for each in kind.__mro__ if each.__name__.removeprefix("FSDP") == name]
    for module in modules:
        if (key := f"{module}.{name}") in SPLIT_PLANS:
            return SPLIT_PLANS[key]
    mend = "run it on one device, or give"
    if (others := _of_modules(name)) and name not in SPLIT_PLANS:
        told = f"there is no split plan for {name} of {modules[-1]}, but for {' and '.join(others)}"
        raise ValueError(f"{told}; {mend} one with split=")
    if name in _PLANS and not any(each.__module__.startswith("diffusers.") for each in kind.__mro__):
        told = f"the split plan for {name} is for the class of diffusers, and this one is of {modules[-1]}"
        raise ValueError(f"{told}; {mend} a plan with split=")
    return plan_named(name)


def plan_named(name: str) -> SplitPlan:
    """The split plan of the class of this name; ValueError with the reason, or the nearest, if there is none, or with
    all if several modules have one."""
    if name in REFUSED:
        raise ValueError(f"{name} cannot be split: {REFUSED[name]}; run it on one device, or split guidance by cfg=2")
    if name in SPLIT_PLANS:
        return SPLIT_PLANS[name]
    if len(others := _of_modules(name)) == 1:
        return SPLIT_PLANS[others[0]]
    hint = f"it may be {' or '.join(others)}; " if others else did_you_mean(name, SPLIT_PLANS)
    raise ValueError(f"there is no split plan for {name}; {hint}run it on one device, or give one with split=")


def _of_modules(name: str) -> list[str]:
    """The keys of plans for classes of this name that name a module, too."""
    return sorted(key for key in SPLIT_PLANS if key.endswith(f".{name}"))


def is_denoiser(component: str, name: str) -> bool:
    """Whether a pipeline's component, of the class `name`, is one that it asks in each step."""
    return name.removeprefix("FSDP") in SPLIT_PLANS or component.partition("_")[0] in ("transformer", "unet")
