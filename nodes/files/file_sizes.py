"""How large a file can get: what the coding of a picture, a clip or a sound takes at most, for the room on a disk."""

AROUND_BYTES = 1 << 16  # the workflow in a file, and the file's own heads; most have a tenth of it
PNG_PIXEL_BYTES = 3.01  # what nothing can pack: a byte for each colour, and what filters and packing add
H264_PIXEL_BITS = 12.0
# Of a frame at rate factor 0, and half as many at each 8 above: a bit more than strong film grain takes at 16 frames a
# second (2.3 of 2.5 at 18, where a smooth clip takes 0.2). Only frames of mere noise take more (5.3).
H264_HALVED_AT = 8
# A second of what models make: at most 48 kHz in stereo, of 16 bits. FLAC can only be smaller.
SOUND_BYTES = 48_000 * 2 * 2
AAC_BYTES = 96_000 * 2 // 8  # a second of a video's track


def picture_bytes(width: int, height: int) -> int:
    """PNG."""
    return round(width * height * PNG_PIXEL_BYTES) + AROUND_BYTES


def video_bytes(width: int, height: int, frames: int, *, quality: int, sound_s: float) -> int:
    """MP4 by x264's rate factor, and its sound."""
    bits = H264_PIXEL_BITS * 2 ** (-quality / H264_HALVED_AT)
    return round(width * height * frames * bits / 8 + sound_s * AAC_BYTES) + AROUND_BYTES


def sound_bytes(length_s: float) -> int:
    """WAV or FLAC."""
    return round(length_s * SOUND_BYTES) + AROUND_BYTES
