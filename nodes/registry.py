"""Every node there is: what the modules of `steps` list as `NODES`. An id is a promise to saved files; never rename."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

from .graph.spec import NodeSpec
from .steps import __path__ as folders

# In the order in which nodes are listed; a category that is not here comes last.
CATEGORIES = ("model", "encode", "latents", "denoise", "decode", "picture", "mask", "sound", "text", "number")


def _found() -> Iterator[NodeSpec]:
    """Modules of a folder come before those of the folders inside it, each with its nodes in the order of its dict."""
    names = [module.name for module in pkgutil.walk_packages(folders, f"{__package__}.steps.")]
    for name in sorted(names, key=lambda name: (name.count("."), name)):
        for id, spec in getattr(importlib.import_module(name), "NODES", {}).items():
            yield dataclasses.replace(spec, id=id)


def _place(spec: NodeSpec) -> int:
    return CATEGORIES.index(spec.category) if spec.category in CATEGORIES else len(CATEGORIES)


SPECS: dict[str, NodeSpec] = {spec.id: spec for spec in sorted(_found(), key=_place)}
