"""Single files as their makers publish them, tiny: weights packed by the published formulas, written byte by byte."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

# Name -> ggml's number, and the bytes of a block of it.
GGML = {"F32": (0, 4), "F16": (1, 2), "Q4_0": (2, 18), "Q8_0": (8, 34), "Q4_K": (12, 144), "BF16": (30, 2)}


def comfy_settings(**said: Any) -> Tensor:
    """ComfyUI's `comfy_quant`: JSON in bytes."""
    return torch.tensor(list(json.dumps(said).encode()), dtype=torch.uint8)


def to_q8_0(weight: Tensor) -> bytes:
    """ggml's Q8_0: of each 32 numbers, the largest over 127 in fp16, and then the numbers over that."""
    found = b""
    for block in weight.reshape(-1, 32).tolist():
        scale = max(map(abs, block)) / 127
        numbers = [round(number / scale) if scale else 0 for number in block]
        found += struct.pack("<e32b", scale, *numbers)
    return found


def gguf(
    tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]],
    *,
    entries: Mapping[str, Any] | None = None,
    alignment: int = 32,
) -> bytes:
    """A GGUF file of version 3: each tensor's type, torch's shape, and its bytes; a list among entries is of int32."""
    said = {"general.architecture": "tiny", **(entries or {})}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(said))
    for name, value in said.items():
        head += _text(name) + _value(value)
    data = b""
    for name, (kind, shape, content) in tensors.items():
        dims = shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, GGML[kind][0], len(data))
        data += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + data


def write_gguf(path: Path, tensors: Mapping[str, Tensor], *, packed: str = "Q8_0") -> Path:
    """The two-dimensional weights whose rows blocks divide in `packed`, the rest in F32."""
    held: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, tensor in tensors.items():
        if packed == "Q8_0" and tensor.ndim == 2 and tensor.shape[1] % 32 == 0:
            held[name] = ("Q8_0", tuple(tensor.shape), to_q8_0(tensor.float()))
        else:
            held[name] = ("F32", tuple(tensor.shape), tensor.float().contiguous().numpy().tobytes())
    path.write_bytes(gguf(held))
    return path


def write_torchao(folder: Path, weights: Mapping[str, Tensor], *, dtype: torch.dtype) -> dict[str, Tensor]:
    """A transformer's folder with weights as torchao and diffusers save them, in two files; what they stand for."""
    held, told, means = {}, {}, {}
    kind = "Int8Tensor" if dtype is torch.int8 else "Float8Tensor"
    for name, tensor in weights.items():
        told[name], means[name] = {"_type": "Tensor"}, tensor
        if tensor.ndim != 2:
            held[name] = tensor
            continue
        scale = tensor.abs().amax(1, keepdim=True) / (127 if dtype is torch.int8 else 448)
        scaled = tensor / scale
        numbers = scaled.round().to(dtype) if dtype is torch.int8 else scaled.to(dtype)
        layer, means[name] = name.removesuffix(".weight"), numbers.float() * scale
        held |= {f"{layer}._weight_qdata": numbers, f"{layer}._weight_scale": scale}
        names = ["qdata", "scale"]
        if dtype is torch.int8:
            held[f"{layer}._weight_zero_point"] = torch.zeros(len(tensor), 1, dtype=torch.int8)
            names.append("zero_point")
        told[name] = {"_type": kind, "_data": {"block_size": [1, tensor.shape[1]]}, "_tensor_data_names": names}
    metadata = {name: json.dumps(said) for name, said in told.items()} | {"tensor_names": json.dumps(list(told))}
    files: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    for number, (name, tensor) in enumerate(held.items()):
        files[number % 2][name] = tensor
    stem, where = "diffusion_pytorch_model", {}
    for number, each in enumerate(files):
        file = f"{stem}-0000{number + 1}-of-00002.safetensors"
        save_file(each, folder / file, metadata=metadata)
        where |= dict.fromkeys(each, file)
    (folder / f"{stem}.safetensors").unlink()
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "torchao", "quant_type": {"default": {"_type": "evil"}}}
    (folder / "config.json").write_text(json.dumps(config))
    return means


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<II", 4, value)


# diffusers' names of a Wan transformer, and those of the files that its makers publish.
MAKERS_NAMES = {
    "condition_embedder.time_embedder.linear_1": "time_embedding.0",
    "condition_embedder.time_embedder.linear_2": "time_embedding.2",
    "condition_embedder.text_embedder.linear_1": "text_embedding.0",
    "condition_embedder.text_embedder.linear_2": "text_embedding.2",
    "condition_embedder.time_proj": "time_projection.1",
    "attn1": "self_attn",
    "attn2": "cross_attn",
    ".to_out.0.": ".o.",
    ".to_q.": ".q.",
    ".to_k.": ".k.",
    ".to_v.": ".v.",
    "proj_out": "head.head",
    "ffn.net.0.proj": "ffn.0",
    "ffn.net.2": "ffn.2",
    ".norm2.": ".norm3.",
}


def makers_name(name: str) -> str:
    if name == "scale_shift_table":
        return "head.modulation"
    name = name.replace("scale_shift_table", "modulation")
    for ours, theirs in MAKERS_NAMES.items():
        name = name.replace(ours, theirs)
    return name
