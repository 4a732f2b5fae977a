"""The self-check: are errors refused that are planted in sharded runs, and right runs never?

    python tests/bench/self_check.py [planted] [right] [compiled]

Prints one line for each cell that is not as it should be, and a table. A planted error has to be refused wherever a
class has what it breaks: twelve classes each. Takes about five minutes on two cores, most of it for compiled runs.
"""

import collections
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from support.cells import variants
from support.ranks import RankError, Ranks
from zoo.cases import CASES

PAIRS = ("ulysses=2", "ring=2", "allgather=2")
ANY = "flux flux2 qwen_image wan ltx2 minimax_h3 sd3 z_image hunyuan_video cogvideox mochi lumina2"
# Where each error is planted: classes that have what it breaks.
PLANTED = {
    "wrong mask": "qwen_image qwen_image21 chroma hunyuan_video bria_fibo krea2 motif_video lumina2 z_image prx "
    "ernie_image omnigen",
    "unmasked padding": "qwen_image ltx2 ltx chroma hunyuan_video cosmos cogview4 pixart sana z_image glm_image "
    "kandinsky6",
    "stale cache": ANY,
    "group mix-up": ANY,
    "LoRA lost on one rank": ANY,
    "rotary by local length": "flux flux2 qwen_image wan ltx2 minimax_h3 chroma cogview4 hunyuan_video_framepack "
    "cogvideox_15 mochi lumina2",
    "time per frame": "wan_ti2v ltx2_i2v flux2_first_step skyreels_v2_forcing anyflow anyflow_far helios ltx_i2v "
    "sana_wm_refiner cosmos_frames sana_video_i2v minimax_h3",
    "streams swapped": "flux flux2 flux3 chroma ovis_image longcat_image bria bria_fibo mochi motif_video "
    "hunyuan_video joy_image_edit_plus",
}
RIGHT = (
    "flux flux2 chroma qwen_image sd3 z_image wan wan_ti2v hunyuan_video ltx ltx2 cogvideox minimax_h3 lumina2 mochi "
    "pixart aura_flow cosmos3 sana prx"
)
COMPILED = "flux wan qwen_image z_image ltx sd3"


def planted() -> Iterator[tuple[int, list[Any]]]:
    for plant, names in PLANTED.items():
        for number, name in enumerate(names.split()):
            is_masked = "mask" in plant or (plant == "streams swapped" and variants()[name].masks)
            case = CASES["masked_odd" if is_masked else "both_odd"]
            if plant == "time per frame" and name == "minimax_h3":  # whose tokens have one time each, or the other
                case = replace(case, frames=3)
            yield 2, [name, case, PAIRS[number % 3], "bf16", plant]


def right() -> Iterator[tuple[int, list[Any]]]:
    for name in RIGHT.split():
        for case in ("both_odd", "masked_odd") if variants()[name].masks else ("both_odd",):
            for plan in PAIRS:
                for dtype in ("bf16", "fp16", "fp32", "fp8") if plan == "ulysses=2" else ("bf16", "fp16"):
                    yield 2, [name, case, plan, dtype]
    for name in RIGHT.split():
        yield 2, [name, "both_odd", "layers=2", "bf16"]
        yield 4, [name, "both_odd", "ulysses=2,ring=2", "bf16"]
        yield 4, [name, "even", "ulysses=4", "bf16"]


def compiled() -> Iterator[tuple[int, list[Any]]]:
    for name in COMPILED.split():
        yield 2, [name, "both_odd", "ulysses=2", "bf16", "", "aot_eager"]


def main() -> int:
    kinds = {each.__name__: each for each in (planted, right, compiled)}
    started, tally, num_wrong = time.monotonic(), collections.Counter[tuple[str, str]](), 0
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for kind in sys.argv[1:] or kinds:
        cells = sorted(kinds[kind](), key=lambda cell: cell[0])
        for num_ranks in sorted({number for number, _ in cells}):
            with Ranks(num_ranks) as ranks:
                for arguments in [arguments for number, arguments in cells if number == num_ranks]:
                    verdict = one(ranks, arguments)
                    name = arguments[4] if kind == "planted" else kind
                    tally[name, verdict["state"]] += 1
                    found[name].append(verdict)
                    if verdict["state"] != ("refused" if kind == "planted" else "same") or not verdict["is_unchanged"]:
                        num_wrong += 1
                        print(json.dumps([*arguments, verdict], default=str), flush=True)
    for name, verdicts in found.items():
        states = ", ".join(f"{count} {state}" for (kind, state), count in sorted(tally.items()) if kind == name)
        good = [verdict for verdict in verdicts if verdict["state"] != "unproven"]
        apart, ratios = [each["apart"] for each in good], [each["ratio"] for each in good]
        seconds = statistics.median(verdict["seconds"] for verdict in good)
        print(
            f"{name:24} {states:28} fp32 {min(apart):.1e} to {max(apart):.1e}, "
            f"rounding x{statistics.median(ratios):.2f}, most x{max(ratios):.2f}, {seconds:.2f} s a check"
        )
    print(f"{num_wrong} not as they should be, {time.monotonic() - started:.0f} s")
    return int(num_wrong > 0)


def one(ranks: Ranks, arguments: list[Any]) -> dict[str, Any]:
    try:
        verdicts = ranks.run("bodies.selfcheck:checked", *arguments, deadline_s=120)
    except RankError as error:
        return {"state": "unproven", "why": f"raised {str(error)[-300:]}", "is_unchanged": True}
    assert len({verdict["state"] for verdict in verdicts}) == 1, "all ranks have one verdict"
    return {**verdicts[0], "is_unchanged": all(verdict["is_unchanged"] for verdict in verdicts)}


if __name__ == "__main__":
    sys.exit(main())
