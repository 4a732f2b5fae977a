"""Which masks of a class hide the padding of its texts, and where the texts' keys stand in attention.

Only those whose hidden keys count for nothing in every masked call: not the classes that mask queries too (Chroma,
HunyuanVideo 1.5, FIBO, Ideogram, Prior), add a number to scores instead of hiding keys (CogView4, GLM-Image), put the
words of each row elsewhere (Lumina 2, Z-Image, JoyImage Edit Plus, FIBO 2), keep keys from step to step (Qwen-Image
2.1), or cut texts by themselves (Mochi).
"""

from ...parallel.sharding.split_plan import Padding

TEXT = "encoder_attention_mask"
QWEN = "encoder_hidden_states_mask"
ALONE = (Padding((TEXT,), "alone"),)
LAST = (Padding((TEXT,), "last"),)

PADDINGS: dict[str, tuple[Padding, ...]] = {
    "QwenImageTransformer2DModel": (Padding((QWEN,), "first"),),
    "Krea2Transformer2DModel": (Padding((TEXT,), "first"),),
    "PRXTransformer2DModel": (Padding(("attention_mask",), "first"),),
    "NucleusMoEImageTransformer2DModel": (Padding((QWEN,), "last"),),
    "HunyuanImageTransformer2DModel": (Padding((f"{TEXT}_2", TEXT), "last"),),
    "HunyuanVideoTransformer3DModel": LAST,
    "HunyuanVideoFramepackTransformer3DModel": LAST,
    "MotifVideoTransformer3DModel": LAST,
    "AllegroTransformer3DModel": ALONE,
    "CosmosTransformer3DModel": (Padding(("attention_mask",), "alone"),),
    "DreamLiteTransformer2DModel": ALONE,
    "Kandinsky6Transformer3DModel": ALONE,
    "LTX2VideoTransformer3DModel": (*ALONE, Padding((f"audio_{TEXT}",), "alone")),
    "LTXVideoTransformer3DModel": ALONE,
    "LongCatAudioDiTTransformer": ALONE,
    "PixArtTransformer2DModel": ALONE,
    "SanaTransformer2DModel": ALONE,
    "SanaVideoTransformer3DModel": ALONE,
    "SanaWMLTX2RefinerTransformer3DModel": ALONE,
    "SanaWMTransformer3DModel": ALONE,
    "StableAudioDiTModel": ALONE,
    "Transformer2DModel": ALONE,
}
