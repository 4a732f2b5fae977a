"""What pictures of other programs say of how they were made is read, shown, and never more than that."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from latentloom.nodes.hosts.foreign import MAX_CHARACTERS, MAX_MORE, read_foreign

A1111 = """a red fox, (sharp:1.2) <lora:fur:0.8>
second line
Negative prompt: blurry, text
Steps: 28, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 6.5, Seed: 18446744073709551615, Size: 832x1216, \
Model hash: abcdef, Model: dreamer, Denoising strength: 0.4, Lora hashes: "fur: 1a, b: 2", Version: v1.10"""
COMFY: dict[str, Any] = {
    "3": {
        "class_type": "KSampler",
        "inputs": {
            **{"seed": 42, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0},
            **{"model": ["10", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]},
        },
        "is_changed": ["x"],
    },
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15.safetensors"}},
    "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 768, "batch_size": 1}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a green cat", "clip": ["10", 1]}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "ugly", "clip": ["10", 1]}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["8", 0], "filename_prefix": "x"}},
    "10": {"class_type": "LoraLoader", "inputs": {"lora_name": "fur.safetensors", "model": ["4", 0], "clip": ["4", 1]}},
}
EDITOR = {
    "nodes": [
        {"id": 6, "type": "CLIPTextEncode", "widgets_values": ["a green cat"], "inputs": []},
        {"id": 7, "type": "CLIPTextEncode", "widgets_values": ["ugly"], "inputs": []},
        {
            **{"id": 3, "type": "KSampler", "widgets_values": [42, "fixed", 20, 8.0, "euler", "normal", 1.0]},
            "inputs": [{"name": "positive", "link": 1}, {"name": "negative", "link": 2}],
        },
        {"id": 9, "type": "SaveImage", "inputs": [{"name": "images", "link": 3}]},
    ],
    "links": [[1, 6, 0, 3, 0, "CONDITIONING"], [2, 7, 0, 3, 1, "CONDITIONING"], [3, 3, 0, 9, 0, "IMAGE"]],
}
INVOKE = {
    **{"positive_prompt": "a blue owl", "negative_prompt": "day", "seed": 9, "steps": 30, "cfg_scale": 7.5},
    **{"scheduler": "euler_a", "model": {"name": "Dream XL", "hash": "blake3:00"}, "width": 1024, "height": 1024},
    **{"loras": [{"model": {"name": "owl"}, "weight": 0.7}], "app_version": "6.1.0"},
}
SWARM = {"sui_image_params": {"prompt": "a fish", "negativeprompt": "", "seed": 5, "cfgscale": 4, "model": "m"}}


def png(path: Path, **texts: str) -> Path:
    chunks = PngImagePlugin.PngInfo()
    for key, text in texts.items():
        chunks.add_itxt(key.replace("__", "-"), text)
    Image.new("RGB", (4, 4)).save(path, pnginfo=chunks)
    return path


def test_each_program_is_read(tmp_path: Path) -> None:
    found = read_foreign(png(tmp_path / "a.png", parameters=A1111))
    assert found is not None and found.tool == "A1111"
    assert found.prompt.endswith("second line") and found.negative_prompt == "blurry, text"
    assert (found.seed, found.steps, found.guidance, found.strength) == (2**64 - 1, 28, 6.5, 0.4)
    assert (found.sampler, found.scheduler, found.model, found.loras) == ("DPM++ 2M", "Karras", "dreamer", ("fur",))
    assert (found.width, found.height) == (832, 1216)
    assert found.more["Version"] == "v1.10" and found.more["Lora hashes"] == "fur: 1a, b: 2"
    text = json.dumps(COMFY).replace('["x"]', "[NaN]")
    for texts in ({"prompt": text}, {"workflow": json.dumps(EDITOR)}):
        found = read_foreign(png(tmp_path / "c.png", **texts))
        assert found is not None and (found.tool, found.prompt, found.negative_prompt) == (
            "ComfyUI",
            "a green cat",
            "ugly",
        )
        assert (found.seed, found.steps, found.guidance, found.sampler) == (42, 20, 8.0, "euler")
    found = read_foreign(png(tmp_path / "c.png", prompt=text))
    assert found is not None and (found.model, found.loras) == ("sd15.safetensors", ("fur.safetensors",))
    assert (found.width, found.height) == (512, 768)
    found = read_foreign(png(tmp_path / "i.png", invokeai_metadata=json.dumps(INVOKE)))
    assert found is not None and (found.tool, found.model, found.loras) == ("InvokeAI", "Dream XL", ("owl",))
    assert (found.prompt, found.seed, found.guidance, found.scheduler) == ("a blue owl", 9, 7.5, "euler_a")
    found = read_foreign(png(tmp_path / "s.png", parameters=json.dumps(SWARM)))
    assert found is not None and (found.tool, found.prompt, found.seed) == ("SwarmUI", "a fish", 5)


@pytest.mark.parametrize(("kind", "codec"), [("JPEG", "utf-16-be"), ("WEBP", "utf-16-le")])
def test_a_camera_field_is_read_too(tmp_path: Path, kind: str, codec: str) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9286] = b"UNICODE\0" + A1111.encode(codec)
    Image.new("RGB", (4, 4)).save(tmp_path / "a", kind, exif=exif)
    found = read_foreign(tmp_path / "a")
    assert found is not None and found.seed == 2**64 - 1 and found.prompt.startswith("a red fox")


def bomb(path: Path) -> Path:
    """A PNG whose text unpacks to 100 MB."""
    plain = png(path).read_bytes()
    body = b"zTXt" + b"parameters\0\0" + zlib.compress(b"Steps: 1, " * 10**7)
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    path.write_bytes(plain[:33] + chunk + plain[33:])
    return path


def test_hostile_texts_are_bounded(tmp_path: Path) -> None:
    settings = ", ".join(f"Key {n}: {'v' * 500}" for n in range(200))
    found = read_foreign(
        png(tmp_path / "a.png", parameters=f"{'p' * 10**5}\u202e\x1b\nSteps: 1e9, Seed: -5, {settings}")
    )
    assert found is not None and len(found.prompt) == MAX_CHARACTERS and found.seed is None
    assert len(found.more) <= MAX_MORE and max(map(len, found.more.values())) <= 300
    loop = {"1": {"class_type": "KSampler", "inputs": {"positive": ["2", 0], "seed": True, "steps": "nan"}}}
    loop["2"] = {"class_type": "T", "inputs": {"a": ["1", 0], "b": ["2", 0], "positive": [["1"], 0], "text": {"x": 1}}}
    found = read_foreign(png(tmp_path / "b.png", prompt=json.dumps(loop)))
    assert found is not None and (found.prompt, found.seed, found.steps) == ("", None, None)
    with pytest.raises(ValueError, match="not a picture"):
        read_foreign(bomb(tmp_path / "c.png"))


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"parameters": "no steps"},
        {"parameters": "{" * 5000},
        {"prompt": "[" * 100_000},
        {"prompt": '{"1": 3}', "workflow": '{"nodes": [3, {"id": 1}], "links": [[]]}'},
        {"invokeai_metadata": "[]"},
        {"sd__metadata": '{"image": 3}'},
        {"parameters": "Steps: " + "9" * (1 << 20)},
    ],
)
def test_what_says_nothing_is_nothing(tmp_path: Path, texts: dict[str, str]) -> None:
    found = read_foreign(png(tmp_path / "a.png", **texts))
    assert found is None or not (found.prompt or found.seed or found.model)
