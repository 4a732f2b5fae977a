"""The workflow that most tests of the page begin with."""

import copy
import json
from typing import Any

from support.checkout import ROOT

FIRST: dict[str, Any] = json.loads((ROOT / "workflows" / "bobbin" / "first_picture.json").read_text())


def picture_graph(**changes: Any) -> dict[str, Any]:
    """One to be changed."""
    return copy.deepcopy(FIRST) | changes


def small(**changes: Any) -> dict[str, Any]:
    """In two steps."""
    graph = picture_graph(**changes)
    graph["nodes"]["denoise"]["inputs"]["steps"] = 2
    return graph
