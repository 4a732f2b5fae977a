"""latentloom: workflow nodes for generative media. ComfyUI loads this file when the folder is a custom node.

Nothing heavy is imported here: names resolve on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a checker of types and an editor see
    from .nodes.execution.events import Event
    from .nodes.graph.signature import read_spec
    from .nodes.graph.spec import Socket
    from .nodes.hosts.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS
    from .nodes.python.result import Result
    from .nodes.python.session import Session, arun, run
    from .nodes.python.workflow import Workflow
    from .nodes.registry import open_doors
    from .parallel.errors import Cancelled, LoomError
    from .parallel.plan import ParallelPlan
    from .parallel.sharding import split_plan
    from .parallel.sharding.split_plan import SplitPlan
    from .pipelines import stages
    from .pipelines.components.loading import load_sharded
    from .pipelines.spreading.pipeline import spread
    from .pipelines.spreading.transformer import shard
    from .pipelines.values import Image
    from .pipelines.whole import blocks
    from .pipelines.whole.pooled import Pool

__version__ = "0.1.0"
HOMES = {
    "Cancelled": "parallel.errors",
    "Event": "nodes.execution.events",
    "Image": "pipelines.values",
    "LoomError": "parallel.errors",
    "NODE_CLASS_MAPPINGS": "nodes.hosts.comfyui",
    "NODE_DISPLAY_NAME_MAPPINGS": "nodes.hosts.comfyui",
    "ParallelPlan": "parallel.plan",
    "Pool": "pipelines.whole.pooled",
    "Result": "nodes.python.result",
    "Session": "nodes.python.session",
    "Socket": "nodes.graph.spec",
    "SplitPlan": "parallel.sharding.split_plan",
    "Workflow": "nodes.python.workflow",
    "arun": "nodes.python.session",
    "blocks": "pipelines.whole.blocks",
    "load_sharded": "pipelines.components.loading",
    "open_doors": "nodes.registry",
    "read_spec": "nodes.graph.signature",
    "run": "nodes.python.session",
    "shard": "pipelines.spreading.transformer",
    "split_plan": "parallel.sharding.split_plan",
    "spread": "pipelines.spreading.pipeline",
    "stages": "pipelines.stages",
}
# Who lets packages from outside in, by the names behind which there are tables that these add to.
OPENS = {
    "nodes.registry": ("NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS", "Session", "Workflow", "arun", "run"),
    "pipelines.doors": ("blocks", "load_sharded", "shard", "spread", "stages"),
}
# The names of `HOMES`, as checkers of types read them.
__all__ = ["Cancelled", "Event", "Image", "LoomError", "NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
__all__ += ["ParallelPlan", "Pool", "Result", "Session", "Socket", "SplitPlan", "Workflow", "arun", "blocks"]
__all__ += ["load_sharded", "open_doors", "read_spec", "run", "shard", "split_plan", "spread", "stages"]

if not TYPE_CHECKING:  # for a checker there are the names above, and no other

    def __getattr__(name: str) -> Any:
        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        if __name__ != "latentloom":
            _adopt_package_name()
        for opener in (each for each, names in OPENS.items() if name in names):
            importlib.import_module(f"latentloom.{opener}").open_doors()
        home = importlib.import_module(f"latentloom.{HOMES[name]}")
        return home if HOMES[name].endswith(f".{name}") else getattr(home, name)


def __dir__() -> list[str]:
    return __all__


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
