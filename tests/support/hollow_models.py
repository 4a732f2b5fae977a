"""Models of true size that take no room: configs and headers as their makers published them, and holes for data.

    python tests/support/hollow_models.py FOLDER         # flux, qwen_image and wan22, of 34, 58 and 69 GB

From a tiny model of the family, which gives what is small in the large one too.
"""

import json
import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Shapes = dict[str, tuple[int, ...]]


def write_hollow(folder: Path, tiny: Path, *, name: str) -> Path:
    """Of "flux", "qwen_image" or "wan22", from the folder of the family's tiny model."""
    shutil.copytree(tiny, folder)
    for component, (file, config, shapes) in MODELS[name].items():
        path = folder / component / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
        write_header(folder / component / file, shapes)
    return folder


def write_header(
    path: Path, shapes: Mapping[str, tuple[int, ...]], *, metadata: Mapping[str, Any] | None = None
) -> Path:
    """A safetensors file of bf16, all of it a hole, with whatever metadata, also such as no library writes."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return path


def _linear(found: Shapes, prefix: str, **sizes: tuple[int, int]) -> None:
    for name, (rows, columns) in sizes.items():
        found[f"{prefix}.{name.replace('__', '.')}.weight"] = (rows, columns)


def flux() -> Shapes:
    found: Shapes = {
        "x_embedder.weight": (3072, 64),
        "context_embedder.weight": (3072, 4096),
        "proj_out.weight": (64, 3072),
    }
    square, up, down = (3072, 3072), (12288, 3072), (3072, 12288)
    for i in range(19):
        at = f"transformer_blocks.{i}"
        names = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out__0", "to_add_out")
        _linear(found, f"{at}.attn", **dict.fromkeys(names, square))
        _linear(found, at, norm1__linear=(18432, 3072), norm1_context__linear=(18432, 3072))
        _linear(found, at, ff__net__0__proj=up, ff__net__2=down, ff_context__net__0__proj=up, ff_context__net__2=down)
    for i in range(38):
        at = f"single_transformer_blocks.{i}"
        _linear(found, f"{at}.attn", to_q=square, to_k=square, to_v=square)
        _linear(found, at, norm__linear=(9216, 3072), proj_mlp=up, proj_out=(3072, 15360))
    return found


def qwen_image() -> Shapes:
    found: Shapes = {"img_in.weight": (3072, 64), "txt_in.weight": (3072, 3584), "proj_out.weight": (64, 3072)}
    square, up, down = (3072, 3072), (12288, 3072), (3072, 12288)
    for i in range(60):
        at = f"transformer_blocks.{i}"
        names = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out__0", "to_add_out")
        _linear(found, f"{at}.attn", **dict.fromkeys(names, square))
        _linear(found, at, img_mod__1=(18432, 3072), txt_mod__1=(18432, 3072))
        _linear(
            found, at, img_mlp__net__0__proj=up, img_mlp__net__2=down, txt_mlp__net__0__proj=up, txt_mlp__net__2=down
        )
    return found


def wan() -> Shapes:
    found: Shapes = {"patch_embedding.weight": (5120, 16, 1, 2, 2), "proj_out.weight": (64, 5120)}
    for i in range(40):
        for kind in ("attn1", "attn2"):
            names = ("to_q", "to_k", "to_v", "to_out__0")
            _linear(found, f"blocks.{i}.{kind}", **dict.fromkeys(names, (5120, 5120)))
        _linear(found, f"blocks.{i}", ffn__net__0__proj=(13824, 5120), ffn__net__2=(5120, 13824))
    return found


def t5(vocabulary: int) -> Shapes:
    found: Shapes = {"shared.weight": (vocabulary, 4096)}
    for i in range(24):
        _linear(found, f"encoder.block.{i}.layer.0.SelfAttention", **dict.fromkeys("qkvo", (4096, 4096)))
        _linear(
            found, f"encoder.block.{i}.layer.1.DenseReluDense", wi_0=(10240, 4096), wi_1=(10240, 4096), wo=(4096, 10240)
        )
    return found


def qwen_vl() -> Shapes:
    found: Shapes = {"model.embed_tokens.weight": (152064, 3584), "lm_head.weight": (152064, 3584)}
    for i in range(28):
        at = f"model.layers.{i}"
        _linear(
            found, f"{at}.self_attn", q_proj=(3584, 3584), k_proj=(512, 3584), v_proj=(512, 3584), o_proj=(3584, 3584)
        )
        _linear(found, f"{at}.mlp", gate_proj=(18944, 3584), up_proj=(18944, 3584), down_proj=(3584, 18944))
    return found


def decoder(widths: tuple[int, ...], kernel: tuple[int, ...]) -> Shapes:
    """`widths` from the widest on."""
    found: Shapes = {"decoder.conv_in.weight": (widths[0], 16, *kernel)}
    for i in range(2):
        for conv in ("conv1", "conv2"):
            found[f"decoder.mid_block.resnets.{i}.{conv}.weight"] = (widths[0], widths[0], *kernel)
    before = widths[0]
    for i, width in enumerate(widths):
        for j in range(3):
            found[f"decoder.up_blocks.{i}.resnets.{j}.conv1.weight"] = (width, before, *kernel)
            found[f"decoder.up_blocks.{i}.resnets.{j}.conv2.weight"] = (width, width, *kernel)
            before = width
        if i < len(widths) - 1:
            found[f"decoder.up_blocks.{i}.upsamplers.0.conv.weight"] = (width, width, 3, 3)
    return found


FILE = "diffusion_pytorch_model.safetensors"
Part = tuple[str, dict[str, Any], Shapes]
FLUX_CONFIG = {"num_attention_heads": 24, "attention_head_dim": 128, "num_layers": 19, "num_single_layers": 38}
QWEN_CONFIG = {"num_attention_heads": 24, "attention_head_dim": 128, "num_layers": 60}
WAN_CONFIG = {"num_attention_heads": 40, "attention_head_dim": 128, "num_layers": 40}
WAN_VAE = {"base_dim": 96, "dim_mult": [1, 2, 4, 4]}
MODELS: dict[str, dict[str, Part]] = {
    "flux": {
        "transformer": (FILE, FLUX_CONFIG, flux()),
        "text_encoder_2": ("model.safetensors", {}, t5(32128)),
        "vae": (FILE, {"block_out_channels": [128, 256, 512, 512]}, decoder((512, 512, 256, 128), (3, 3))),
    },
    "qwen_image": {
        "transformer": (FILE, QWEN_CONFIG, qwen_image()),
        "text_encoder": ("model.safetensors", {}, qwen_vl()),
        "vae": (FILE, WAN_VAE, decoder((384, 384, 192, 96), (3, 3, 3))),
    },
    "wan22": {
        "transformer": (FILE, WAN_CONFIG, wan()),
        "transformer_2": (FILE, WAN_CONFIG, wan()),
        "text_encoder": ("model.safetensors", {}, t5(256384)),
        "vae": (FILE, WAN_VAE, decoder((384, 384, 192, 96), (3, 3, 3))),
    },
}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from support.tiny_models import write_tiny

    base = Path(sys.argv[1])
    for name in MODELS:
        tiny = base / f"tiny_{name}"
        write_tiny(name, tiny)
        print(write_hollow(base / name, tiny, name=name))
        shutil.rmtree(tiny)


if __name__ == "__main__":
    main()
