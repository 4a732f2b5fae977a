"""What latentloom can be asked for and what it answers with, as lists: recorded, and compared with a later commit's.

    python tests/bench/capabilities.py record before.json [--checkout ../before]     # half a minute
    python tests/bench/capabilities.py compare before.json after.json [--texts]

Nodes with their sockets, options of the command line, public names, HTTP routes with what they take and answer, keys of
workflow files, of manifests and of all that is printed by `--json`, error codes, events, exit codes, variables of the
environment and families. `compare` prints each difference by its way, and exits with 1 if something has gone or
changed; what came is only printed, and of texts how many changed.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.checkouts import call_in, commands, leaves, write_record

TIMEOUT_S = 600
TEXTS = {"help", "description", "summary", "title", "examples"}
VARIABLE = re.compile(r"\b(?:LATENTLOOM|COMFYUI|HF)_[A-Z0-9_]+\b")
FIRST = Path("workflows") / "bobbin" / "first_picture.json"


def main() -> int:
    parser, _, comparing = commands(__doc__)
    comparing.add_argument("--texts", action="store_true", help="list the texts that changed")
    chosen = parser.parse_args()
    if chosen.command == "compare":
        return compare(chosen.old, chosen.new, texts=chosen.texts)
    root = chosen.checkout.resolve()
    write_record(chosen.file, call_in(root, __file__, "capabilities", timeout_s=TIMEOUT_S, root=str(root)))
    return 0


def compare(old: dict[str, Any], new: dict[str, Any], *, texts: bool) -> int:
    before, after = leaves(old), leaves(new)
    ways = {way for way in {*before, *after} if (way in before, before.get(way)) != (way in after, after.get(way))}
    is_text = {way for way in ways if TEXTS & {*way.split("/")[-2:]}}
    gone, came = ({way for way in ways - is_text if way not in other} for other in (after, before))
    for title, found in {"gone": gone, "changed": ways - is_text - gone - came, "new": came}.items():
        for way in sorted(found):
            values = [json.dumps(each[way])[:120] for each in (before, after) if way in each]
            print(f"{title}: {way}: {' -> '.join(values)}")
    for way in sorted(is_text) if texts else ():
        print(f"text: {way}: {before.get(way)!r} -> {after.get(way)!r}")
    num_worse = len(ways - is_text - came)
    print(f"{len(before)} facts, {num_worse} gone or changed, {len(came)} new, {len(is_text)} texts differ")
    return int(num_worse > 0)


# ---- in the process of one checkout


def capabilities(root: str) -> dict[str, Any]:
    from latentloom.__main__ import parser

    def printed(*arguments: str) -> list[Any]:
        """The JSON that a command prints, one value or one a line."""
        from latentloom.__main__ import main as latentloom

        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            exit_code = latentloom([*arguments, "--json"])
        assert exit_code in (0, 1, 2), arguments
        try:
            return [json.loads(out.getvalue())]
        except ValueError:
            return [json.loads(line) for line in out.getvalue().splitlines()]

    first = f"{root}/{FIRST}"
    asked = {
        "check": ("check", first),
        "check, wrong": ("check", first, "--set", "load_model.source=none", "--set", "empty_latents.width=7"),
        "check, refused": ("check", first, "--set", "none=1"),
        "plan": ("plan", first, "--machine", "8xH100-nvlink"),
        "plan, too large": ("plan", first, "--machine", "1x4090", "--size", "16384x16384"),
        "run": ("run", first, "--no-cache", "--out", "one", "--set", "denoise.steps=2"),
        "run, ranks": ("run", first, "--no-cache", "--out", "two", "--set", "denoise.steps=2", "--devices", "cpu*2"),
        "run, sweep": ("run", first, "--no-cache", "--out", "many", "--set", "denoise.steps=1", "--sweep", "seed=1,2"),
        "run, refused": ("run", first, "--set", "load_model.source=none", "--out", "none"),
        "models": ("models",),
        "doctor": ("doctor",),
    }
    answers = {name: keys_of(printed(*arguments)) for name, arguments in asked.items()}
    manifests = {name: keys_of([json.loads(Path(name, "manifest.json").read_text())]) for name in ("one", "two")}
    return {
        "nodes": {node.pop("id"): _by_name(node) for node in printed("nodes")[0]},
        "options": options(parser()),
        "answers": answers,
        "manifests": manifests,
        "workflow file": _schema(Path(root) / "nodes" / "graph" / "workflow.schema.json"),
        "routes": routes(),
        "errors": errors(),
        "events": events(),
        "names": names(),
        "environment": dict.fromkeys(sorted(variables(Path(root))), True),
        "families": families(),
    }


def keys_of(values: list[Any]) -> dict[str, str]:
    """Each way through plain data with the types that stand there; names of nodes and plans are as they come."""
    found: dict[str, set[str]] = {}

    def look(value: Any, way: str) -> None:
        if isinstance(value, dict):
            for key in value:
                look(value[key], f"{way}.{key}")
        elif isinstance(value, list):
            for each in value:
                look(each, f"{way}[]")
        else:
            found.setdefault(way, set()).add({int: "number", float: "number"}.get(type(value), type(value).__name__))

    for value in values:
        kind = f"{value['kind']}" if isinstance(value, dict) and "kind" in value else ""
        look(value, kind)
    return {way: " or ".join(sorted(types)) for way, types in sorted(found.items())}


def _by_name(node: dict[str, Any]) -> dict[str, Any]:
    for kind in ("inputs", "outputs"):
        node[kind] = {socket.pop("name"): {**socket, "place": i} for i, socket in enumerate(node[kind])}
    return node


def options(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """By command each option, with its default, choices and how many values it takes."""
    found: dict[str, Any] = {}
    if getattr(parser, "options", None) is not None:  # made once the command is asked for
        parser.options(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= {name: options(command) for name, command in action.choices.items()}
        else:
            name = ", ".join(action.option_strings) or action.dest
            choices = sorted(map(str, action.choices)) if action.choices else []
            found[name] = {
                "default": str(action.default),
                "choices": ", ".join(choices),
                "takes": str(action.nargs),
                "is_required": action.required,
                "help": action.help or "",
            }
    return found


def _schema(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


def routes() -> dict[str, Any]:
    """OpenAPI of the page's server: paths, methods, bodies and answers."""
    from latentloom.ui.options import prepare_gradio
    from latentloom.ui.settings import Settings

    settings = Settings(output_dir=Path("out").resolve(), data_dir=Path("data").resolve())
    prepare_gradio(settings)
    from latentloom.ui.api.router import described, make_router
    from latentloom.ui.bundle import read_bundle
    from latentloom.ui.server import Server

    with contextlib.closing(Server(settings)) as server:
        router = make_router(server, read_bundle())
        told = described(router)
        listed = {
            f"{method} {route.path}": True
            for route in router.routes
            for method in sorted(getattr(route, "methods", None) or {"WEBSOCKET"})
        }
    return {"listed": listed, "paths": told["paths"], "schemas": told["components"]["schemas"]}


def errors() -> dict[str, Any]:
    """The tree of errors, of all modules that can be imported here."""
    from latentloom.parallel import errors as tree

    for _ in _modules():
        pass
    found, waiting = {}, [tree.LoomError, tree.Cancelled]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("latentloom."):
            found[kind.__name__] = {"code": kind.code, "exit": kind.exit_code, "http": kind.http_status}
        waiting += kind.__subclasses__()
    return found


def _modules() -> Iterator[Any]:
    import latentloom

    for found in pkgutil.walk_packages(latentloom.__path__, "latentloom."):
        if not found.name.startswith(("latentloom.tests", "latentloom.pipelines.bobbin.training")):
            with contextlib.suppress(Exception):  # Triton, Ray and the like may be absent
                yield importlib.import_module(found.name)


def events() -> dict[str, Any]:
    from typing import get_args

    from latentloom.nodes.execution import events as told

    fields = {name: str(each) for name, each in inspect.get_annotations(told.Event).items()}
    return {"kinds": dict.fromkeys(get_args(told.Kind), True), "fields": fields}


def names() -> dict[str, Any]:
    """What may be imported from `latentloom` and `latentloom.nodes`, with its signature."""
    import latentloom
    from latentloom import __main__ as program
    from latentloom import nodes

    found = {f"latentloom.{name}": _signature(getattr(latentloom, name)) for name in latentloom.__all__}
    found |= {f"latentloom.nodes.{name}": _signature(getattr(nodes, name)) for name in nodes.__all__}
    exits = {name: getattr(program, name) for name in ("OK", "FAILED", "BAD", "CANCELLED") if hasattr(program, name)}
    return {**found, "exit codes": exits}


def _signature(value: Any) -> str:
    """Names, order and plain defaults of what it takes; types are a matter of nodes' sockets."""
    try:
        taken = inspect.signature(value).parameters.values() if callable(value) else ()
    except ValueError:
        taken = ()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    told = []
    for each in taken:
        is_plain = isinstance(each.default, (str, int, float, type(None)))
        default = "" if each.default is each.empty else f"={each.default!r}" if is_plain else "=..."
        told.append(f"{stars.get(each.kind, '')}{each.name}{default}")
    return f"{type(value).__name__}({', '.join(told)})"


def variables(root: Path) -> set[str]:
    wings = ("parallel", "pipelines", "nodes", "ui")
    files = [
        root / "__init__.py",
        root / "__main__.py",
        *(path for wing in wings for path in (root / wing).rglob("*.py")),
    ]
    texts = (file.read_text() for file in files if "training" not in file.parts and "web" not in file.parts)
    return {name for text in texts for name in VARIABLE.findall(text)}


def families() -> dict[str, Any]:
    from latentloom.parallel.attention import STRATEGIES
    from latentloom.pipelines.families import FAMILIES
    from latentloom.pipelines.split_plans import SPLIT_PLANS

    tables = {"families": FAMILIES, "split plans": SPLIT_PLANS, "strategies": STRATEGIES}
    return {name: dict.fromkeys(map(str, table), True) for name, table in tables.items()}


if __name__ == "__main__":
    sys.exit(main())
