"""Typed steps over `pipelines`, the graph they form, its file, its checker and its executor.

In plain Python, import the steps from here: `from latentloom.nodes import load_model, encode_text, denoise, decode`.
Nothing heavy is imported: each step imports what it needs when it is called.

comfy_editor: ComfyUI's file for its own editor (litegraph), written from ours: `example_workflows/`, which it offers
    as templates.
python_script: A workflow as a script in Python: each node is a call of its function in `latentloom.nodes`.
registry: Every node there is: what the modules of `steps` list as `NODES`, and what comes from outside; and
    their catalog.
execution/: A run: what is due, in which order, what it made, what is kept of it and how it failed.
files/: Files that nodes read and write, inside the folders that they may use.
graph/: The workflow: its file, its nodes and values, and what is wrong with it. Nothing here runs anything.
headless/: Runs from the command line: one or many, claimed, interrupted, reported.
hosts/: Other programs that use the nodes.
preview/: What a workflow would do before it runs: its plan on these devices, and the models it may choose from.
python/: Workflows from Python: run, built by calling nodes, written, compared; sessions that keep what is loaded.
steps/: The node functions, by what they do; each imports what it needs when it is called.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a checker of types and an editor see
    from .steps.coding import *  # noqa: F403
    from .steps.denoising import *  # noqa: F403
    from .steps.masks import *  # noqa: F403
    from .steps.models import *  # noqa: F403
    from .steps.pictures import *  # noqa: F403
    from .steps.recordings import *  # noqa: F403
    from .steps.small.measures import *  # noqa: F403
    from .steps.small.numbers import *  # noqa: F403
    from .steps.small.texts import *  # noqa: F403
    from .steps.small.varying import *  # noqa: F403
    from .steps.text import *  # noqa: F403
    from .steps.whole.node import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """The function of a node, by its name; they are looked up in the registry, so that none is listed twice."""
    from .registry import SPECS

    functions = {spec.call.__name__: spec.call for spec in SPECS.values() if not spec.origin}
    if name == "__all__":
        return sorted(functions)
    if name not in functions:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functions[name]
