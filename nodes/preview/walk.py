"""What a denoising node will work on, read from a workflow that may be half done: its model, its canvas, its guidance.

The model is what the model nodes would give, without torch: nothing is compiled, quantized or hashed here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...pipelines.models.describe import card_of, describe_model, find_lora, pick_device
from ...pipelines.models.lora_file import check_lora
from ...pipelines.models.tensor_file import read_tensor_file
from ...pipelines.place import placed
from ...pipelines.shape import empty_canvas
from ...pipelines.values import Latents, Lora, Model
from ..files.workspace import Workspace
from ..graph.graph import Graph, Link
from ..graph.modes import effective
from ..graph.resolve import Overrides, param_values, plain_value, upgrade, with_overrides
from ..graph.scalars import as_type, fault
from ..graph.spec import NodeSpec
from ..steps.planning import spread

DENOISE, LOAD = "LoomDenoise", "LoomLoadModel"
LONGEST_WALK = 100


class Walk:
    """Reads the values of a workflow's nodes and follows their links. Values that are not there raise `ValueError`."""

    def __init__(self, graph: Graph, specs: Mapping[str, NodeSpec], overrides: Overrides) -> None:
        graph = effective(upgrade(graph, specs)[0], specs, overrides)
        self.types = {name: node.type for name, node in graph.nodes.items()}
        self._specs = specs
        self._inputs = with_overrides(graph, overrides)
        self._params = param_values(graph, overrides)

    def denoising(self) -> list[str]:
        return [name for name, kind in self.types.items() if kind == DENOISE]

    def source(self, name: str, socket: str) -> str:
        """The node that feeds a socket; "" where none does."""
        entry = self._inputs[name].get(socket)
        return entry.node if isinstance(entry, Link) and entry.node in self.types else ""

    def upstream(self, name: str, socket: str) -> Iterator[str]:
        """The nodes that a value passes through, each by its input of the same name, from the last to the first."""
        for _ in range(LONGEST_WALK):
            name = self.source(name, socket)
            if not name:
                return
            yield name

    def value(self, name: str, socket: str) -> Any:
        """What is written at a socket, or its default."""
        spec = self._specs[self.types[name]].input(socket)
        assert spec is not None, f"{self.types[name]} has a socket {socket}"
        entry = self._inputs[name].get(socket, spec.default)
        if isinstance(entry, Link):
            raise ValueError(f"{socket} of {name} comes from {entry.node}, so it is not known before the run")
        try:
            value = plain_value(entry, self._params)
        except KeyError as missing:
            raise ValueError(f"{socket} of {name} is set by the param {missing}, which the workflow lacks") from None
        if found := fault(spec, value):
            raise ValueError(f"{name}: {found[1]}")
        return as_type(spec.type, value)

    def number(self, name: str, socket: str) -> float:
        """The number at a socket where zero stands for the model's own; zero where it is not known before the run."""
        try:
            return float(self.value(name, socket) or 0)
        except ValueError:
            return 0.0


def model_of(walk: Walk, denoise: str, *, workspace: Workspace, accelerators: Sequence[str]) -> tuple[Model, str]:
    """The model that a denoise is given, and what is wrong with its Parallel Plan, whose plan then counts as `auto`.

    `accelerators` names this machine's. Raises `ValueError` in a sentence where there is no model.
    """
    way = list(walk.upstream(denoise, "model"))
    if not way or walk.types[way[-1]] != LOAD:
        raise ValueError(f"the model of {denoise} does not come from a Load Model node; link one to it")
    place = workspace.place
    load, *changes = reversed(way)
    written = str(walk.value(load, "device"))
    model = describe_model(
        walk.value(load, "source"),
        revision=walk.value(load, "revision"),
        dtype=walk.value(load, "dtype"),
        device=place.devices[0] if place.devices else pick_device(written, accelerators=accelerators),
        quantization=walk.value(load, "quantization"),
        compiled=walk.value(load, "compiled"),
        roots=workspace.roots,
        is_here=False,
    )
    model, problem = placed(model, place), ""
    for name in changes:
        if walk.types[name] == "LoomLoadLora":
            model = _with_lora(model, walk.value(name, "path"), workspace)
        elif walk.types[name] == "LoomParallelPlan":
            devices, plan = walk.value(name, "devices"), walk.value(name, "plan")
            try:
                model = spread(model, devices, plan, workspace=workspace, here=accelerators)
            except ValueError as error:
                anyway = _spread_anyway(model, devices, workspace=workspace, here=accelerators)
                model, problem = anyway, str(error)
    return model, problem


def _spread_anyway(model: Model, devices: str, *, workspace: Workspace, here: Sequence[str]) -> Model:
    """On the devices that a Parallel Plan names, if those at least can be."""
    try:
        return spread(model, devices, "auto", workspace=workspace, here=here)
    except ValueError:
        return model


def _with_lora(model: Model, path: str, workspace: Workspace) -> Model:
    """The model with a LoRA, whose content does not matter for a plan and is not read."""
    file = find_lora(path, workspace.roots)
    check_lora(read_tensor_file(file))
    return dataclasses.replace(model, loras=(*model.loras, Lora(path=str(file), sha256="", adapter="")))


def canvas_of(walk: Walk, denoise: str, model: Model) -> Latents:
    """The size of what is denoised; the model's own where a picture that is not read yet decides it.

    Raises `ValueError` for a size that the model cannot paint.
    """
    scale, canvas = 1.0, {"width": 0, "height": 0, "frames": 0, "batch": 1}
    for name in walk.upstream(denoise, "latents"):
        if walk.types[name] == "LoomUpscaleLatents":
            scale *= walk.number(name, "scale") or 1.0
        elif walk.types[name] in ("LoomEmptyLatents", "LoomEncodeImage"):
            known = ("batch",) if walk.types[name] == "LoomEmptyLatents" else ()
            canvas |= {each: int(walk.number(name, each)) for each in ("width", "height", "frames", *known)}
    own = card_of(model)
    width, height = ((canvas[each] or getattr(own, each)) for each in ("width", "height"))
    return empty_canvas(
        model,
        width=round(width * scale),
        height=round(height * scale),
        frames=canvas["frames"],
        fps=0.0,
        batch=max(1, canvas["batch"]),
    )


def text_length_of(walk: Walk, denoise: str, model: Model) -> int:
    """Tokens of the prompt, padded."""
    encode = walk.source(denoise, "conditioning")
    written = walk.number(encode, "text_length") if walk.types.get(encode) == "LoomEncodeText" else 0
    return int(written) or card_of(model).text_length
