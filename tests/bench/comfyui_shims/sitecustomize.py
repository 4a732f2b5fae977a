"""Lets ComfyUI start on a torch that is built for CPUs. First on PYTHONPATH, for `comfyui_*.py` only.

Packages that ComfyUI imports at its start for nodes that no test here calls become modules whose names can be imported,
subclassed and used as decorators, and raise when they are called. torchvision must be the real one (transformers takes
its version for a promise); its wheel wants two operators of CUDA builds, which are declared here.
"""

import importlib.abc
import importlib.machinery
import sys
import types

ABSENT = ("torchaudio", "spandrel", "comfy_angle", "OpenGL")


def stub(path: str) -> type:
    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise RuntimeError(f"{path} is not installed; this stands for it so that ComfyUI starts")

    return type(path.rpartition(".")[2], (), {"__init__": refuse, "__module__": path.rpartition(".")[0]})


class Stub(types.ModuleType):
    __version__ = "0.0.0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return stub(f"{self.__name__}.{name}")


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last: what the real finders do not know."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> object:
        is_stub = fullname.partition(".")[0] in ABSENT
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_stub else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Stub:
        return Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Operators(importlib.abc.MetaPathFinder):
    """Asked first: declares what torchvision's wheel wants, at its import."""

    library: object = None

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "torchvision" and self.library is None:
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                self.library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


class Editable:
    """An editable install of latentloom is hidden, so that the clone in custom_nodes is what runs."""

    @staticmethod
    def is_ours(hook: object) -> bool:
        return "latentloom" in getattr(hook, "__module__", "") or "latentloom" in getattr(hook, "__name__", "")


sys.meta_path[:] = [hook for hook in sys.meta_path if not Editable.is_ours(hook)]
sys.path_hooks[:] = [hook for hook in sys.path_hooks if not Editable.is_ours(hook)]
sys.meta_path.insert(0, Operators())
sys.meta_path.append(Absent())
