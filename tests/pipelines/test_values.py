"""Values cross a process border as plain data and come back equal."""

import json
from dataclasses import dataclass

import pytest
import torch

from latentloom.pipelines.values import (
    Audio,
    Conditioning,
    Image,
    Latents,
    Lora,
    Mask,
    Model,
    References,
    Sampling,
    Video,
    as_bytes,
    from_plain,
    to_plain,
)

MODEL = Model(
    source="builtin:bobbin",
    folder="/models/bobbin",
    family="flux",
    loras=(Lora(path="a.safetensors", sha256="0" * 64, adapter="a", scale=0.5),),
)


def test_model_comes_back_equal_through_json() -> None:
    assert from_plain(Model, json.loads(json.dumps(to_plain(MODEL)))) == MODEL
    assert hash(from_plain(Model, to_plain(MODEL))) == hash(MODEL)


def test_sampling_comes_back_equal_through_json() -> None:
    sampling = Sampling(scheduler="heun", sigmas=(1.0, 0.5), shift=3.0)
    assert from_plain(Sampling, json.loads(json.dumps(to_plain(sampling)))) == sampling


@dataclass(frozen=True)
class Several:
    """As a studio's wire type may be."""

    in_list: list[Lora]
    by_name: dict[str, Lora]


def test_values_in_lists_and_dicts_come_back_as_values() -> None:
    several = Several(in_list=list(MODEL.loras), by_name={"a": MODEL.loras[0]})
    assert from_plain(Several, json.loads(json.dumps(to_plain(several)))) == several


@pytest.mark.parametrize(
    "value",
    [
        Latents(family="flux", width=64, height=64, seeds=(1, 2), batch=2, tensor=torch.arange(4.0)),
        Latents(family="wan", width=64, height=64, frames=5, fps=16.0, extras={"first": torch.ones(2)}),
        Latents(family="minimax_h3", width=48, height=32, tensor=torch.ones(1, 4), sound=torch.zeros(1, 2, 6)),
        Conditioning(family="flux", prompt="a", negative_prompt="", positive={"embeds": torch.ones(1, 2)}),
        Image(pixels=torch.rand(1, 2, 3, 3)),
        Mask(pixels=torch.rand(1, 2, 3)),
        References(pictures=(torch.rand(2, 3, 3), torch.rand(4, 5, 4))),
        Video(pixels=torch.rand(1, 2, 3, 4, 3), fps=8.0),
        Audio(waveform=torch.rand(1, 2, 16), rate=44100),
    ],
)
def test_value_with_tensors_comes_back_the_same(
    value: Latents | Conditioning | Image | References | Mask | Video | Audio,
) -> None:
    plain = to_plain(value)
    assert_same(plain, to_plain(from_plain(type(value), plain)))


def assert_same(a: object, b: object) -> None:
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor)
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert isinstance(b, dict)
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list):
        assert isinstance(b, list)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    else:
        assert a == b


def test_plain_data_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Latents has no pixels"):
        from_plain(Latents, {"pixels": 1})
    with pytest.raises(ValueError, match="cannot be read from"):
        from_plain(Latents, {"width": 1})


def test_bytes_are_those_that_files_hold() -> None:
    floats = torch.randn(2, 3, 3, 4, 5).movedim(2, -1)  # B F H W C, as decoders give them: strided, and beyond 0..1
    for pixels in (floats, floats[0, 0], floats.bfloat16()):
        assert torch.equal(as_bytes(pixels), (pixels.float().clamp(0, 1) * 255).round().byte())
    found = as_bytes(floats)
    assert as_bytes(found) is found and found.is_contiguous()
