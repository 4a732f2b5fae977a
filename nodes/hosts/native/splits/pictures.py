"""Split plans of ComfyUI's classes of pictures, sound and shapes: literal data, by module and class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .....parallel.sharding.split_plan import LOCAL, Along, Attend, Halo, MadeAnew, SplitPlan, Tail, image, text, tokens
from .....pipelines.split_plans.joint_image import cut_image
from .....pipelines.split_plans.sequence import joint, sequence
from . import stand_ins
from .parts import GRID, JOINT, PER_TOKEN, TOKENS, control, one_stream, qwen_image, refused, two_streams

IMAGE_TEXT = ("image", "text")
ONLY_IMAGE = Attend(("image",), ("image",))

SD_3 = joint(
    "joint_blocks",
    # Blocks take *args and **kwargs: the first of them by place is the text, the second the picture.
    enters={"args": text(1), "kwargs": image(1)},
    inputs={"": {"control": control()}},
    outputs={"final_layer": image(1)},
    # In 3.5 medium the picture attends a second time, to itself.
    attention={"joint_blocks.*": (Attend(JOINT, JOINT), ONLY_IMAGE)},
)
ROTATED = dict.fromkeys(("image_tokens_masks", "rope"), MadeAnew(cut_image))
# Each block brings its own layer of the text encoder's tokens, behind those that go through.
HIDREAM = SplitPlan(
    order=("image", "t5", "llama", "llama"),
    either=("t5", "llama"),
    blocks=("double_stream_blocks", "single_stream_blocks"),
    inputs={
        "": {"context": Along(1, ("t5",)), "encoder_hidden_states_llama3": Along(2, ("llama",))},
        "double_stream_blocks.0": {"image_tokens": image(1)},
        "double_stream_blocks.*": ROTATED,
        "single_stream_blocks.*": ROTATED,
    },
    outputs={"final_layer": image(1)},
)
IDEOGRAM_4 = one_stream("layers", {"freqs_cis": Along(1, TOKENS)}, leaves="final_layer")
LENS = joint(
    "transformer_blocks",
    order=IMAGE_TEXT,
    each={"freqs_cis": Along(2, IMAGE_TEXT), "attention_mask": Along(3, IMAGE_TEXT)},
    inputs={"": {"control": control(1)}},
)
# What makes pixels of the tokens runs whole on each rank, and so has to find the whole text before the picture.
CHROMA_RADIANCE = replace(
    two_streams({}, {}, {"": {"control": refused("a ControlNet")}}),
    either=(),
    whole=("text",),
    outputs={"single_blocks.-1": Along(1, JOINT)},
)
OMNIGEN_2 = one_stream("layers", {"image_rotary_emb": Along(1, TOKENS)}, enters="hidden_states", leaves="norm_out")
BOOGU = joint(
    "double_stream_layers",
    "single_stream_layers",
    enters={"img_hidden_states": image(1), "instruct_hidden_states": text(1)},
    inputs={
        "double_stream_layers.*": {"joint_rotary_emb": Along(1, JOINT), "img_rotary_emb": image(1)},
        "single_stream_layers.*": {"image_rotary_emb": Along(1, JOINT)},
    },
    outputs={"norm_out": Along(1, JOINT)},
    attention={"img_self_attn": (ONLY_IMAGE,)},
)
JOY_IMAGE = joint(
    "double_blocks",
    order=IMAGE_TEXT,
    each={"image_rotary_emb": image(1)},
    outputs={"double_blocks.-1": (image(1), None)},  # not later: references are cut off after the last block
)
AURA_FLOW = joint(
    *("double_layers", "single_layers"), enters={"c": text(1), "x": image(1)}, outputs={"final_linear": image(1)}
)
HUNYUAN_DIT = sequence(
    "blocks",
    enters="x",
    leaves="final_layer",
    each={"freq_cis_img": image(0)},
    # The block that takes a residual is not among those that are checked at first use.
    inputs={"": {"control": refused("a ControlNet")}},
    attention={"attn2": (LOCAL,)},
)
PIXART = sequence("blocks", enters="x", leaves="final_layer", attention={"cross_attn": (LOCAL,)})


def _as_tokens(lq: Any, given: Mapping[str, Any], session: Any) -> Any:
    """What PiD mixes into the picture's tokens, once these are this rank's."""
    return session.cut(lq, image(1), what="lq") if "image" in session.streams else lq


# Pixels are computed whole on each rank: of all blocks the last few.
PIXEL_DIT = joint(
    "patch_blocks",
    enters={"x": image(1), "y": text(1)},
    each={"pos_img": image(0), "pos_txt": text(0)},
    outputs={"patch_blocks.-1": (image(1), None)},
)
PID = replace(PIXEL_DIT, inputs={**PIXEL_DIT.inputs, "lq_proj.gate_modules.*": {"lq": MadeAnew(_as_tokens)}})

# Cosmos Predict 2, and Anima, which is built on it.
COSMOS_2 = SplitPlan(
    order=TOKENS,
    blocks=("blocks",),
    inputs={
        "blocks.0": {"x_B_T_H_W_D": GRID},
        "blocks.*": {
            "rope_emb_L_1_1_D": tokens(1),
            "extra_per_block_pos_emb": GRID,
            **dict.fromkeys(("emb_B_T_D", "adaln_lora_B_T_3D"), PER_TOKEN),
        },
        "final_layer": dict.fromkeys(("emb_B_T_D", "adaln_lora_B_T_3D"), PER_TOKEN),
    },
    outputs={"final_layer": GRID},
    attention={"cross_attn": (LOCAL,)},
)

# ---- HiDream-O1: each token of the prompt sees those before it, the picture sees all; what the prompt gave is kept

OF_PROMPT = Attend(("image",), JOINT)
OF_KEPT = Attend(("image",), ("kept", "image"))


def _with_prompt(ar_len: Any, given: Mapping[str, Any], session: Any) -> Any:
    """Tell the session how many tokens come behind the `ar_len` of the prompt that see only those before them."""
    x, more = given["x"], given.get("ref_patches")
    pixels = (x.shape[-2] // 32) * (x.shape[-1] // 32) + (0 if more is None else more.shape[1])
    session.define("image", given["input_ids"].shape[1] + pixels - ar_len)
    return ar_len


def _enter(x: Any, _: object, session: Any) -> Any:
    session.define("text", x.shape[1] - session.streams["image"].length)  # none of it where it was kept
    return session.cut(x, Along(1, JOINT), what="x")


def _in_two_passes(attend: Any, _: object, session: Any) -> Any:
    local, of_prompt, of_kept = (session.kinds.index(kind) for kind in (LOCAL, OF_PROMPT, OF_KEPT))

    def told(q: Any, k: Any, *args: Any, **kwargs: Any) -> Any:
        session.calls = (of_kept,) if q.shape[2] < k.shape[2] else (local, of_prompt)
        return attend(q, k, *args, **kwargs)

    return told


HIDREAM_O1 = SplitPlan(
    order=JOINT,
    whole=("text", "kept"),
    blocks=("language_model.layers",),
    inputs={
        "": {"ar_len": MadeAnew(_with_prompt)},
        "language_model.layers.0": {"x": MadeAnew(_enter)},
        "language_model.layers.*": {
            "freqs_cis": Along(-2, JOINT),
            "optimized_attention": MadeAnew(_in_two_passes),
        },
    },
    outputs={"language_model.layers.-1": (Along(1, JOINT), None)},
    attention={"self_attn": (LOCAL, OF_PROMPT, OF_KEPT)},
)

# ---- sound and shapes


def _begin_anew(value: Any, _: object, session: Any) -> Any:
    """A song that is longer than a window goes through all blocks once for each window."""
    session.begin()
    return value


ACE_STEP = one_stream(
    "transformer_blocks",
    {"rotary_freqs_cis": tokens(0)},
    enters="hidden_states",
    attention={"cross_attn": (LOCAL,)},
    processors={"attn": stand_ins.linear},
    halos={"depth_conv.conv": Halo("tokens", 2, 1)},
)
ACE_STEP_15 = one_stream(
    "decoder.layers",
    {"position_embeddings": tokens(0)},
    enters="hidden_states",
    attention={"cross_attn": (LOCAL,)},
    processors={"self_attn": stand_ins.windowed},
)
STABLE_AUDIO = one_stream(
    "transformer.layers",
    # What is painted anew is told of the sound behind memory tokens.
    {"rotary_pos_emb": (tokens(0), None), "local_add_cond": Tail(1, "tokens")},
    attention={"cross_attn": (LOCAL,)},
    processors=dict.fromkeys(("self_attn", "cross_attn"), stand_ins.set_off),
)
MINIMAX_MUSIC = one_stream("diffusion_transformer.transformer.layers", {"rotation_matrix": tokens(2)})
MINIMAX_MUSIC = replace(
    MINIMAX_MUSIC, inputs={"diffusion_transformer": {"timestep": MadeAnew(_begin_anew)}, **MINIMAX_MUSIC.inputs}
)
HUNYUAN_3D_21 = one_stream("blocks", {}, enters="hidden_states", attention={"attn2": (LOCAL,)})

PLANS: Mapping[str, SplitPlan] = {
    "comfy.ldm.modules.diffusionmodules.mmdit.OpenAISignatureMMDITWrapper": SD_3,
    "comfy.ldm.hidream.model.HiDreamImageTransformer2DModel": HIDREAM,
    "comfy.ldm.ideogram4.model.Ideogram4Transformer2DModel": IDEOGRAM_4,
    "comfy.ldm.lens.model.LensTransformer2DModel": LENS,
    "comfy.ldm.chroma_radiance.model.ChromaRadiance": CHROMA_RADIANCE,
    "comfy.ldm.omnigen.omnigen2.OmniGen2Transformer2DModel": OMNIGEN_2,
    "comfy.ldm.boogu.model.BooguTransformer2DModel": BOOGU,
    "comfy.ldm.joyimage.model.JoyImageTransformer3DModel": JOY_IMAGE,
    "comfy.ldm.mage_flow.model.MageFlowTransformer2DModel": qwen_image(1),
    "comfy.ldm.pixeldit.model.PixDiT_T2I": PIXEL_DIT,
    "comfy.ldm.pixeldit.pid.PidNet": PID,
    "comfy.ldm.aura.mmdit.MMDiT": AURA_FLOW,
    "comfy.ldm.hydit.models.HunYuanDiT": HUNYUAN_DIT,
    "comfy.ldm.pixart.pixartms.PixArtMS": PIXART,
    "comfy.ldm.anima.model.Anima": COSMOS_2,
    "comfy.ldm.cosmos.predict2.MiniTrainDIT": COSMOS_2,
    "comfy.ldm.hidream_o1.model.HiDreamO1Transformer": HIDREAM_O1,
    "comfy.ldm.ace.model.ACEStepTransformer2DModel": ACE_STEP,
    "comfy.ldm.ace.ace_step15.AceStepConditionGenerationModel": ACE_STEP_15,
    "comfy.ldm.audio.dit.AudioDiffusionTransformer": STABLE_AUDIO,
    "comfy.ldm.minimax_music.dit.MiniMaxMusic3DiT": MINIMAX_MUSIC,
    "comfy.ldm.hunyuan3d.model.Hunyuan3Dv2": two_streams({}, {}, {}),
    "comfy.ldm.hunyuan3dv2_1.hunyuandit.HunYuanDiTPlain": HUNYUAN_3D_21,
}
