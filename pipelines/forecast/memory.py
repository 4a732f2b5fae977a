"""What a run of a model holds of each device's memory, known before anything is loaded.

A rank's need is that of the largest of its stages, because components make room for each other when they must:

* text encoding, on the first rank, or on the last of the place where the plan leaves that free: the weights of all text
  encoders;
* denoising, on every rank: the weights of the transformers (where ranks share them: a share, the block being gathered,
  the next one, and what is in no block; of sections the fullest, and what is in no block), the tensors alive in a
  block, and what the strategy receives;
* decoding, on the last rank, or on all that denoise where they share a large picture's rows: the VAE's weights and
  widest tensors.

A share of a transformer's weights stays while the first rank encodes the next text and the last decodes: ranks let go
of theirs together, for another's.

Where a component has no room, its blocks *stream*: they rest in the host's memory and come through two slots, each
while the block before computes (as in FlexGen; Sheng et al., 2023, arXiv:2303.06865). A device then holds what is in no
block, the slots, what is computed, and as many blocks for good as have room beside that. Ranks that share a
transformer's weights stream none of these. On a CPU blocks rest in the files that ranks map, which what was converted
has not, and stream only where somebody limits what a rank may take.

Bytes of weights are exact, from the headers of the files. The rest are closed forms: 13 x tokens x width numbers are
alive in a block (calibrated on FLUX in bf16), what `weights.py` counts of a VAE while it decodes, and a CUDA context
with its libraries takes 1.2 GB. On a CPU a rank has no context; it keeps what oneDNN, gloo and the tokenizers have
made, and holes in glibc's heap, which are no larger than the blocks that it does not give back at once
(`parallel/ranks/heap.py`). CUDA graphs hold what a forward takes anyway, and make way for all else; what nobody asked
for is captured only where there is room. A spare rank takes some of a large GPU, beside all that as long as there is
room. Not counted: activations of text encoders and of the picture encoder, step caches, compiled graphs, and on a CPU
the libraries of each process.
`tests/bench/memory_bound.py` compares all of it with what ranks on a CPU hold.
"""

# S tokens of the joint sequence, P ranks of the sequence, H heads, D head width

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...parallel.machine.now import convolves
from ...parallel.plan import ParallelPlan
from ...parallel.ranks.heap import LARGE_BYTES
from ..components.memory import CONTEXT_BYTES, DTYPE_BITS, USABLE_SHARE, spare_rank_bytes
from ..families import FAMILIES
from ..models.folder import components_of, read_config, read_index
from ..shape import size_multiple
from ..split_plans import SPLIT_PLANS
from ..spreading.frames import FRAME_BY_FRAME
from ..spreading.vae import OWN_TILES, has_rows, why_not
from ..values import Latents, Model
from .weights import MOST_UNFOLDED, NO_LIMIT, Need, dealt, decoded_numbers, latent_scale, weights_of, whole_number

# From so many pixels of all pictures or frames on, all ranks may decode together: less would not use their memory.
SPLIT_PIXELS = 2 << 20

LIVE = 13  # numbers alive at the widest point of a block, for each token and each of its channels
INDEX_BYTES = 4
MOST_DECODERS = 64
SLOTS = 2  # blocks that stream have so many places on a device: one computes, the next comes
EACH = "cpu by each rank"  # beside the memory "cpu" of all ranks: what each may take of it, where somebody limits that
PIXEL_COPIES = 2  # in fp32: as the decoder gives them, and scaled; a video's go to a file on the host
# What a rank on a CPU keeps beside: compiled kernels, reordered weights, buffers of exchanges, tokenizers.
CPU_BYTES = 64_000_000
# What a rank's heap on a CPU keeps at most of tensors that come and go: of three sizes that a decoder passes, each
# with as many as are alive at once, all as large as such blocks can be.
HOLES_BYTES = 28 * LARGE_BYTES


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a model is asked for, in the numbers that its needs follow from."""

    text: tuple[Need, ...]
    transformers: tuple[Need, ...]
    vae: Need
    heads: int
    # Numbers in an attention head. 0 where the transformer's config tells neither, and then its activations are not
    # counted.
    width: int
    tokens: int  # how many tokens a picture or video has in the transformer, its references included
    joint_text: int  # text tokens that are attended to with them, rather than by cross attention
    canvas: Latents
    vae_config: Mapping[str, Any]
    decoded_frames: int  # which the decoder takes at a time
    frames_shown: int  # whose pixels are there at once
    most_unfolded: int  # up to which size convolutions are unfolded
    num_bits: int
    context_bytes: int
    packs: bool  # whether what travels goes in one buffer, as on GPUs
    most_sections: int = 1  # each has a block; on a CPU all ranks map the same files, and none gains by them
    encoder_bytes: int = 0  # the weights of all text encoders, also of those on the CPU, which `text` is without
    row_counts: frozenset[int] = frozenset()  # numbers of ranks that can decode by rows, or by tiles
    by_tiles: bool = False  # which keep the bits, and so are shared out wherever they can be

    def decoders(self, plan: ParallelPlan) -> int:
        """How many of the plan's ranks can decode together."""
        pixels = self.canvas.batch * self.canvas.width * self.canvas.height * self.canvas.frames
        return plan.num_ranks if pixels >= SPLIT_PIXELS and plan.num_ranks in self.row_counts else 1

    def together(self, plan: ParallelPlan, *, num_devices: int = 0, encoders: int = 1) -> int:
        """What a rank holds where text encoders stay beside its transformer while that works; 0 where none has both."""
        if not self.text or num_devices > plan.num_ranks:
            return 0
        alone = self.vae.num_bytes if plan.num_ranks == 1 else 0
        texts = self.encoder_bytes if encoders == 1 else self.shared_text_bytes(encoders)
        return texts + self._denoise(plan)[0].num_bytes + alone + self.context_bytes

    def shared_text_bytes(self, encoders: int) -> int:
        """What each of so many ranks holds of text encoders between them: a share of each block, and two slots."""
        blocks = sum(part.num_bytes - part.outside_bytes for part in self.text)
        return blocks // encoders + sum(part.outside_bytes + SLOTS * part.largest_block_bytes for part in self.text)

    def needs(
        self, plan: ParallelPlan, *, num_devices: int = 0, decoders: int = 0, encoders: int = 1, room: int = 0
    ) -> tuple[Need, ...]:
        """What each rank of the plan needs, by its number, and at the end the last of `num_devices` if the plan leaves
        that free; 0 `decoders` are as many as can decode together. `room`: bytes of a device that can be used, without
        which blocks stream where they must; 0 has no limit.
        """
        decoders, is_free = decoders or self.decoders(plan), num_devices > plan.num_ranks
        staying, left = (0, room) if is_free else (self._staying_bytes(plan, room), self._left(plan, room))
        last = plan.num_ranks - (not is_free)
        text, decode = self._held(self.text, 0, left)[0], self._held((self.vae,), self.decoding(decoders), left)[0]
        text = Need(own_bytes=self.shared_text_bytes(encoders)) if encoders > 1 else text
        text, decode = (replace(each, own_bytes=each.own_bytes + staying) for each in (text, decode))
        denoise, needs = self._denoise(plan, room)[0], []
        for rank in range(last + 1):
            denoises = rank < plan.num_ranks
            decodes = denoises if decoders > 1 else rank == last
            encodes = encoders > 1 or rank == (last if is_free else 0)
            stages = [*[denoise] * denoises, *[text] * encodes, *[decode] * decodes]
            most = max(stages, key=lambda need: need.num_bytes)
            needs.append(replace(most, own_bytes=most.own_bytes + self.context_bytes))
        return tuple(needs)

    def streamed_bytes(self, plan: ParallelPlan, room: int) -> int:
        """How many bytes of a transformer come to each device in one forward, as of `needs`; of several transformers,
        each of which does some of the steps, the mean.
        """
        return self._denoise(plan, room)[1] // len(self.transformers)

    def streamed_text_bytes(self, plan: ParallelPlan, room: int, *, num_devices: int = 0) -> int:
        """How many bytes of text encoders come to their device for each text."""
        return self._held(self.text, 0, room if num_devices > plan.num_ranks else self._left(plan, room))[1]

    def _denoise(self, plan: ParallelPlan, room: int = 0) -> tuple[Need, int]:
        working = self.activations(plan)
        if plan.num_shares == 1:
            return self._held(self.transformers, working, room)
        beside = max(working, *(part.loading_bytes for part in self.transformers))
        if plan.weights > 1:  # blocks that are gathered, one at a time and one ahead
            beside += max(2 * part.largest_block_bytes + part.outside_bytes for part in self.transformers)
        return Need(own_bytes=self._share_bytes(plan, room) + beside), 0

    def _held(self, parts: Sequence[Need], working: int, room: int) -> tuple[Need, int]:
        """(what a device holds of these components and of what is computed beside them, bytes that stream). Small ones
        are there whole first, and the others share out what is left by their size (`components/shelf.py`).
        """
        beside = max(working, *(part.loading_bytes for part in parts), 0)
        left = room - self.context_bytes - beside
        there, coming, streamed = list[Need](), list[Need](), 0
        for part in sorted(parts, key=lambda part: (self._least(part) < part.num_bytes, part.num_bytes)):
            if room and left < part.num_bytes > self._least(part):
                coming.append(part)
            else:
                there.append(part)
                left -= part.num_bytes
        for part in coming:
            block, least = part.largest_block_bytes, self._least(part)
            share = left * part.num_bytes // sum(part.num_bytes for part in coming)
            resident = max(0, share - least) // block * block
            streamed += part.num_bytes - part.outside_bytes - resident
            # On a CPU blocks rest in the files that all ranks map.
            there.append(Need(own_bytes=least + resident, shared_bytes=0 if self.packs else part.shared_bytes))
        need = Need.of_all(there)
        return replace(need, own_bytes=need.own_bytes + beside), streamed

    def _least(self, part: Need) -> int:
        """What a device holds of a component whose blocks all stream; on a CPU beside what it has of no file."""
        if not part.streams:
            return part.num_bytes
        at_rest = 0 if self.packs else part.own_bytes
        return at_rest + part.outside_bytes + SLOTS * part.largest_block_bytes

    def _staying_bytes(self, plan: ParallelPlan, room: int) -> int:
        """What no other stage makes a rank let go of: a share of weights stays while it encodes and decodes."""
        return self._share_bytes(plan, room) if plan.num_shares > 1 else 0

    def _left(self, plan: ParallelPlan, room: int) -> int:
        """What of the room is left for text encoders and decoders."""
        return max(1, room - self._staying_bytes(plan, room)) if room else 0

    def _share_bytes(self, plan: ParallelPlan, room: int) -> int:
        if plan.layers > 1:
            return self.sections(plan, room)[0]
        return sum(part.num_bytes // plan.weights for part in self.transformers)

    def sections(self, plan: ParallelPlan, room: int) -> tuple[int, float]:
        """(what the fullest section holds of the transformers, which part of a forward the slowest one computes)."""
        each_has = (room - self.context_bytes - self.activations(plan)) // len(self.transformers) if room else 0
        found = [dealt(part, plan.layers, each_has if self.packs else 0) for part in self.transformers]
        return sum(held for held, _ in found), max(share for _, share in found)

    def activations(self, plan: ParallelPlan) -> int:
        """The tensors of a block, and what the plan's strategies hold beside them."""
        image, text = -(-self.tokens // plan.sequence), self.joint_text
        rows = image + (text if plan.text == "replicated" else -(-text // plan.sequence))
        numbers = LIVE * rows * self.heads * self.width + self._buffers(plan)
        return self.canvas.batch * (numbers * self.num_bits // 8 + self._index_bytes(plan))

    def _buffers(self, plan: ParallelPlan) -> int:
        """Numbers in what is sent and received, beside the tensors of a block; twice where it is packed and ordered."""
        tokens = self.tokens + self.joint_text
        held = tokens * -(-self.heads // plan.ulysses) * self.width
        share = tokens * self.heads * self.width // plan.sequence
        # By pieces q, k, v and the output are received; else q, k, v are there twice, and the output comes later.
        numbers = (6 if self.packs else 4) * share if plan.ulysses > 1 else 0
        if plan.ring > 1:  # two pairs of keys and values, the output in fp32, two that wait
            in_fp32 = 8 if self.num_bits == 16 and not self.packs else 0  # those, too, and what a CPU's kernel is given
            return numbers + (8 + in_fp32) * held // plan.ring
        return numbers + ((4 if self.packs else 2) * held if plan.allgather > 1 else 0)  # all keys and values

    def _index_bytes(self, plan: ParallelPlan) -> int:
        """What says which row of a packed buffer comes from where, for one layout (`parallel/attention/packed.py`)."""
        if not self.packs or plan.sequence == plan.ring:
            return 0
        tokens = self.tokens + self.joint_text
        if plan.ulysses == 1:
            return INDEX_BYTES * tokens
        unit = self.heads // plan.ulysses if self.heads % plan.ulysses == 0 else 1  # heads to a row
        rows = 4 * (tokens // plan.sequence) * self.heads // max(1, unit)  # of q, k, v, and of the output
        return INDEX_BYTES * (rows + 2 * tokens)

    def decoding(self, decoders: int) -> int:
        """The tensors of a decoder and the pixels that are there at once, on each of so many ranks that share rows."""
        at_work = {"frames": self.decoded_frames, "most_unfolded": self.most_unfolded}
        widest = int(decoded_numbers(self.vae_config, self.canvas, decoders, **at_work)) * self.num_bits // 8
        area = self.canvas.batch * self.canvas.width * self.canvas.height
        return widest + PIXEL_COPIES * area * self.frames_shown * 3 * DTYPE_BITS["fp32"] // 8


def work_of(model: Model, *, canvas: Latents, text_length: int, num_references: int = 0) -> Work:
    """Reads headers and configs. Raises `ValueError` for a model whose files cannot be read."""
    folder, family = Path(model.folder), FAMILIES[model.family]
    idle = family.idle(looks=num_references > 0)
    weights = {name: need for name, need in weights_of(model).items() if name != idle}
    named = {stage: [name.rstrip("?") for name in names] for stage, names in family.components.items()}
    stages = {stage: tuple(weights[name] for name in names if name in weights) for stage, names in named.items()}
    transformers = Need.of_transformers(stages["denoise"])
    config, vae = read_config(folder, "transformer"), read_config(folder, "vae")
    classes = {name: class_name for name, (_, class_name) in components_of(read_index(folder)).items()}
    split = SPLIT_PLANS.get(classes.get("transformer", ""))
    # of Cosmos 3 a canvas is padded to whole tokens
    multiple, num_frames = size_multiple(model) * (whole_number(config.get("latent_patch_size")) or 1), 1
    if family.frame_multiple:
        num_frames = -(-canvas.frames * family.latent_frames // family.frame_multiple) + family.more_latent_frames
    references = num_references * family.reference_side**2 // multiple**2
    vae_class, row_counts = classes.get("vae", ""), frozenset[int]()
    if why_not(vae_class, vae) is None and "diffusion_decoder" not in classes:  # which ranks decode by whole
        scale = latent_scale(vae)
        latents = canvas.height // scale, canvas.width // scale
        row_counts = frozenset(each for each in range(2, MOST_DECODERS + 1) if has_rows(vae_class, vae, latents, each))
    decoded_frames = min(canvas.frames, family.frame_multiple or 1)
    is_cpu, most_unfolded = model.device == "cpu", 0
    if is_cpu and model.dtype == "fp32":
        most_unfolded = MOST_UNFOLDED
    elif is_cpu and not convolves(model.dtype):
        most_unfolded = NO_LIMIT
    return Work(
        text=stages["encode_text"] if model.text_encoder == "device" else (),
        transformers=transformers,
        vae=Need.of_all(stages["decode"]),
        heads=whole_number(config.get("num_attention_heads")),
        width=whole_number(config.get("attention_head_dim")) or whole_number(config.get("head_dim")),
        tokens=num_frames * -(-canvas.width // multiple) * -(-canvas.height // multiple) + references,
        joint_text=text_length if split is not None and "text" in split.order else 0,
        canvas=canvas,
        vae_config=vae,
        decoded_frames=decoded_frames,
        frames_shown=decoded_frames if vae_class in FRAME_BY_FRAME else canvas.frames,
        most_unfolded=most_unfolded,
        num_bits=DTYPE_BITS[model.dtype],
        context_bytes=CPU_BYTES + HOLES_BYTES if is_cpu else CONTEXT_BYTES,
        packs=not is_cpu,
        most_sections=1 if is_cpu else min(len(part.blocks) for part in transformers),
        encoder_bytes=sum(part.num_bytes for part in stages["encode_text"]),
        row_counts=row_counts,
        by_tiles=vae_class in OWN_TILES,
    )


def whole_bytes(model: Model, *, idle: str = "") -> int:
    """The weights of all of a model's components but that one."""
    return sum(weights.num_bytes for name, weights in weights_of(model).items() if name != idle)


def whole_needs(model: Model, num_ranks: int) -> tuple[Need, ...]:
    """What each rank holds of a pipeline that is run whole: all of its weights. What its steps take is not known."""
    need = Need.of_all(list(weights_of(model).values()))
    context = 0 if model.device == "cpu" else CONTEXT_BYTES
    return (Need(own_bytes=need.own_bytes + context, shared_bytes=need.shared_bytes),) * num_ranks


def fits(needs: Sequence[Need], devices: Sequence[str], memories: Mapping[str, int]) -> list[bool | None]:
    """Whether each rank has room, on the device at the same place; None where a device's memory is not known.

    Ranks on one memory, as those on the CPU, need room for all of them, and each for itself where `EACH` is told.
    """
    asked = asked_of(needs, devices)

    def has_room(need: Need, device: str) -> bool:
        has_own = device != "cpu" or EACH not in memories or need.own_bytes <= USABLE_SHARE * memories[EACH]
        return has_own and asked[device] <= USABLE_SHARE * memories[device]

    return [has_room(need, device) if device in memories else None for need, device in zip(needs, devices, strict=True)]


def room_of(devices: Sequence[str], memories: Mapping[str, int]) -> int:
    """How many bytes of each of these devices can be used, as `Work.needs` takes them; 0 where no memory is known, and
    on a CPU without a limit, where what has no room is mapped.
    """
    names = [EACH if device == "cpu" else device for device in devices if device.startswith(("cpu", "cuda"))]
    return int(USABLE_SHARE * min((memories[name] for name in names if name in memories), default=0))


def asked_of(needs: Sequence[Need], devices: Sequence[str]) -> dict[str, int]:
    """What all ranks on a device need of it together; of ranks on a CPU by `EACH` the most that one needs alone."""
    asked: dict[str, list[Need]] = {}
    for need, device in zip(needs, devices, strict=True):
        asked.setdefault(device, []).append(need)
    found = {
        device: sum(need.own_bytes for need in here) + max(need.shared_bytes for need in here)
        for device, here in asked.items()
    }
    return found | ({EACH: max(need.own_bytes for need in asked["cpu"])} if "cpu" in asked else {})


def spares_beside(asked: Mapping[str, int], memories: Mapping[str, int]) -> dict[str, int]:
    """What spare ranks take of each device beside what is asked of it. They have no part in whether that fits: one
    for which there is no room is ended.
    """
    known = {device: memories[device] for device in asked if device in memories}
    spares = {device: spare_rank_bytes(device, memory) for device, memory in known.items()}
    room = {device: USABLE_SHARE * memory - asked[device] for device, memory in known.items()}
    return {device: spare for device, spare in spares.items() if 0 < spare <= room[device]}
