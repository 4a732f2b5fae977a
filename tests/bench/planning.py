"""How long a chain of 1,000 nodes takes to plan: check, order and keys. Prints milliseconds.

python tests/bench/planning.py [LENGTH]
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from support import toys


def milliseconds(call: object, repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1000)
    return sorted(times)[len(times) // 2]


def main() -> None:
    from latentloom.nodes.files.workspace import HERE
    from latentloom.nodes.graph.graph import graph_text, read_graph
    from support.prepared import check, schedule

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
