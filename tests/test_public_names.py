"""Names that others build on, written out: one that is missing here was taken from somebody.

A new name is added to its list; an old one goes only with a migration (files) or a new major version (the rest).
"""

import importlib
import json
from contextlib import closing
from pathlib import Path

import pytest

import latentloom
from latentloom.nodes.graph.graph import Graph
from latentloom.nodes.hosts.native.node import NATIVE
from latentloom.nodes.registry import SPECS
from support.toy_server import settings_in

TESTS = Path(__file__).parent

# Of `latentloom`.
ROOT_NAMES = {
    *("NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS", "ParallelPlan", "Pool", "Socket", "SplitPlan"),
    *("blocks", "load_sharded", "open_doors", "read_spec", "shard", "split_plan", "spread", "stages"),
    *("Cancelled", "Event", "Image", "LoomError", "Result", "Session", "Workflow", "arun", "run"),
}

# Of `latentloom.split_plan`: what a split plan is written with.
SPLIT_PLAN = {
    *("LOCAL", "Along", "Attend", "Halo", "Leading", "MadeAnew", "Padding", "Spans", "SplitPlan", "Tail", "Trailing"),
    *("Units", "image", "text", "tokens"),
}
BLOCKS = {"Denoise", "Encode", "Decode"}  # of `latentloom.blocks`
STAGES = {"encode_text", "encode_image", "denoise", "upscale", "decode", "decode_audio"}  # of `latentloom.stages`

# The id in workflow files and in ComfyUI, and the function of `latentloom.nodes`, as they were at the last release.
NODES: dict[str, str] = json.loads((TESTS.parent / "node_list.json").read_text())

FILE_KEYS = {"format", "name", "description", "requires", "params", "nodes", "outputs", "layout"}
NODE_KEYS = {"type", "version", "title", "mode", "inputs"}
PARAM_KEYS = {"type", "default", "choices", "min", "max", "help"}

# Below `/loom`, but for those of OpenAI's clients: the methods of each path.
ROUTES = """
GET /catalog
POST /check
POST /tokens
GET /drafts
DELETE GET PUT /drafts/{key}
POST /export/comfyui
POST /export/python
GET /files/{id}
GET /files/{id}/thumb
WEBSOCKET /live
POST /logout
GET /kept
GET /makers
GET /me
GET /models
POST /open
GET /openapi.json
POST /plan
POST /measure
GET /nodes/{type}/use
GET /history
POST /foreign
GET /results
POST /results/marks
PUT /results/{id}/poster
DELETE GET /results/{id}
POST /results/{id}/input
GET /tags
GET POST /boards
PATCH DELETE /boards/{id}
POST /hashes
GET DELETE /hashes/{id}
GET /apps
GET /apps/{token}
POST /apps/{token}/check
GET /apps/{token}/results
POST /apps/{token}/runs
POST /apps/{token}/tokens
GET POST /downloads
DELETE /downloads/{id}
POST /downloads/{id}/cancel
POST /downloads/{id}/resume
POST /hub
GET /loras
GET /loras/{id}/thumb
GET POST /runs
DELETE GET /runs/{id}
POST /runs/cancel
POST /runs/priority
POST /runs/{id}/cancel
POST /runs/{id}/move
GET /runs/{id}/previews/{node}
GET /runs/{id}/events
GET /shared/{token}
GET /start
GET /static/{name}
GET /templates
GET /templates/files/{name}
GET /templates/needs
POST /sockets
POST /text
GET POST /uploads
DELETE GET /uploads/{path}
GET /uploads/{path}/thumb
GET POST /workflows
DELETE GET PATCH PUT /workflows/{id}
DELETE PUT /workflows/{id}/app
POST /workflows/{id}/duplicate
GET /workflows/{id}/file
POST /workflows/{id}/share
GET PUT /workflows/{id}/thumb
GET /workflows/{id}/versions
POST /workflows/{name}/runs
GET /v1/models
GET /v1/models/{name}
POST /v1/images/generations
POST /v1/images/edits
GET POST /v1/videos
DELETE GET /v1/videos/{id}
GET /v1/videos/{id}/content
"""


def test_names_of_the_root_and_its_stages() -> None:
    assert set(latentloom.__all__) == set(latentloom.HOMES) == set(dir(latentloom)) == ROOT_NAMES
    assert all(getattr(latentloom, name) is not None for name in ROOT_NAMES)
    assert set(latentloom.split_plan.__all__) == SPLIT_PLAN
    assert all(getattr(latentloom.split_plan, name) is not None for name in SPLIT_PLAN)
    assert set(latentloom.blocks.__all__) == BLOCKS
    assert set(latentloom.stages.STAGES) == STAGES
    assert all(getattr(latentloom.stages, name) is latentloom.stages.STAGES[name] for name in STAGES)


def test_nodes_by_their_ids_and_by_their_functions() -> None:
    nodes = importlib.import_module("latentloom.nodes")
    found = {id: spec.call.__name__ for id, spec in SPECS.items() if not spec.origin}
    assert NODES.items() <= (found | {id: kind.FUNCTION for id, kind in NATIVE.items()}).items()
    assert {getattr(nodes, name).__name__ for name in nodes.__all__} == set(found.values())
    assert set(found) <= set(latentloom.NODE_CLASS_MAPPINGS) & set(latentloom.NODE_DISPLAY_NAME_MAPPINGS)


@pytest.mark.by_hand
def test_the_list_of_nodes_for_those_who_do_not_run_us_is_whole() -> None:
    assert set(NODES) == {id for id, spec in SPECS.items() if not spec.origin} | set(NATIVE)


def test_keys_of_a_workflow_file() -> None:
    schema = Graph.model_json_schema()
    assert set(schema["properties"]) >= FILE_KEYS
    assert set(schema["$defs"]["Node"]["properties"]) >= NODE_KEYS
    assert set(schema["$defs"]["Param"]["properties"]) >= PARAM_KEYS


def test_http_routes(tmp_path: Path) -> None:
    from latentloom.ui.api.router import make_router
    from latentloom.ui.bundle import read_bundle
    from latentloom.ui.server import Server

    (tmp_path / "static").mkdir()
    for name in ("loom.js", "loom.css"):
        (tmp_path / "static" / name).touch()
    with closing(Server(settings_in(tmp_path))) as server:
        routes = make_router(server, read_bundle(tmp_path / "static")).routes
    found = {
        f"{method} {route.path.removeprefix('/loom')}"  # type: ignore[attr-defined]
        for route in routes
        for method in getattr(route, "methods", None) or ["WEBSOCKET"]
        if "{rest:path}" not in route.path  # type: ignore[attr-defined]  # what is none of these, told in one sentence
    }
    rows = [line.split() for line in ROUTES.strip().splitlines()]
    assert found == {f"{method} {path}" for *methods, path in rows for method in methods}
