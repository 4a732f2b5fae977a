"""Print published step times of other systems beside ours predicted for their hardware, and how far off we are.

    python tests/bench/published.py        # a second

For each system one number is fitted, a factor on the speed of its devices, on the row marked `fitted`: what it took on
one GPU, or where the source has no such row, its Ulysses row. Six rows (`looked at`) were read while links and software
were described. All others are predictions, 33 of them: `error` is theirs. Serial parts of a step (`serial`, seconds)
were guessed beforehand. Times are of a step, in seconds.
"""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.costs.chips import CHIPS, COMPILED, EAGER, FABRICS, Chip, Fabric, Software
from latentloom.pipelines.costs.step import ITEMSIZE, Demand, step

PEER = {"relay_passes": 4, "merge_passes": 8, "calls_in": 3, "exchange_launches": 120, "gather_launches": 30}
PEER |= {
    "sharded_launches": 0,
    "kernels": 0,
    "sharded_kernels": 0,
}  # theirs: whatever a kernel takes is in the factor of a table
THEIRS = replace(EAGER, **PEER, hop_launches=60)
XDIT = replace(EAGER, **{**PEER, "exchange_launches": 64, "gather_launches": 16}, launches=460, hop_launches=60)
GRAPHED = replace(COMPILED, **PEER, passes=16, hop_s=0.12e-3, launches=0)
LAUNCH_S = 5e-6
SERIAL_PARTS = 1.05  # how much longer the products of a tensor-parallel layer take than their share, being narrower


@dataclass(frozen=True, kw_only=True)
class Row:
    plan: str
    seconds: float
    kind: str = ""
    tensor_parallel: int = 0


@dataclass(frozen=True, kw_only=True)
class Table:
    source: str
    forward: Demand
    chip: Chip
    fabric: Fabric
    software: Software
    serial: float
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Compared:
    source: str
    row: Row
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.row.seconds - 1


def transformer(width: int, heads: int, layers: int, per_layer: float, image: int, text: int, branches: int) -> Demand:
    """`per_layer`: weights that a token passes in a layer, in units of the width squared."""
    weights = per_layer * width**2 * layers
    return Demand(
        image=image,
        text=text,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        image_weights=weights,
        text_weights=weights,
        branches=branches,
    )


FLUX = transformer(3072, 24, 57, 12, 4096, 512, 1)
QWEN_1024 = transformer(3072, 24, 60, 12, 4096, 64, 2)
QWEN_2048 = transformer(3072, 24, 60, 12, 16384, 64, 2)
HUNYUAN = transformer(3072, 24, 60, 12, 33 * 45 * 80, 256, 1)  # 720 x 1280, 129 frames
WAN = transformer(5120, 40, 40, 11.4, 21 * 30 * 52, 0, 2)  # 480 x 832, 81 frames


def rows(steps: int, **seconds: float) -> list[Row]:
    """U2R4 is ulysses=2,ring=4; A allgather, T tensor parallel, one a single device. The first one is fitted."""
    found = []
    for name, value in seconds.items():
        name, _, kind = name.partition("_")
        pairs = [(name[at], name[at + 1]) for at in range(0, len(name), 2)] if name != "one" else []
        axes = {"C": "cfg", "U": "ulysses", "R": "ring", "A": "allgather"}
        plan = ",".join(f"{axes[axis]}={degree}" for axis, degree in pairs if axis in axes)
        degree = next((int(degree) for axis, degree in pairs if axis == "T"), 0)
        found.append(Row(plan=plan, seconds=value / steps, kind=kind, tensor_parallel=degree))
    return [replace(found[0], kind="fitted"), *found[1:]]


H100, H20, L20, R4090 = (CHIPS[name] for name in ("H100", "H20", "L20", "4090"))
NVLINK, NVLINK_H800, PCIE, NO_PEERS = (FABRICS[name] for name in ("nvlink4", "nvlink-h800", "pcie4-p2p", "pcie4-host"))
ROWS = {
    "xDiT docs, FLUX.1 1024, H100, compiled": (
        *(FLUX, H100, NVLINK, GRAPHED, 0.004),
        rows(28, one=4.30, U2=2.68, R2_seen=2.60, U2R2=1.80, U4=1.63, R4=1.98),
    ),
    "xDiT docs, FLUX.1 1024, H100, eager": (
        *(FLUX, H100, NVLINK, XDIT, 0.004),
        rows(28, one=6.71, U2=4.38, R2=5.31, U2R2=5.19, U4_seen=4.24, R4=5.11),
    ),
    "cache-dit docs, FLUX.1 1024, L20, eager": (
        *(FLUX, L20, PCIE, THEIRS, 0.012),
        rows(28, one=23.56, U2_seen=13.80, R2=13.43, A2=14.01, U4_seen=8.25, A4=9.82, R4=9.16, U2R2=8.55)
        + [replace(row, kind="") for row in rows(28, T2=14.61, T4=10.69)],
    ),
    "diffusers docs, FLUX.1 1024, 4 x 4090, eager": (
        *(FLUX, R4090, NO_PEERS, THEIRS, 0.008),
        rows(1, U4=0.25907, A4_seen=0.33898, U2A2=0.32154),
    ),
    "cache-dit docs, FLUX.1 1024, H100, eager": (*(FLUX, H100, NVLINK, THEIRS, 0.003), rows(50, one=9.30, U2=6.04)),
    "diffusers docs, FLUX.1 1024, 4 x H100, eager (one GPU: cache-dit)": (
        *(FLUX, H100, NVLINK, THEIRS, 0.003),
        rows(50, one=9.30, U4_seen=6.67, A4=13.075, U2A2=11.07),
    ),
    "cache-dit docs, Qwen-Image 1024, H100, eager": (
        *(QWEN_1024, H100, NVLINK, THEIRS, 0.003),
        rows(50, one=18.49, U2=12.81),
    ),
    "vLLM-Omni docs, Qwen-Image 2048, H800, eager, text replicated": (
        *(QWEN_2048, CHIPS["H800"], NVLINK_H800, THEIRS, 0.03),
        [replace(row, plan=f"{row.plan},text=replicated") for row in rows(50, one=112.5, U2=65.2, U4=39.6, U8=30.8)],
    ),
    "xDiT docs, HunyuanVideo 720p 129 frames, H100": (
        *(HUNYUAN, H100, NVLINK, THEIRS, 0.4),
        rows(50, one=1904.08, U2=925.04, U4=514.08, U8=337.58),
    ),
    "xDiT docs, HunyuanVideo 720p 129 frames, H20": (
        *(HUNYUAN, H20, NVLINK, THEIRS, 0.4),
        rows(50, one=6639.17, U2=3400.55, U4=1762.86, U8=940.97),
    ),
    "xDiT docs, HunyuanVideo 720p 129 frames, L20": (
        *(HUNYUAN, L20, PCIE, THEIRS, 0.4),
        rows(50, one=6043.88, U2=3271.44, U4=2080.05),
    ),
    "LightX2V readme, Wan2.1 14B 480p 81 frames, H100": (
        *(WAN, H100, NVLINK, GRAPHED, 0.0),
        rows(1, one=5.18, C2U4=0.75),
    ),
    "LightX2V readme, Wan2.1 14B 480p 81 frames, 4090D": (
        *(WAN, R4090, NO_PEERS, GRAPHED, 0.0),
        rows(1, one=20.26, C2U4=4.75),
    ),
}
TABLES = [
    Table(source=source, forward=forward, chip=chip, fabric=fabric, software=software, serial=serial, rows=found)
    for source, (forward, chip, fabric, software, serial, found) in ROWS.items()
]


def compared() -> list[Compared]:
    """Every row, with what we predict after the factor of its table was fitted."""
    return [
        Compared(source=table.source, row=row, predicted=_seconds(table, row, _fitted(table)))
        for table in TABLES
        for row in table.rows
    ]


def predicted_only() -> list[Compared]:
    return [each for each in compared() if not each.row.kind]


def _fitted(table: Table) -> float:
    """The factor on the devices' time with which the first row comes out, by bisection."""
    low, high = 0.2, 6.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _seconds(table, table.rows[0], middle) < table.rows[0].seconds else (low, middle)
    return low


def _seconds(table: Table, row: Row, factor: float) -> float:
    chip = replace(table.chip, half_flops=table.chip.half_flops / factor, bytes_per_s=table.chip.bytes_per_s / factor)
    if row.tensor_parallel:
        return _tensor_parallel(table, chip, row.tensor_parallel) + table.serial
    plan = ParallelPlan.parse(row.plan)
    chip = replace(chip, wires=table.fabric if plan.num_ranks > 1 else None)
    return step(table.forward, plan, chip, table.software).seconds + table.serial


def _tensor_parallel(table: Table, chip: Chip, degree: int) -> float:
    """Two all-reduces of all tokens a layer (Megatron; Shoeybi et al., 2019, arXiv:1909.08053), which we do not do."""
    f, software, fabric = table.forward, table.software, table.fabric
    flops = 2 * f.tokens * f.image_weights / f.layers
    linear = chip.gemm_s(flops, rows=f.tokens, width=f.width, dtype=f.dtype) / degree * SERIAL_PARTS
    attention = chip.attention_s(f.tokens, f.tokens, f.heads / degree, f.head_dim, f.dtype)
    whole = f.tokens * f.width * ITEMSIZE[f.dtype]
    memory = chip.copy_s(software.passes * whole) * (0.5 + 0.5 / degree)
    reduced = 2 * (fabric.start_s * 1.4 + 2 * (degree - 1) / degree * whole / fabric.bytes_per_s)
    host = LAUNCH_S * (software.launches + 60)
    return f.layers * f.branches * max(linear + attention + memory + reduced, host)


def main() -> None:
    source = ""
    for each in compared():
        if each.source != source:
            source = each.source
            print(f"\n{source}\n{'plan':24} {'published':>10} {'predicted':>10} {'error':>8}")
        name = f"tensor parallel={each.row.tensor_parallel}" if each.row.tensor_parallel else each.row.plan or "one"
        kind = {"seen": "looked at"}.get(each.row.kind, each.row.kind)
        print(f"{name:24} {each.row.seconds:10.4f} {each.predicted:10.4f} {each.error:+8.1%}  {kind}")
    errors = [abs(each.error) for each in predicted_only()]
    within = {share: sum(error <= share for error in errors) for share in (0.1, 0.2)}
    print(
        f"\n{len(errors)} rows that were neither fitted nor looked at: median error {statistics.median(errors):.1%}, "
        f"mean {statistics.mean(errors):.1%}, worst {max(errors):.1%}; {within[0.1]} within 10 %, "
        f"{within[0.2]} within 20 %"
    )


if __name__ == "__main__":
    main()
