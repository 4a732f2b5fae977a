"""What a model cannot be here, asked long before it is loaded: quantized, compiled, or read in shares.

These are the refusals that depend on this machine's packages and on the model's files together.
"""

import importlib.util
import shutil
import sys

from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..values import Dtype, Engine, Graphs, Model, Quantization
from .source import split_source

# Quantizations whose kernels are for NVIDIA's GPUs, in bf16; fp8's for those from Ada and Hopper on.
ON_CUDA = ("int4", "fp8_dynamic")

# Of a denoise that is captured in CUDA graphs where nobody asked for it, and nobody knows whether its like comes
# again.
LEAST_STEPS = 6


def check_quantization(quantization: Quantization, *, device: str, dtype: Dtype) -> None:
    """Raises `ValueError` naming the extra to install when torchao is missing, or what the device lacks."""
    if quantization in ON_CUDA and (not device.startswith("cuda") or dtype != "bf16"):
        found = f"not {device} and {dtype}"
        raise ValueError(worded("quantization {} needs CUDA and bf16, {}; choose int8 or none", quantization, found))
    if importlib.util.find_spec("torchao") is None:
        raise ValueError(
            worded(
                "quantization {} needs torchao, which is not installed; run `pip install "
                "'latentloom[quant]'`, or choose quantization none",
                quantization,
            )
        )


def check_engine(engine: Engine, *, device: str, quantization: Quantization = "none") -> None:
    """Raises `ValueError` when the engine cannot work on `device` here, or not with such weights."""
    kind, is_tensorrt = device.partition(":")[0], engine == "tensorrt"
    if is_tensorrt and kind not in ("cuda", "auto"):
        raise ValueError(
            worded("engine tensorrt needs a GPU of CUDA, and the device is {}; choose engine inductor", device)
        )
    if is_tensorrt and quantization != "none":
        raise ValueError(
            worded(
                "engine tensorrt takes no weights of quantization {}; choose quantization none, or engine inductor",
                quantization,
            )
        )
    if is_tensorrt and importlib.util.find_spec("torch_tensorrt") is None:
        raise ValueError(
            "engine tensorrt needs Torch-TensorRT and it was not found; run `pip install torch-tensorrt`, or "
            "choose engine inductor"
        )
    if engine != "inductor":
        return
    if kind == "cpu" and sys.platform != "win32" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        raise ValueError(
            "engine inductor needs a C++ compiler on a CPU and none was found; install g++, or choose engine eager"
        )
    if kind == "cuda" and importlib.util.find_spec("triton") is None:
        raise ValueError(
            "engine inductor needs Triton on CUDA and it was not found; install triton, or choose engine eager"
        )


def why_not_compiled(model: Model, *, has_step_cache: bool) -> str:
    """Why a plan cannot have the transformer compiled, which the model's own engine need not have; "" if it can."""
    if model.is_compiled:
        return worded("Load Model says engine {}", model.engine)
    if has_step_cache:
        return "a step cache runs blocks that a graph would hold"
    if not model.family:
        return "a pipeline that is run whole is left as it is"
    if model.place.cluster:  # where nobody has looked yet
        return ""
    try:
        check_engine("inductor", device=model.device, quantization=model.quantization)
    except ValueError as error:
        return str(error)
    return ""


def compiles(model: Model, *, has_step_cache: bool) -> bool:
    """Whether the plan of its place has the transformer compiled, beside the model's own engine."""
    return model.place.compiles and not why_not_compiled(model, has_step_cache=has_step_cache)


def check_graphs(graphs: Graphs, *, device: str) -> None:
    """Raises `ValueError` where steps are to be replayed as CUDA graphs and cannot be; "auto" may be any device."""
    if graphs == "on" and not device.startswith(("cuda", "auto")):
        raise ValueError(
            worded("graphs is on, which needs a GPU of CUDA or ROCm, and the device is {}; choose graphs auto", device)
        )


def why_no_graphs(model: Model, plan: ParallelPlan, *, has_step_cache: bool) -> str:
    """Why no step is replayed as a CUDA graph; "" where steps can be. Only graphs `on` refuse such a denoise."""
    if model.engine == "tensorrt" and model.graphs == "auto":
        return "nobody has seen engines of TensorRT captured"
    if has_step_cache:
        return "a step cache leaves out blocks that a graph would run"
    return "ranks that share weights gather those of each block anew in every step" if plan.weights > 1 else ""


def check_shareable(model: Model, plan: ParallelPlan) -> None:
    """Refuse by name what cannot be read in shares."""
    if model.graphs == "on":
        raise ValueError(
            worded(
                "plan {}: ranks that share weights gather those of each block anew in every step, which "
                "no CUDA graph can hold; use weights=1, or choose graphs auto of Load Model",
                plan,
            )
        )
    changes = (
        (f"quantization {model.quantization}", model.quantization != "none"),
        ("LoRAs", bool(model.loras)),
        ("a single-file checkpoint", bool(split_source(model.source)[0])),
    )
    if found := [what for what, is_there in changes if is_there]:
        raise ValueError(
            worded(
                "plan {}: ranks that share weights read the files of a model folder as they are, and "
                "this model has {}; use weights=1, or load the model without",
                plan,
                " and ".join(found),
            )
        )
