"""What Torch-TensorRT's own partitioner makes of blocks, and leaves to torch. No GPU and no TensorRT are needed.

    pip download torch-tensorrt==2.13.0 --no-deps -d wheel
    pip install --no-deps --target wheel/it dllist psutil filelock
    unzip -d wheel/it wheel/*.whl -x 'torch_tensorrt/lib/*'
    python tests/bench/real_partitioner.py wheel/it [VARIANT ...]

Its converters say which operators it takes, by their types and shapes; a stand-in for TensorRT's bindings lets them be
imported. No engine is built. The blocks are tiny ones, on one device.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import support.checkout  # noqa: E402, F401 (makes the checkout importable)


class Name(type):
    """Any class, function or number of the bindings."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(cls, name, Name(name, (), {}))
        return vars(cls)[name]

    def __call__(cls, *_: Any, **__: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    def __int__(cls) -> int:
        return 0

    __lshift__, __rlshift__, __index__ = __or__, __or__, __int__


class Bindings(types.ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__.update(__spec__=importlib.machinery.ModuleSpec(name, None), __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, Name(name, (), {}))
        return vars(self)[name]


def import_without_tensorrt(folder: str) -> None:
    """`torch_tensorrt` from this folder, on a machine that has neither TensorRT nor a GPU."""
    bindings, proxy = Bindings("tensorrt"), types.ModuleType("torch_tensorrt._TensorRTProxyModule")
    bindings.__dict__.update(__version__="11.0.0", tensorrt=bindings)
    proxy.__dict__["package_name"] = "tensorrt"
    plugins = {name: Bindings(name) for name in ("tensorrt.plugin", "tensorrt.plugin._lib")}
    sys.modules.update({"tensorrt": bindings, "tensorrt.tensorrt": bindings, **plugins, proxy.__name__: proxy})
    sys.path[:0] = [folder]
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.current_device = lambda: 0
    torch._C.__dict__.setdefault("_CudaDeviceProperties", object)
    import torch_tensorrt.dynamo.lowering._decompositions as lowering

    lowering.to_torch_device = lambda _: torch.device("cpu")


def partitioned(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Print what `_pretraced_backend` of Torch-TensorRT would make of a block's graph, and run it as it is."""
    from torch._dynamo.utils import detect_fake_mode
    from torch._functorch.aot_autograd import aot_export_joint_simple
    from torch_tensorrt.dynamo import CompilationSettings, partitioning
    from torch_tensorrt.dynamo import lowering as low
    from torch_tensorrt.dynamo.conversion import _ConverterRegistry as known

    from latentloom.pipelines.components.tensorrt import BY_TORCH

    settings, fake = CompilationSettings(torch_executed_ops=BY_TORCH), detect_fake_mode(inputs)
    known.DYNAMO_CONVERTERS.set_compilation_settings(settings)
    assert fake is not None, "torch.compile gives fakes"
    with patch.object(fake, "allow_non_fake_inputs", True), fake:
        low.repair_input_aliasing(graph, settings)
        low.remove_detach(graph, settings)
        aten = aot_export_joint_simple(graph, inputs, trace_joint=False, decompositions=low.get_decompositions())
        low.remove_sym_nodes(aten, inputs, settings)
        aten = low.post_lowering(aten, settings)
        size = sum(node.op == "call_function" for node in aten.graph.nodes)
        parts, _ = partitioning.fast_partition(aten, torch_executed_ops=BY_TORCH)
    names = [name for name, _ in parts.named_children()]
    rest = [part for name, part in parts.named_children() if "_run_on_acc" not in name]
    left = Counter(str(node.target) for part in rest for node in part.graph.nodes if node.op == "call_function")
    del left["<built-in function getitem>"]
    told = ", ".join(f"{count} {name}" for name, count in sorted(left.items()))
    print(f"    {size} operators: {len(names) - len(rest)} engines; left to torch: {told}", flush=True)
    return graph.forward


def main(folder: str, names: list[str]) -> None:
    import_without_tensorrt(folder)
    from bodies.compiled import inputs_of, model_of
    from latentloom.parallel.sharding.compiled import Forwards
    from support.cells import outputs

    for name in names or ["flux", "wan"]:
        torch._dynamo.reset()
        model: Any = model_of(name)
        print(name, *model._repeated_blocks)
        blocks = [each for each in model.modules() if type(each).__name__ in model._repeated_blocks]
        Forwards(blocks, name).compile(backend=partitioned, dynamic=False, fullgraph=False)
        outputs(model, inputs_of(name, 4, 4)[2])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
