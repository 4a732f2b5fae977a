"""A workflow made ready: ordinary nodes of today's versions, with their values, sockets and modes decided.

Six steps, whose order matters, stand here alone. Whoever checks, previews, orders, exports or explains a workflow is
handed a `Ready` and prepares nothing again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..files.workspace import Host, Workspace
from .choosing import settled, specs_of
from .graph import Graph, Link
from .modes import Specs, effective
from .problems import Problem
from .resolve import Overrides, baked, param_values, upgrade
from .spec import NodeSpec
from .unfolding.unfold import unfold
from .unfolding.unfolded import Unfolded


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Made by `ready`. It may have problems; `check` finds all of them."""

    file: Graph  # the workflow as it was given
    asked: Overrides
    types: Specs  # the nodes that are installed, by type
    host: Host  # who asks
    unfolding: Unfolded  # the way from unfolded nodes back to the file, and what could not be unfolded
    written: Graph  # with the nodes that are switched off, and before any file was asked what sockets a node has
    graph: Graph  # the nodes that run, with what files say of their sockets
    specs: Mapping[str, NodeSpec]  # of each node that is installed, by its name, those that are switched off among them
    problems: tuple[Problem, ...]  # nodes that cannot become today's version, or whose sockets cannot be decided

    @cached_property
    def params(self) -> Mapping[str, Any]:
        return param_values(self.graph, {})

    def inputs_as_written(self, name: str) -> dict[str, Any]:
        """What stands at a node that runs, without what files say: for a host that asks its own files."""
        now = self.graph.nodes[name].inputs
        own = self.written.nodes[name].inputs.items()
        entries = {socket: now.get(socket) if isinstance(entry, Link) else entry for socket, entry in own}
        return {socket: entry for socket, entry in entries.items() if entry is not None or socket in now}


def ready(
    graph: Graph, types: Specs, overrides: Overrides | None = None, *, workspace: Workspace | None = None
) -> Ready:
    """Prepare a workflow with these values in place of its own. Raises nothing: what is wrong is in the value.

    In the `workspace` folders are listed, and files looked at that say which sockets a node has; without one none is,
    and a node that only a file tells of is known as far as the workflow itself tells.
    """
    asked = overrides or {}
    unfolding = unfold(graph, types, asked, workspace)  # first: a for-each makes nodes, which the other steps look at
    newest, too_old = upgrade(unfolding.graph, types, unfolding.overrides)
    written = baked(newest, unfolding.overrides)  # which name sockets of today's version
    whole, undecided = settled(written, types, workspace)
    known = specs_of(whole, types)
    return Ready(
        file=graph,
        asked=asked,
        types=types,
        host=workspace.host if workspace else "python",
        unfolding=unfolding,
        written=written,
        graph=effective(whole, known),
        specs=known,
        problems=(*too_old, *undecided),
    )
