"""What a VAE's decoder holds while it decodes, from its config.

Four tensors of its second width at full size; of one that is causal in time what its last block holds while a
convolution runs. On a CPU, torch unfolds the input of a small fp32 convolution over time, `3 x 3 x 3` numbers of each,
instead of giving it to oneDNN: where batch x channels x frames x rows of what it takes in, its padding included, are at
most 20,480 (`use_mkldnn` in ATen's `Convolution.cpp`). The same area takes twice as much lying as standing. In bf16 or
fp16 it unfolds the input of every convolution, pictures' too, where oneDNN has no instructions for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..values import Latents

# Tensors of full size that a decoder holds at once: what a block adds to, its input, output, and one on the way.
DECODED = 4
KEPT_FRAMES = 2  # what a convolution that is causal in time keeps of its last input, and puts before the next
KERNEL = 3  # frames, rows and columns that such a convolution looks at
MOST_UNFOLDED = 20_480
NO_LIMIT = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A decoder's widest point: a block's numbers for each pixel of a frame, of so many frames at a time."""

    frames: int
    widest: float  # 0 where the config does not tell
    # Of a decoder whose convolutions torch may unfold, from full size downwards, each level half of the one before.
    widths: tuple[int, ...] = ()
    patch: int = 1  # pixels to a position at full size, each way
    most_unfolded: int = MOST_UNFOLDED
    taps: int = KERNEL**3  # what a convolution looks at for each number that it makes of a channel

    def numbers(self, canvas: Latents, decoders: int = 1) -> float:
        """Alive at once on each of so many ranks that share the rows."""
        area = canvas.batch * canvas.width * canvas.height / decoders
        most = self.widest * area * self.frames
        for level in range(len(self.widths)):
            for frames in {1, self.frames} if level == 0 else {1, min(2, self.frames), self.frames}:
                beside = self.widest * area * frames / 4**level
                most = max(most, beside + self._unfolded(canvas, decoders, level, frames))
        return most

    def _unfolded(self, canvas: Latents, decoders: int, level: int, frames: int) -> int:
        """The largest input of a level that is unfolded; 0 for none."""
        scale = self.patch * 2**level
        width, rows = canvas.width // scale, -(-canvas.height // (scale * decoders))
        entering = self.widths[min(level + 1, len(self.widths) - 1)]
        most = 0
        for channels in {self.widths[level], entering // 2, entering}:
            planes = canvas.batch * channels
            if planes * (frames + KEPT_FRAMES) * (rows + KERNEL - 1) <= self.most_unfolded:
                most = max(most, planes * self.taps * frames * rows * width)
        return most


def decoder_of(config: Mapping[str, Any], *, frames: int, most_unfolded: int) -> Decoder:
    """For so many frames at a time; the full size is made in the last but one width. `most_unfolded`: up to which size
    torch unfolds, `MOST_UNFOLDED` in fp32 on a CPU; 0 where it never does.
    """
    widths = config.get("block_out_channels")
    if isinstance(widths, list):
        width = whole_number(widths[min(1, len(widths) - 1)]) if widths else 0
        return Decoder(
            frames=frames,
            widest=DECODED * width,
            widths=tuple(map(whole_number, widths)) if most_unfolded == NO_LIMIT else (),
            most_unfolded=most_unfolded,
            taps=KERNEL**2,
        )
    base = whole_number(config.get("decoder_base_dim")) or whole_number(config.get("base_dim"))
    times = config.get("dim_mult")
    factors = [whole_number(each) for each in times] if isinstance(times, list) else []
    if not base or not factors or not factors[0]:
        return Decoder(frames=frames, widest=0)
    depth = whole_number(config.get("num_res_blocks")) or 2
    tensors = _causal(factors, depth, frames, is_residual=config.get("is_residual") is True)
    patch = whole_number(config.get("patch_size")) or 1
    return Decoder(
        frames=frames,
        widest=base * factors[0] * tensors / patch**2,  # to each position of the last block
        widths=tuple(base * factor for factor in factors) if most_unfolded else (),
        patch=patch,
        most_unfolded=most_unfolded,
    )


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
