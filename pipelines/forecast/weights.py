"""How large a model's parts are: its weights, by the headers of its files, and what its VAE's decoder holds at work.

A decoder holds four tensors of its second width at full size; one that is causal in time what its last block holds
while a convolution runs. On a CPU, torch unfolds the input of a small fp32 convolution over time, `3 x 3 x 3` numbers
of each, instead of giving it to oneDNN: where batch x channels x frames x rows of what it takes in, its padding
included, are at most 20,480 (`use_mkldnn` in ATen's `Convolution.cpp`). The same area takes twice as much lying as
standing. In bf16 or fp16 it unfolds the input of every convolution, pictures' too, where oneDNN has no instructions for
them.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...parallel.sharding.sections.dealing import deal
from ..components.memory import DTYPE_BITS, QUANTIZED_BITS, expected_bytes, is_left_whole, is_quantized, loading_bytes
from ..models.component_files import ComponentFiles, inspect_components, inspect_model
from ..models.folder import read_index
from ..models.packing import FLOATS, read_checkpoint, transformer_tensors
from ..models.passed import passed_by
from ..models.source import single_files
from ..models.tensor_file import read_tensor_file
from ..split_plans import SPLIT_PLANS
from ..values import Latents, Model, Place

UNPACKED_COPIES = 2  # in fp32: a weight times its scale, and what is rotated back
FILE_DTYPES = {"fp32": "F32", "bf16": "BF16", "fp16": "F16"}
# Tensors of full size that a decoder holds at once: what a block adds to, its input, output, and one on the way.
DECODED = 4
# Tokens of a tile of 256 x 256 pixels, and tensors that blocks hold of it: of a decoder that is a transformer.
TILE, TILE_TENSORS = 16 * 16, 16
KEPT_FRAMES = 2  # what a convolution that is causal in time keeps of its last input, and puts before the next
KERNEL = 3  # frames, rows and columns that such a convolution looks at
MOST_UNFOLDED = 20_480
NO_LIMIT = 1 << 62
MEMBER = re.compile(r"(.*?\.[0-9]+)\.")  # of an outermost list of modules, at the beginning of a tensor's name


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a component, a stage or a rank needs of a device's memory, in the model's number format."""

    own_bytes: int
    shared_bytes: int = 0  # what a CPU reads as it lies in mapped files, which ranks hold between them, once
    loading_bytes: int = 0  # what is there beside weights while they are unpacked or quantized, one after the other
    # The largest block: what ranks that share weights gather at a time, and a slot of those that come from the host.
    largest_block_bytes: int = 0
    outside_bytes: int = 0  # what is in no block: it is there for all of a forward
    streams: bool = False  # whether its blocks may come from the host one by one
    # Of a transformer with a split plan, as they run: each block's bytes, and how long it takes beside others.
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def num_bytes(self) -> int:
        return self.own_bytes + self.shared_bytes

    @staticmethod
    def of_all(parts: Sequence[Need]) -> Need:
        """What parts hold together; of a single one with its blocks."""
        if len(parts) == 1:
            return parts[0]
        own, shared = sum(part.own_bytes for part in parts), sum(part.shared_bytes for part in parts)
        return Need(own_bytes=own, shared_bytes=shared)

    @staticmethod
    def of_transformers(parts: Sequence[Need]) -> tuple[Need, ...]:
        """The transformers among what a denoise works with, and with each what is none of them, which is there whole
        (Anima's text conditioner)."""
        found = tuple(part for part in parts if part.blocks) or tuple(parts)
        beside = sum(part.num_bytes for part in parts if part not in found)
        return tuple(
            dataclasses.replace(each, own_bytes=each.own_bytes + beside, outside_bytes=each.outside_bytes + beside)
            for each in found
        )


def dealt(part: Need, count: int, room: int) -> tuple[int, float]:
    """(what the fullest of so many sections of a transformer's blocks holds, which part of a forward the slowest one
    computes) where they are dealt out as `components/loading.py` does it, each section within the room, 0 for no limit;
    beyond the room where there is no such way.
    """
    sizes, times = (tuple(each) for each in zip(*part.blocks, strict=True))
    beside = part.num_bytes - sum(sizes)
    rooms = (room - beside,) * count if room else ()
    cut = deal(times, count, sizes=sizes, rooms=rooms) or deal(sizes, count, sizes=sizes)
    held, work = (
        max(
            sum(number for each, number in zip(cut, numbers, strict=True) if each == section)
            for section in range(count)
        )
        for numbers in (sizes, times)
    )
    return beside + held, work / max(1, sum(times))


def weights_of(model: Model) -> Mapping[str, Need]:
    """The weights of every component that has some, by its name. Reads headers; raises `ValueError` for a damaged
    model.
    """
    return _weights(dataclasses.replace(model, place=Place()))


def components_of(model: Model) -> Mapping[str, ComponentFiles]:
    """All of a model's components, from the headers of its files; read once while they stay as they are."""
    return _components(model.folder, model.fingerprint, bool(model.family))


@lru_cache(maxsize=8)
def _components(folder: str, fingerprint: str, has_family: bool) -> Mapping[str, ComponentFiles]:
    where = Path(folder)
    return inspect_model(where).components if has_family else inspect_components(where, read_index(where))


@lru_cache(maxsize=32)
def _weights(model: Model) -> Mapping[str, Need]:
    components = components_of(model)
    single = single_files(model, components)
    return {name: _component(each, model, single.get(name)) for name, each in components.items() if each.weights}


def _component(component: ComponentFiles, model: Model, checkpoint: Path | None) -> Need:
    num_bytes, loading = expected_bytes(component, model), loading_bytes(component, model)
    held, mapped, bits = [file.tensors for file in component.weights], 0, DTYPE_BITS[model.dtype]
    if checkpoint:
        held = [transformer_tensors(read_checkpoint(checkpoint))]
        # Beside a single file's largest packed weight, maybe several of ours, while it is unpacked.
        packed = (entry.numel for entry in held[0].values() if entry.dtype not in FLOATS)
        loading += max(packed, default=0) * UNPACKED_COPIES * 32 // 8
    # On a CPU, tensors that lie in the files as they are used.
    if model.device.startswith("cpu") and (model.quantization == "none" or not is_quantized(component.name)):
        kept = (entry for tensors in held for entry in tensors.values() if entry.dtype == FILE_DTYPES[model.dtype])
        mapped = min(num_bytes, sum(entry.numel for entry in kept) * bits // 8)
    blocks, outside = _blocks(component, model)
    largest = max((size for size, _ in blocks), default=0)
    is_transformer, is_packed = component.name.startswith("transformer"), model.quantization != "none"
    # Not what is built into an engine or captured, nor what transformers quantizes, which knows its device.
    is_held = model.engine == "tensorrt" or model.graphs == "on"
    streams = not (is_held if is_transformer else is_packed and is_quantized(component.name))
    if model.loras and is_transformer:
        files = [read_tensor_file(Path(lora.path)).tensors.values() for lora in model.loras]
        num_bytes += sum(sum(entry.numel for entry in entries) * bits // 8 for entries in files)
        mapped = 0
    return Need(
        own_bytes=num_bytes - mapped,
        shared_bytes=mapped,
        loading_bytes=loading,
        largest_block_bytes=largest,
        outside_bytes=outside,
        streams=streams and largest > 0,
        blocks=tuple(blocks) if is_transformer and component.class_name in SPLIT_PLANS else (),
    )


def _blocks(component: ComponentFiles, model: Model) -> tuple[list[tuple[int, int]], int]:
    """(of each block its bytes and the weights of matrices that a token passes in it, the bytes outside of blocks) of a
    component: of a class with a split plan by the lists that it names, of others the members of all outermost lists of
    modules, as numbers in names tell them; in the order of lists and numbers.
    """
    split = SPLIT_PLANS.get(component.class_name)
    is_packed, whole_bits = model.quantization != "none" and is_quantized(component.name), DTYPE_BITS[model.dtype]
    sizes: dict[tuple[int, int, str], int] = defaultdict(int)
    matrices: dict[tuple[int, int, str], dict[str, int]] = defaultdict(dict)
    outside = 0
    for file in component.weights:
        for name, entry in file.tensors.items():
            packs = is_packed and not is_left_whole(component.name, name, entry)
            num_bytes = entry.numel * (QUANTIZED_BITS[model.quantization] if packs else whole_bits) // 8
            if split:
                found = next((each for each in enumerate(split.blocks) if name.startswith(f"{each[1]}.")), None)
                rest = name[len(found[1]) + 1 :] if found else ""
                member = rest.partition(".")[0]
                # `transformer_blocks.3`; the list's name alone where its members have names.
                block = (found[0], int(member) if member.isdecimal() else -1, found[1]) if found else None
            else:
                listed, rest = MEMBER.match(name), name
                block = (0, 0, listed[1]) if listed else None
            if block is None:
                outside += num_bytes
                continue
            sizes[block] += num_bytes
            if len(entry.shape) > 1:
                matrices[block][rest] = entry.numel
    return [(sizes[block], passed_by(matrices[block])[0]) for block in sorted(sizes)], outside


def decoded_numbers(
    config: Mapping[str, Any], canvas: Latents, decoders: int = 1, *, frames: int, most_unfolded: int
) -> float:
    """Numbers that are alive at once in a decoder's widest point, on each of so many ranks that share the rows; 0 where
    the config does not tell. For so many frames at a time; the full size is made in the last but one width.
    `most_unfolded`: up to which size torch unfolds, `MOST_UNFOLDED` in fp32 on a CPU; 0 where it never does.
    """
    channels, times, patch = config.get("block_out_channels"), config.get("dim_mult"), 1
    if heads := whole_number(config.get("decoder_num_attention_heads")):  # MiniMax H3, which decodes by tiles
        return heads * whole_number(config.get("decoder_attention_head_dim")) * frames * TILE * TILE_TENSORS
    if isinstance(channels, list):
        widths = [*map(whole_number, channels)]
        widest: float = DECODED * widths[min(1, len(widths) - 1)] if widths else 0
        is_unfolded, taps = most_unfolded == NO_LIMIT, KERNEL**2
    else:
        base = whole_number(config.get("decoder_base_dim")) or whole_number(config.get("base_dim"))
        factors = [whole_number(each) for each in times] if isinstance(times, list) else []
        if not base or not factors or not factors[0]:
            return 0
        widths, patch = [base * factor for factor in factors], whole_number(config.get("patch_size")) or 1
        depth = whole_number(config.get("num_res_blocks")) or 2
        tensors = _causal(factors, depth, frames, is_residual=config.get("is_residual") is True)
        widest = base * factors[0] * tensors / patch**2  # to each position of the last block
        is_unfolded, taps = most_unfolded > 0, KERNEL**3
    area = widest * (canvas.batch * canvas.width * canvas.height / decoders)
    most = area * frames
    for level in range(len(widths) if is_unfolded else 0):  # from full size downwards, each half of the one before
        scale = patch * 2**level
        width, rows = canvas.width // scale, -(-canvas.height // (scale * decoders))
        entering = widths[min(level + 1, len(widths) - 1)]
        for at_once in {1, frames} if level == 0 else {1, min(2, frames), frames}:
            beside = area * at_once / 4**level
            for planes in (canvas.batch * each for each in (widths[level], entering // 2, entering)):
                if planes * (at_once + KEPT_FRAMES) * (rows + KERNEL - 1) <= most_unfolded:
                    most = max(most, beside + planes * taps * at_once * rows * width)
    return most


def latent_scale(vae: Mapping[str, Any]) -> int:
    """Pixels to a latent, each way; 8 where the VAE's config does not tell."""
    for name in ("spatial_compression_ratio", "scale_factor_spatial"):
        if told := whole_number(vae.get(name)):
            return told
    widths = vae.get("block_out_channels") or vae.get("dim_mult")
    return 2 ** (len(widths) - 1) * (whole_number(vae.get("patch_size")) or 1) if isinstance(widths, list) else 8


def _causal(factors: Sequence[int], depth: int, frames: int, *, is_residual: bool) -> float:
    """Tensors alive in the last block of a decoder that is causal in time (Wan, Qwen-Image), while a convolution runs.

    What the block adds to and the convolution's input are there; the input again with the frames before it, and once
    more in the order that the convolution takes; its output, in both orders; and what all convolutions keep of the
    frames before, at each size a quarter of the one above. A residual block takes in more, and copies it.
    """
    entering = factors[min(1, len(factors) - 1)] / factors[0] if is_residual else 1.0
    longer = (frames + KEPT_FRAMES) / frames
    kept = min(frames, KEPT_FRAMES) / frames
    sizes = sum(factor / factors[0] / 4**level for level, factor in enumerate(factors))
    num_convolutions = 2 * (depth + 1) + 1
    copied = entering + 1 if is_residual else 0.0
    return 2 * entering * (1 + longer) + 2 + copied + kept * num_convolutions * sizes


def whole_number(value: Any) -> int:
    return value if type(value) is int else 0
