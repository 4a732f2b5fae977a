"""All stages from several threads of one process, at random: how many calls gave another result than alone?

    python tests/bench/threads.py [--threads 4] [--calls 2000] [--seed 0] [--models bobbin flux ...]

Of each model `--calls` texts are encoded, and a 20th as many pictures encoded, denoised (some with LoRAs, a step cache
or guidance) and decoded, in one shuffled heap. Also named: attributes of shared modules that a stage sets. Exits with 1
if anything was wrong, raised or set.
"""

import argparse
import dataclasses
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)

SWITCH_S = 1e-5  # as often as Python lets threads take turns
MODELS = ("bobbin", "flux", "sd3", "qwen_image", "wan", "wan_i2v")
PROMPTS = ("a red cube", "blue", "a small green ring left of a large grey ball on white")
FIRST_BLOCK = {"step_cache": "first_block", "cache_threshold": 1.0}
CACHES = {
    "bobbin": {"step_cache": "taylorseer"},
    **dict.fromkeys(("flux", "qwen_image", "wan", "wan_i2v"), FIRST_BLOCK),  # diffusers has none for SD3
}
Call = Callable[[], bytes]


def described(name: str, folder: Path) -> Any:
    from latentloom.pipelines.models.describe import describe_model

    if name == "bobbin":
        return describe_model("builtin:bobbin", device="cpu")
    from support.tiny_models import write_tiny

    return describe_model(str(write_tiny(name, folder / name)), device="cpu")


def with_lora(model: Any, folder: Path) -> Any:
    """The model with a LoRA on one layer of its transformer."""
    import torch
    from safetensors.torch import save_file

    from latentloom.pipelines.components.store import store
    from latentloom.pipelines.models.describe import add_lora

    transformer = store().load(model, ("transformer",))["transformer"]
    name, layer = next((n, m) for n, m in transformer.named_modules() if n.endswith(("attn.to_q", "attn1.to_q")))
    generator, path = torch.Generator().manual_seed(1), folder / f"{model.family}_lora.safetensors"
    down = torch.randn(2, layer.in_features, generator=generator)
    up = torch.randn(layer.out_features, 2, generator=generator)
    save_file({f"transformer.{name}.lora_A.weight": down, f"transformer.{name}.lora_B.weight": up}, path)
    return add_lora(model, str(path))


def calls_of(name: str, folder: Path) -> dict[str, list[Call]]:
    """The different calls of each stage of a model."""
    import torch

    from latentloom.pipelines import stages
    from latentloom.pipelines.values import Image, Latents, to_plain

    described_model = described(name, folder)
    family, model, styled = described_model.family, to_plain(described_model), described_model
    if name != "bobbin":
        styled = with_lora(described_model, folder)
    length, frames = (40 if name == "bobbin" else 32), ({"frames": 5} if family == "wan" else {})
    canvas = to_plain(Latents(family=family, width=64, height=64, batch=1, **frames))
    size = {"width": 64, "height": 64, **frames}
    image = to_plain(Image(pixels=torch.rand(1, 64, 64, 3, generator=torch.Generator().manual_seed(0))))
    texts = [{"model": model, "prompt": p, "negative_prompt": "a box", "text_length": length} for p in PROMPTS]
    request = {"model": model, "conditioning": stages.encode_text(texts[0]), "latents": canvas, "steps": 3}
    if name == "wan_i2v":
        request["latents"] = stages.encode_image({"model": model, "image": image, "seed": 0, **size})
    asked = [
        {**request, "seed": 1},
        {**request, "seed": 2, "guidance": 3.0},
        {**request, "seed": 1, "model": to_plain(styled)},
    ]
    if name in CACHES:
        asked.append({**request, "seed": 3, **CACHES[name]})
    finished = [stages.denoise(each) for each in asked[:2]]
    found = {
        "encode_text": [lambda each=each: marked(stages.encode_text(each)) for each in texts],
        "denoise": [lambda each=each: marked(stages.denoise(each)) for each in asked],
        "decode": [lambda each=each: marked(stages.decode({"model": model, "latents": each})) for each in finished],
    }
    if name != "wan":
        pictures = [{"model": model, "image": image, "seed": seed, **size} for seed in (0, 1)]
        found["encode_image"] = [lambda each=each: marked(stages.encode_image(each)) for each in pictures]
    return found


def marked(value: Any) -> bytes:
    """Every bit of a stage's answer."""
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return b"".join(key.encode() + marked(each) for key, each in sorted(value.items()))
    return value.numpy().tobytes() if hasattr(value, "numpy") else repr(value).encode()


def shared_writes(calls: list[Call]) -> list[str]:
    """What the calls, one after the other, set on modules that the store lends to all threads."""
    from torch import nn

    from latentloom.pipelines.components.store import store

    for call in calls:
        call()  # takes off the LoRAs of an earlier one
    kept = [entry.component for entry in store()._entries.values()]
    shared = {id(each) for part in kept if isinstance(part, nn.Module) for each in part.modules()}
    found, plain = set(), nn.Module.__setattr__

    def watched(self: nn.Module, name: str, value: Any) -> None:
        if id(self) in shared:
            found.add(f"{type(self).__name__}.{name}")
        plain(self, name, value)

    nn.Module.__setattr__ = watched
    try:
        for call in calls:
            call()
    finally:
        nn.Module.__setattr__ = plain
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            bad += one_model(name, Path(folder), args)
    return int(bad > 0)


def one_model(name: str, folder: Path, args: argparse.Namespace) -> int:
    calls = calls_of(name, folder)
    alone = {stage: [call() for call in each] for stage, each in calls.items()}
    plain = [*calls["encode_text"], *calls["denoise"][:2], *calls["decode"], *calls.get("encode_image", [])]
    writes = shared_writes(plain)
    heap = [
        (stage, turn % len(each))
        for stage, each in calls.items()
        for turn in range(args.calls if stage == "encode_text" else -(-args.calls // 20))
    ]
    random.Random(args.seed).shuffle(heap)

    def outcome(job: tuple[str, int]) -> tuple[str, str]:
        stage, number = job
        try:
            return stage, "same" if calls[stage][number]() == alone[stage][number] else "wrong"
        except Exception as error:
            return stage, f"raised {str(error)[:120]}"

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    with ThreadPoolExecutor(args.threads) as threads:
        found = Counter(threads.map(outcome, heap))
    sys.setswitchinterval(before)
    bad = len(writes)
    for stage in calls:
        here = {what: count for (each, what), count in found.items() if each == stage and what != "same"}
        total = sum(count for (each, _), count in found.items() if each == stage)
        bad += sum(here.values())
        told = "; ".join(f"{count} {what}" for what, count in sorted(here.items()))
        print(f"{name:10} {stage:12} {sum(here.values()):4} wrong of {total:5} calls  {told}", flush=True)
    print(f"{name:10} set on shared modules: {', '.join(writes) or 'nothing'}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
