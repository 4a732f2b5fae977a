"""What engines of Torch-TensorRT would hold of every transformer class, by a stand-in that takes all but our operators.

    python tests/bench/engines.py [VARIANT ...]

Of each class, tiny, fp32, on two ranks of a CPU: how far it is from one process without engines, engines of each kind
of block, and what is left to torch. Ten seconds a class, 3 GB.
"""

import sys
import tempfile
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import support.checkout  # noqa: E402, F401 (makes the checkout importable)

PLAN = "ulysses=2"


def main(names: list[str]) -> None:
    from support.cells import variants
    from support.ranks import RankError, Ranks

    print(f"{'class':26} {'off':>8}  engines a block  left to torch")
    with Ranks(2) as pair:
        for name in names or list(variants()):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = pair.run("bodies.engines:built", name, PLAN, folder)[0]
                except RankError as error:
                    print(f"{name:26} {str(error).splitlines()[0][:160]}", flush=True)
                    continue
            engines = " ".join(map(str, found["engines"]))
            left = ", ".join(f"{count} {each}" for each, count in sorted(found["left"].items()))
            print(f"{name:26} {found['apart']:8.1e}  {engines:15}  {left}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(sys.argv[1:])
