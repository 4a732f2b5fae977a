"""What a run asks of devices, from a model's configs and the headers of its weights, without reading any.

A transformer's weights are told apart by their names (`models/passed.py`).
"""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from ...parallel.errors import BadInput
from ..costs.step import ITEMSIZE, Demand
from ..families import FAMILIES
from ..models.component_files import ComponentFiles
from ..models.facts import heads_of
from ..models.folder import read_config
from ..models.passed import passed_by
from ..models.tensor_file import TensorEntry
from ..shape import size_multiple
from ..split_plans import SPLIT_PLANS
from ..values import Latents, Model
from .memory import Work
from .weights import components_of

BLOCK = re.compile(r"(?:^|\.)[a-z_]*(?:blocks|layers)\.\d+")
QUERIES = re.compile(r"(?:attn\d?|attention)\.(?:to_q|q_proj|q)\.weight$")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")
LAYER = re.compile(r"(?:^|\.)(?:blocks?|layers?|h)\.\d+")
NUM_TEXTS = 2  # the prompt and what to steer away from, which is always read
EMBEDDINGS = ("embed", "shared", "lm_head", "wte", "wpe")
UP_BLOCK = re.compile(r"decoder\.(?:up_blocks|up)\.(\d+)\.(.*)")
# What branches of guidance exchange: about 16 numbers for each 8 x 8 pixels.
LATENT_CHANNELS, LATENT_SCALE, LATENT_BYTES = 16, 8, 4


def demand_of(model: Model, work: Work, *, steps: int, branches: int, text_length: int, weight_bytes: int) -> Demand:
    """Raises `ValueError` for a model whose files cannot be read, or whose transformer has no blocks."""
    components, family = components_of(model), FAMILIES[model.family]
    named = {stage: [name.rstrip("?") for name in names] for stage, names in family.components.items()}
    transformer = next(components[name] for name in named["denoise"] if name in components)
    encoders = [components[name] for name in named["encode_text"] if name in components]
    decoder = next((components[name] for name in named["decode"] if name in components), None)
    canvas = work.canvas
    pixels = canvas.batch * canvas.frames * canvas.width * canvas.height
    exchanges, edge_bytes = _edges(decoder, model, canvas) if decoder and not work.by_tiles else (0, 0.0)
    passed = num_layers = 0  # of text encoders: weights that each token of a prompt passes, and layers
    for each in encoders:
        passed += sum(
            entry.numel
            for name, entry in _tensors(each)
            if len(entry.shape) >= 2 and not any(part in name for part in EMBEDDINGS)
        )
        layers = (LAYER.search(name) for name, _ in _tensors(each))
        num_layers += len({layer.string[: layer.end()] for layer in layers if layer})
    forward = _forward(model, transformer, work, branches=branches, text_length=text_length)
    return dataclasses.replace(
        forward,
        steps=steps,
        num_texts=NUM_TEXTS,
        encode_flops=2 * passed * text_length * NUM_TEXTS,
        encode_tokens=text_length,
        encode_layers=NUM_TEXTS * num_layers,
        decode_flops=_decoding(decoder, pixels) if decoder else 0.0,
        decode_exchanges=exchanges,
        decode_edge_bytes=edge_bytes,
        pixel_bytes=3 * pixels * ITEMSIZE[model.dtype],
        load_bytes=weight_bytes,
        transformer_bytes=sum(part.num_bytes for part in work.transformers),
    )


def _forward(model: Model, transformer: ComponentFiles, work: Work, *, branches: int, text_length: int) -> Demand:
    """One forward of a branch. Raises `ValueError` for a transformer without blocks of matrices."""
    blocks = _blocks(transformer)
    if not blocks:
        raise BadInput("{} has no blocks of weights by which its time could be predicted", transformer.class_name)
    sizes = [{name: entry.numel for name, entry in each.items()} for each in blocks.values()]
    passed = [passed_by(each) for each in sizes]
    image, text, context = (sum(each[part] for each in passed) for part in range(3))
    asked = (entry.shape for each in blocks.values() for name, entry in each.items() if QUERIES.search(name))
    queries, width = next((shape for shape in asked if len(shape) == 2), (0, 0))
    if not width:  # the commonest number of columns
        columns = Counter(entry.shape[-1] for tensors in blocks.values() for entry in tensors.values())
        width = columns.most_common(1)[0][0]
    config = read_config(Path(model.folder), transformer.name)
    heads = heads_of(config)
    keys = next((config[name] for name in KEY_HEADS if type(config.get(name)) is int), heads)
    canvas, split = work.canvas, SPLIT_PLANS.get(transformer.class_name)
    pixels, first = canvas.width * canvas.height, work.transformers[0]
    latent_frames = max(1, work.tokens * size_multiple(model) ** 2 // max(1, pixels))
    return Demand(
        image=work.tokens,
        text=work.joint_text,
        context=0 if work.joint_text else text_length,
        layers=len(blocks),
        width=width,
        heads=heads,
        kv_heads=keys if 0 < keys <= heads and heads % keys == 0 else heads,
        head_dim=work.width or max(1, (queries or width) // heads),
        image_weights=image,
        text_weights=text,
        context_weights=context,
        block_bytes=max(0, first.num_bytes - first.outside_bytes) // len(blocks),
        branches=branches,
        batch=canvas.batch,
        latent_bytes=canvas.batch * pixels // LATENT_SCALE**2 * LATENT_CHANNELS * LATENT_BYTES * latent_frames,
        dtype=model.dtype,
        shards_text=split is None or "text" not in split.whole,
    )


def _blocks(transformer: ComponentFiles) -> dict[str, dict[str, TensorEntry]]:
    """{block: its matrices by their names in it}; vectors cost next to nothing."""
    split = SPLIT_PLANS.get(transformer.class_name)
    lists = "|".join(map(re.escape, split.blocks)) if split else ""
    block = re.compile(rf"^(?:{lists})\.\d+") if lists else BLOCK
    found: dict[str, dict[str, TensorEntry]] = defaultdict(dict)
    for name, entry in _tensors(transformer):
        begin = block.search(name)
        if begin and len(entry.shape) >= 2:
            found[name[: begin.end()]][name[begin.end() :]] = entry
    return dict(found)


def _tensors(component: ComponentFiles) -> Iterable[tuple[str, TensorEntry]]:
    return (pair for file in component.weights for pair in file.tensors.items())


def _decoding(decoder: ComponentFiles, pixels: int) -> float:
    """Two for each weight of a convolution and position: the last of its blocks is at full size, the one before at half
    of it each way.
    """
    sizes: dict[int, int] = defaultdict(int)
    upsamplers: dict[int, int] = defaultdict(int)
    before = 0
    for name, entry in _tensors(decoder):
        if len(entry.shape) < 2 or not name.startswith("decoder."):
            continue
        found = UP_BLOCK.match(name)
        if found is None:
            before += entry.numel if ".mid_block." in name or ".conv_in." in name else 0
        elif "upsample" in found[2]:
            upsamplers[int(found[1])] += entry.numel
        else:
            sizes[int(found[1])] += entry.numel
    last = max(sizes, default=0)
    at = {index: pixels / 4 ** (last - index) for index in range(last + 1)}
    work = before * at[0] + sum(size * at[index] for index, size in sizes.items())
    return 2 * (work + sum(size * at.get(index + 1, pixels) for index, size in upsamplers.items()))


def _edges(decoder: ComponentFiles, model: Model, canvas: Latents) -> tuple[int, float]:
    """How often a decoder by rows trades edges, or moments of groups, and the bytes of one rank's edges: a convolution
    wants all rows of its kernel but one from the neighbours. One in three dimensions takes a video by latent frames.
    """
    named = [(name, entry) for name, entry in _tensors(decoder) if name.startswith("decoder.")]
    last = max((int(found[1]) for name, _ in named if (found := UP_BLOCK.match(name))), default=0)
    frames, frame_multiple = canvas.batch * canvas.frames, FAMILIES[model.family].frame_multiple or 1
    exchanges, num_bytes = 0, 0.0
    for name, entry in named:
        rows = entry.shape[-2] - 1 if len(entry.shape) >= 4 else 0
        is_group_norm = len(entry.shape) == 1 and "norm" in name and name.endswith(".weight")
        if not (rows or is_group_norm):
            continue
        exchanges += -(-canvas.frames // frame_multiple) if len(entry.shape) == 5 else 1
        found = UP_BLOCK.match(name)
        width = canvas.width / 2 ** (last - int(found[1]) if found else last)
        channels = entry.shape[1] if rows else 0  # it has four sides
        num_bytes += rows * width * channels * frames * ITEMSIZE[model.dtype]
    return exchanges, num_bytes
