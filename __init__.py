"""latentloom: workflow nodes for generative media. ComfyUI loads this file when the folder is a custom node.

Nothing heavy is imported here: names resolve on first use.
"""

from typing import Any

__version__ = "0.1.0"
HOMES = {
    "NODE_CLASS_MAPPINGS": "nodes.hosts.comfyui",
    "NODE_DISPLAY_NAME_MAPPINGS": "nodes.hosts.comfyui",
    "ParallelPlan": "parallel.plan",
    "Pool": "pipelines.whole.pooled",
    "Socket": "nodes.graph.spec",
    "SplitPlan": "parallel.sharding.split_plan",
    "blocks": "pipelines.whole.blocks",
    "load_sharded": "pipelines.components.loading",
    "open_doors": "nodes.registry",
    "read_spec": "nodes.graph.signature",
    "shard": "pipelines.spreading.transformer",
    "split_plan": "parallel.sharding.split_plan",
    "spread": "pipelines.spreading.pipeline",
    "stages": "pipelines.stages",
}
# Names behind which there are tables that packages from outside add to, and who lets these in.
OPENS = {
    "NODE_CLASS_MAPPINGS": "nodes.registry",
    "NODE_DISPLAY_NAME_MAPPINGS": "nodes.registry",
    "blocks": "pipelines.doors",
    "load_sharded": "pipelines.doors",
    "shard": "pipelines.doors",
    "spread": "pipelines.doors",
    "stages": "pipelines.doors",
}
__all__ = list(HOMES)  # pyrefly: ignore[unresolvable-dunder-all]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    if __name__ != "latentloom":
        _adopt_package_name()
    if name in OPENS:
        importlib.import_module(f"latentloom.{OPENS[name]}").open_doors()
    home = importlib.import_module(f"latentloom.{HOMES[name]}")
    return home if HOMES[name].endswith(f".{name}") else getattr(home, name)


def _adopt_package_name() -> None:
    """Make this folder importable as `latentloom` when a host loaded it under another name.

    ComfyUI names a custom node by its path. Taking the nodes from one package name keeps one process from holding two
    copies of every class (and later two pools) when latentloom is installed as well.
    """
    import importlib.util
    import sys
    import types

    if "latentloom" in sys.modules or importlib.util.find_spec("latentloom") is not None:
        return
    package = types.ModuleType("latentloom", __doc__)
    vars(package).update(__path__=list(__path__), __file__=__file__, __version__=__version__)
    sys.modules["latentloom"] = package
