"""What the canvas shows, measured in the page: small text, wires behind nodes, boxes on each other; made-up graphs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.checkout import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPT = (Path(__file__).parent / "canvas_geometry.js").read_text()
SIZES = {"1440x900": (1440, 900), "1280x720": (1280, 720), "phone": (390, 844)}
LEAST_PX = 11.0
RUN_MS = 300_000


def shipped() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((ROOT / "workflows").glob("*/*.json"))]


def generated(seed: int, *, most: int = 60) -> dict[str, Any]:
    """A graph of real nodes, 3 to `most` of them, some muted or bypassed, wired at random where types fit; without a
    layout.
    """
    from latentloom.nodes.graph.scalars import can_feed
    from latentloom.nodes.registry import SPECS

    hand, other_hand = random.Random(seed), random.Random(-1 - seed)
    types = [id for id in SPECS if id != "LoomRunPipeline"]
    nodes: dict[str, Any] = {"load": {"type": "LoomLoadModel", "inputs": {"source": "builtin:bobbin"}}}
    outputs = [("load.model", "Model")]
    for number in range(hand.randint(2, most - 1)):
        spec = SPECS[hand.choice(types)]
        name = f"n{number}"
        inputs: dict[str, Any] = {}
        for socket in spec.inputs:
            fits = [made for made, type in outputs if can_feed(type, socket.type)]
            is_wire = socket.type[0].isupper()
            if fits and hand.random() < (0.9 if is_wire else 0.1):
                # mostly something near, as people wire
                inputs[socket.name] = {"from": fits[-min(len(fits), 1 + int(hand.expovariate(0.4)))]}
        nodes[name] = {"type": spec.id, "inputs": inputs}
        if other_hand.random() < 0.1:
            nodes[name]["mode"] = other_hand.choice(("mute", "bypass"))
        outputs += [(f"{name}.{output.name}", output.type) for output in spec.outputs]
    return {"format": 1, "name": f"generated_{seed}", "nodes": nodes}


def opened(page: Page, graph: dict[str, Any]) -> dict[str, Any]:
    """Open a workflow by dropping it on the canvas, and measure."""
    return page.evaluate("async (graph) => { await geometry.open(graph); return geometry.measure(); }", graph)


def made(page: Page) -> dict[str, Any]:
    """Press Run, and measure once it is over; `moved` are the nodes that were not where or as large as before."""
    page.evaluate("geometry.follow()")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_function("geometry.isOver()", timeout=RUN_MS)
    return page.evaluate("() => ({ ...geometry.measure(), moved: geometry.moved() })")


def arranged(page: Page) -> dict[str, Any]:
    """Press Arrange, measure, and take it back."""
    found = page.evaluate("async () => { await geometry.arrange(); return geometry.measure(); }")
    page.keyboard.press("Control+z")
    return found


def faults(found: dict[str, Any]) -> list[str]:
    """What is wrong, in words; empty where all is well."""
    told = [
        f"{found[kind][:3]} ({len(found[kind])} {kind})" for kind in ("overlaps", "behind", "foreign") if found[kind]
    ]
    if found["num_wires"] < found["num_links"]:
        told.append(f"{found['num_wires']} wires are drawn for {found['num_links']} links")
    if found["hidden"]:
        told.append(f"text is not shown: {found['hidden'][:3]}")
    if found["smallest"] < LEAST_PX - 0.01:
        told.append(f"text of {found['smallest']:.1f} px: {found['where']}")
    return told
