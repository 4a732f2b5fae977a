"""Checkpoints of a training run: one safetensors file, replaced in one move, so that a killed run can always go on."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def save(path: Path, groups: Mapping[str, Mapping[str, torch.Tensor]], facts: Mapping[str, Any]) -> None:
    """Write groups of named tensors and plain facts; whoever reads `path` sees the old file or the new one, whole."""
    # Copies, because safetensors refuses two names for one tensor (T5 ties its embeddings).
    flat = {
        f"{group}/{name}": value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for group, tensors in groups.items()
        for name, value in tensors.items()
    }
    temporary = path.with_suffix(".part")
    save_file(flat, temporary, metadata={"facts": json.dumps(dict(facts))})
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def facts(path: Path) -> dict[str, Any]:
    """The facts that `save` wrote, without the tensors."""
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["facts"])


def load(path: Path) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]]:
    """The groups and the facts that `save` wrote."""
    groups: dict[str, dict[str, torch.Tensor]] = {}
    with safe_open(path, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118 (not a dict)
            group, name = key.split("/", 1)
            groups.setdefault(group, {})[name] = file.get_tensor(key)
    return groups, facts(path)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """What an optimizer remembers, flat: `3.exp_avg` is the running mean of the fourth parameter's gradient."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give an optimizer over the same parameters what `optimizer_tensors` took."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
