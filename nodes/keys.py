"""Recipe keys: a node's key names what its result is made from, so equal keys mean equal results.

A key covers the node's id and version, its values with defaults filled in, the keys of what feeds it and its
fingerprint; never names, titles or layout. Each key is one hash over the keys before it, so the cost is linear.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from .resolve import Resolved


def recipe_keys(order: Iterable[str], nodes: Mapping[str, Resolved], fingerprints: Mapping[str, str]) -> dict[str, str]:
    """The key of every node in `order`, which lists each node after those that feed it."""
    keys: dict[str, str] = {}
    for name in order:
        node = nodes[name]
        links = []
        for socket, link in node.links.items():
            source, _, output = link.source.partition(".")
            links.append((socket, keys[source], output))
        # Values are scalars, whose repr says everything; JSON takes three times as long.
        recipe = (node.spec.id, node.spec.version, node.values, links, fingerprints.get(name, ""))
        keys[name] = hashlib.sha256(repr(recipe).encode(errors="backslashreplace")).hexdigest()
    return keys
