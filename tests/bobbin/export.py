"""Write a trained bobbin as a standard FluxPipeline folder, with the model card that the nodes read."""

import json
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .network import checkpoint
from .world.scene import COLOURS, GROUNDS, HELD_OUT, MATERIALS, RELATIONS, SHAPES, SIZES
from .world.wording import TEXT_LENGTH

if TYPE_CHECKING:
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    from .network.learner import Learner

SIDE = 128
CARD = {
    "format": 1,
    "name": "bobbin",
    "family": "flux",
    "about": "A tiny text-to-image model in the FLUX architecture that draws one to three shaded solids as told, "
    "trained on pictures this repository renders.",
    "licence": "Apache-2.0",
    "defaults": {
        "width": SIDE,
        "height": SIDE,
        "steps": 16,
        "guidance": 3.0,
        "distilled_guidance": 0.0,
        "text_length": TEXT_LENGTH,
        "negative_prompt": "",
    },
    "sizes": [[SIDE, SIDE], [96, 96], [160, 160], [160, 128], [96, 128]],
    "vocabulary": {
        "colours": list(COLOURS),
        "objects": list(SHAPES),
        "materials": list(MATERIALS),
        "sizes": list(SIZES),
        "relations": list(RELATIONS),
        "grounds": list(GROUNDS),
    },
    "held_out_of_training": sorted(f"{colour} {shape}" for colour, shape in HELD_OUT),
}


def export(learner: "Learner", vae: "AutoencoderKL", out: Path, *, scratch: Path) -> None:
    """Replace `out` by the model in half precision; `scratch` holds both training checkpoints, for the record."""
    from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

    pipeline = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
        vae=vae,
        text_encoder=learner.clip,
        tokenizer=learner.clip_tokenizer,
        text_encoder_2=learner.t5,
        tokenizer_2=learner.t5_tokenizer,
        transformer=learner.transformer,
    )
    shutil.rmtree(out, ignore_errors=True)
    pipeline.to(torch.float16).save_pretrained(out)
    for path in out.glob("*/*.json"):
        _strip_paths(path)
    for path in out.glob("*/*.safetensors"):
        path.chmod(0o644)  # safetensors keeps files to their owner
    card = CARD | {"made_by": _record(out, scratch)}
    (out / "latentloom.json").write_text(json.dumps(card, indent=2) + "\n")


def _strip_paths(path: Path) -> None:
    """Saved configs name the folder they were loaded from; nobody else has it."""
    values = json.loads(path.read_text())
    if isinstance(values, dict) and values.pop("_name_or_path", None) is not None:
        path.write_text(json.dumps(values, indent=2) + "\n")


def _record(out: Path, scratch: Path) -> list[dict[str, Any]]:
    """Which script made each weight file, from which seed, in what time."""
    facts = {name: checkpoint.facts(scratch / f"{name}_state.safetensors") for name in ("train_vae", "train")}
    record = []
    for file in sorted(out.glob("*/*.safetensors")):
        script = "train_vae" if file.parent.name == "vae" else "train"
        made = facts[script]
        is_cpu = made["config"]["device"] == "cpu"
        record.append(
            {
                "file": file.relative_to(out).as_posix(),
                "script": f"tests/bobbin/{script}.py",
                "seed": made["config"]["seed"],
                "steps": made["progress"]["step"],
                "cpu_minutes" if is_cpu else "minutes": round(made["progress"]["spent_s"] / 60, 1),
                "machine": f"{platform.machine()} CPU" if is_cpu else torch.cuda.get_device_name(),
            }
        )
    return record
