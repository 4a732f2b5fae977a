"""How long a chain of 1,000 nodes takes to plan: check, order and keys. Prints milliseconds.

python tests/bench/planning.py [LENGTH]
"""

import importlib.util
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def load(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def milliseconds(call: object, repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1000)
    return sorted(times)[len(times) // 2]


def main() -> None:
    load(TESTS / "conftest.py")
    toys = load(TESTS / "nodes" / "conftest.py").load_toys()
    from latentloom.nodes.check import check
    from latentloom.nodes.graph import graph_text, read_graph
    from latentloom.nodes.schedule import schedule
    from latentloom.nodes.workspace import HERE

    length = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    graph = toys.chain(length)
    text = graph_text(graph)
    for name, call in {
        "read the file": lambda: read_graph(text),
        "check": lambda: check(graph, toys.SPECS),
        "plan (check, order, keys)": lambda: schedule(graph, toys.SPECS, overrides={}, workspace=HERE),
    }.items():
        print(f"{name}: {milliseconds(call):.1f} ms for {length} nodes (median of 15)")


if __name__ == "__main__":
    main()
