"""The check at first use of ComfyUI's own classes: are wrong split plans refused, and right ones never?

    COMFYUI_DIR=DIR COMFYUI_PYTHON=PYTHON python tests/bench/comfyui_planted.py [planted] [right] [wide]

Three plans that were wrong without a word on the way to those that ship are planted; every case of `comfyui_models.py`
is tried by its own plan; `wide` are classes at their real width, with the processor seconds of a rank, which has one
thread, and the memory that a check takes beside the model. Prints a line for each, and ends with 1
where one is not as it should be. About a minute on two idle cores.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import comfyui_matrix as matrix

PLANS, OF_ROWS = ("ulysses=2", "ring=2", "allgather=2"), "cfg=2"  # the last of classes without tokens to spread
PLANTED = {
    "rows not behind the text": "flux 2, references at zero",
    "times of frames not cut": "wan, a time per frame",
    "streams in another order": "hunyuan video",
}
KINDS = ("planted", "right", "wide")
MOST_S, MOST_BYTES = 10.0, 1e9


def planted(name: str, split: Any) -> Any:
    """A plan with that mistake in it."""
    from latentloom.nodes.hosts.native.splits.plans import JOINT
    from latentloom.parallel.sharding.split_plan import Along, Spans

    inputs = {path: dict(specs) for path, specs in split.inputs.items()}
    if name == "rows not behind the text":
        inputs["single_blocks.*"]["modulation_dims"] = Spans(JOINT)
    if name == "times of frames not cut":
        del inputs["blocks.*"]["e"], inputs["head"]["e"]
    if name == "streams in another order":
        for path in ("double_blocks.*", "single_blocks.*"):
            inputs[path]["pe"] = Along(2, JOINT[::-1])
        return dataclasses.replace(split, order=JOINT[::-1], inputs=inputs)
    return dataclasses.replace(split, inputs=inputs)


class Peak:
    """The most memory of this process while it is watched, beside what there was."""

    def __enter__(self) -> Peak:
        import psutil

        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # else what was used before counts for nothing
        self._process, self._is_over = psutil.Process(), threading.Event()
        self.before = self.most = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._is_over.wait(0.005):
            self.most = max(self.most, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def tried(kind: str, plan: str, case: str, plant: str) -> dict[str, Any]:
    """Collective: what the check says of one plan and case."""
    from comfyui_made import in_two_rows
    from comfyui_models import CASES, WIDE

    from latentloom.nodes.hosts.native.checked import check_first_use
    from latentloom.nodes.hosts.native.splits.plans import plan_of
    from latentloom.parallel.mesh import mesh_for
    from latentloom.parallel.plan import ParallelPlan
    from latentloom.parallel.progress import Progress
    from latentloom.pipelines.selfcheck.first_use import NotTheSame

    class Told(Progress):
        def phase(self, name: str, **_: object) -> None:
            phases.append(name)

    phases: list[str] = []
    model, call = (WIDE if kind == "wide" else CASES)[case]()
    call = in_two_rows(call) if plan == OF_ROWS else call
    split, mesh = plan_of(model), mesh_for(ParallelPlan.parse(plan))
    split = planted(plant, split) if plant else split
    given = {**call, "transformer_options": {}}
    began = time.process_time()
    with Peak() as peak:
        try:
            said, is_refused = (
                check_first_use(
                    model, given, split=split, mesh=mesh, device="cpu", progress=Told(), patches=(kind, case, plant)
                ),
                False,
            )
        except NotTheSame as error:
            said, is_refused = str(error), True
        except Exception as error:
            said, is_refused = f"{type(error).__name__}: {error}", False
    seconds, size = time.process_time() - began, peak.most - peak.before
    return {"said": said, "is_refused": is_refused, "seconds": seconds, "bytes": size, "phases": phases}


def asked(kinds: list[str]) -> Iterator[tuple[str, str, str, str]]:
    from comfyui_models import CASES, WIDE
    from comfyui_models_rows import CASES as ROWS

    for plan in PLANS:
        if "planted" in kinds:
            yield from (("planted", plan, case, plant) for plant, case in PLANTED.items())
        if "right" in kinds:
            yield from (("right", plan, case, "") for case in CASES if case not in ROWS)
    if "right" in kinds:
        yield from (("right", OF_ROWS, case, "") for case in ROWS)
    if "wide" in kinds:
        yield from (("wide", OF_ROWS if case in ROWS else PLANS[0], case, "") for case in WIDE)


def is_right(kind: str, answers: tuple[dict[str, Any], ...]) -> bool:
    if not all(answer["phases"] == ["checking the plan against one device"] for answer in answers):
        return False
    if kind == "planted":
        return all(answer["is_refused"] and "choose another plan" in answer["said"] for answer in answers)
    is_good = all(answer["said"].startswith("checked on this machine") for answer in answers)
    is_small = all(answer["seconds"] <= MOST_S and answer["bytes"] <= MOST_BYTES for answer in answers)
    return is_good and (is_small or kind != "wide")


def on_rank() -> None:
    _, cells, answer = matrix.joined()
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(dir=answer.parent)  # nothing is known yet, and nothing is kept
    answer.write_text(json.dumps([tried(*cell) for cell in cells]))


def main() -> int:
    kinds = sys.argv[1:] or list(KINDS)
    if "COMFYUI_DIR" not in os.environ or not set(kinds) <= set(KINDS):
        print(f"blocked: COMFYUI_DIR names no checkout of ComfyUI, or a word is none of {', '.join(KINDS)}")
        return 1
    cells = list(asked(kinds))
    counts = {kind: [0, 0] for kind in kinds}
    rows = zip(*matrix.asked_of_ranks(__file__, 2, cells), strict=True)
    for (kind, plan, case, plant), answers in zip(cells, rows, strict=True):
        good = is_right(kind, answers)
        counts[kind][0] += good
        counts[kind][1] += 1
        seconds, size = (max(answer[name] for answer in answers) for name in ("seconds", "bytes"))
        told = f"{seconds:4.1f} s {size / 1e6:5.0f} MB" if kind == "wide" else ""
        print(f"{kind:8} {plan:12} {plant or case:29} {'' if good else 'WRONG':5} {told} {answers[0]['said'][:150]}")
    for kind, (good, count) in counts.items():
        print(f"{kind}: {good} of {count} as they should be")
    return int(any(good < count for good, count in counts.values()))


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1].isdigit():
        on_rank()
    else:
        sys.exit(main())
