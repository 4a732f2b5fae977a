"""Sounds as files: reading what may be hostile, writing WAV and FLAC, and the track of a video."""

# B batch, C channels, S samples

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ...pipelines.values import Audio
from .atomic import replacing
from .containers import num_bytes_of, opened_container
from .picture_files import AROUND_BYTES, check_numbers

if TYPE_CHECKING:
    from av import AudioFrame, Packet
    from av.audio.stream import AudioStream
    from av.container import InputContainer, OutputContainer
    from torch import Tensor

# What FFmpeg calls one channel, two channels, and so on.
LAYOUTS = ("mono", "stereo", "3.0", "4.0", "5.0", "5.1", "6.1", "7.1")
MAX_CHANNELS = len(LAYOUTS)
MIN_RATE, MAX_RATE = 1_000, 384_000
# The most samples of all channels that are read: 384 MB as floats, and 16 minutes of stereo at 48 kHz.
MAX_SAMPLES = 96_000_000
MAX_FILE_BYTES = 8 << 30
FULL_SCALE = 1 << 15  # what 1.0 is among samples of 16 bits
CODERS = {"wav": "pcm_s16le", "flac": "flac"}
AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000)
AAC_BITS = 96_000  # a second, for each channel: as good as AAC gets for most ears
# A second of what models make: at most 48 kHz in stereo, of 16 bits. FLAC can only be smaller.
SECOND_BYTES = 48_000 * 2 * 2
COMMENT = "comment"  # the one tag of WAV that takes any text


def read_audio(path: Path, *, start: float = 0.0, duration: float = 0.0, name: str = "") -> Audio:
    """The sound of a file, 1 C S, from `start` on and at most `duration` long, in seconds (0: to the end).

    Raises `ValueError` for what is no sound, for too long a sound, and for one that ends before `start`.
    """
    import torch

    name = name or str(path)
    with opened_container(path, what="sound", name=name) as container:
        stream = _stream(container, name)
        rate, channels = stream.rate, stream.layout.nb_channels
        first = round(start * rate)
        # How many samples there are by the header. MP3 has none: what FFmpeg says of it is a guess.
        told = 0 if container.format.name == "mp3" else round(_length_s(container, stream) * rate)
        # The last block of AAC is filled up; its container knows how far.
        end = max(1, told) if container.format.name.startswith("mov") and stream.duration else 1 << 62
        if duration:
            end = min(end, first + max(1, round(duration * rate)))
        if (min(end, told) - first) * channels > MAX_SAMPLES:
            raise ValueError(_too_long(name, rate, channels))
        pieces, count = [], 0
        for piece in _pieces(container, stream, name):
            before, count = count, min(count + piece.shape[1], end)
            if count > first:
                pieces.append(piece[:, max(0, first - before) : count - before])
            if (count - first) * channels > MAX_SAMPLES:
                raise ValueError(_too_long(name, rate, channels))
            if count == end:
                break
    if not count:
        raise BadInput("{} holds a sound without a sample; export it again", name)
    if not pieces:
        raise BadInput("{} lasts {:g} s, and start is {:g}; set an earlier start", name, count / rate, start)
    return Audio(waveform=torch.cat(pieces, dim=1)[None], rate=rate)  # 1 C S


def write_audio(waveform: Tensor, target: Path, *, rate: int, metadata: Mapping[str, str]) -> None:
    """WAV or FLAC, as the target's ending says, of one sound C S in -1..1, of 16 bits; whole or not at all.

    What is louder is cut off at full scale. WAV has no tags of one's own: there the metadata are JSON in its comment.
    """
    import av

    kind = target.suffix[1:]
    check_numbers(waveform, what=target.name)
    with replacing(target) as temporary, av.open(str(temporary), "w", format=kind) as container:
        container.metadata.update(metadata if kind != "wav" or not metadata else {COMMENT: json.dumps(dict(metadata))})
        stream = cast("AudioStream", container.add_stream(CODERS[kind], rate=rate, layout=LAYOUTS[len(waveform) - 1]))
        if kind == "flac" and rate > 96_000:  # else FFmpeg cannot read its own blocks of 7 channels
            stream.options = {"compression_level": "2"}
        for start in range(0, waveform.shape[1], rate):
            block = waveform[:, start : start + rate].detach().cpu().double() * FULL_SCALE
            shorts = block.round().clamp(-FULL_SCALE, FULL_SCALE - 1).short()
            container.mux(stream.encode(_frame(shorts, format="s16", rate=rate, start=start)))
        container.mux(stream.encode())


def sound_bytes(length_s: float) -> int:
    """How large a WAV or FLAC can get, for the room on a disk."""
    return round(length_s * SECOND_BYTES) + AROUND_BYTES


class Track:
    """The sound of a video that is being written: AAC, as long as the video, cut off or followed by silence."""

    def __init__(self, container: OutputContainer, audio: Audio) -> None:
        """`audio` is one sound, 1 C S."""
        self._waveform = waveform = audio.waveform[0].detach().cpu().float().clamp(-1, 1)
        self._rate = audio.rate
        self._stream = container.add_stream("aac", rate=track_rate(audio.rate), layout=LAYOUTS[len(waveform) - 1])
        self._stream.bit_rate = AAC_BITS * len(waveform)
        self._stream.codec_context.thread_count = 1  # as the picture's
        self._done = 0

    def until(self, time_s: Fraction) -> list[Packet]:
        """What plays up to this time and was not given before, as far as the coder gives it."""
        import torch

        start, self._done = self._done, round(time_s * self._rate)
        heard = self._waveform[:, start : self._done]
        block = torch.nn.functional.pad(heard, (0, self._done - start - heard.shape[1]))
        return self._stream.encode(_frame(block, format="flt", rate=self._rate, start=start)) if block.numel() else []

    def rest(self) -> list[Packet]:
        """What the coder has kept back."""
        return self._stream.encode()


def track_rate(rate: int) -> int:
    """The rate at which AAC takes a sound: its own, or 48 kHz."""
    return rate if rate in AAC_RATES else 48_000


def audio_facts(container: InputContainer, name: str) -> tuple[int, int, float]:
    """(Rate, channels, seconds) by an opened file's header. Raises `ValueError` for a sound that is not read."""
    stream = _stream(container, name)
    return stream.rate, stream.layout.nb_channels, _length_s(container, stream)


def read_audio_metadata(path: Path) -> dict[str, str]:
    """The tags of a sound file. Raises `ValueError` for what is none."""
    with opened_container(path, what="sound") as container:
        tags = dict(container.metadata)
        if container.streams.audio:  # Ogg keeps them there
            tags = dict(container.streams.audio[0].metadata) | tags
    if path.suffix.lower() == ".wav":
        try:
            return {str(name): str(text) for name, text in json.loads(tags.get(COMMENT, "")).items()}
        except (ValueError, AttributeError, RecursionError):
            return tags
    return tags


def check_audio(path: Path) -> None:
    """Refuse what holds no sound, or too long a file. Raises `ValueError`."""
    check_audio_file(path)
    with opened_container(path, what="sound") as container:
        _stream(container, str(path))


def check_audio_file(path: Path) -> None:
    """Refuse a file that is too long to be read through. Raises `ValueError`."""
    num_bytes = num_bytes_of(path, "sound")
    if num_bytes > MAX_FILE_BYTES:
        raise BadInput("{} has {:,} bytes, more than the {:,} that are read; cut it", path, num_bytes, MAX_FILE_BYTES)


def _stream(container: InputContainer, name: str) -> AudioStream:
    """The first sound of a file. Raises `ValueError` for one whose rate or channels we do not take."""
    stream = container.streams.audio[0]
    if stream.codec_context is None or not stream.rate:
        raise BadInput("{} is not a sound that can be read (its coding is unknown); use WAV or FLAC", name)
    rate, channels = stream.rate, stream.layout.nb_channels
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadInput(
            "{} has {:,} samples a second; {:,} to {:,} are taken: resample it", name, rate, MIN_RATE, MAX_RATE
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise BadInput("{} has {} channels; 1 to {} are taken: mix it to fewer", name, channels, MAX_CHANNELS)
    return stream


def _length_s(container: InputContainer, stream: AudioStream) -> float:
    if stream.duration and stream.time_base:
        return max(0.0, float(stream.duration * stream.time_base))
    return max(0.0, (container.duration or 0) / 1_000_000)


def _pieces(container: InputContainer, stream: AudioStream, name: str) -> Iterator[Tensor]:
    """Blocks C S in -1..1, as they are decoded."""
    import av
    import torch

    channels = stream.layout.nb_channels
    to_floats = av.AudioResampler(format="flt")
    for frame in container.decode(stream):
        try:
            floats = to_floats.resample(frame)
        except ValueError:
            raise BadInput("{} changes its rate or its channels on the way; export it again", name) from None
        for block in floats:
            yield torch.from_numpy(block.to_ndarray()).view(-1, channels).T


def _frame(block: Tensor, *, format: str, rate: int, start: int) -> AudioFrame:
    """A block C S as FFmpeg takes it, sample by sample."""
    import av

    packed = block.T.contiguous().view(1, -1).numpy()
    frame = av.AudioFrame.from_ndarray(packed, format=format, layout=LAYOUTS[len(block) - 1])
    frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
    return frame


def _too_long(name: str, rate: int, channels: int) -> str:
    minutes = worded(
        "{:.0f} minutes at its {:,} a second in {} channels", MAX_SAMPLES / rate / channels / 60, rate, channels
    )
    return worded(
        "{} has more than {:,} samples ({}), which is the most that is read; set a duration", name, MAX_SAMPLES, minutes
    )
