"""Links between devices: how long an exchange, a gather and a hop take.

A *fabric* is the make of a machine's links, as data sheets tell it; `Speed` is what follows of it for one operation in
groups of one kind, and what this machine's ranks measure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operation = Literal["exchange", "gather", "hop"]
OPERATIONS: tuple[Operation, ...] = ("exchange", "gather", "hop")
LATER_HOP = 0.3  # of a hop's start, what each further member adds to a gather's


@dataclass(frozen=True)
class Speed:
    """One operation takes `start_s`, and then what each rank sends at `bytes_per_s`."""

    start_s: float
    bytes_per_s: float

    def seconds(self, sent_bytes: float) -> float:
        return self.start_s + sent_bytes / self.bytes_per_s


# What groups of `degree` ranks do, each `stride` from the next, while `talking` ranks do so in groups alike.
Kind = tuple[Operation, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """What joins the devices of a machine; rates are of one direction, and both are used at a time."""

    name: str
    bytes_per_s: float  # what one rank sends to a neighbour, as far as it can be reached
    # What all send together at most, through the host's memory say; 0 has no limit, as a switch has none.
    total_bytes_per_s: float = 0.0
    start_s: float = 20e-6  # of a collective, as the device sees it
    hop_s: float = 12e-6
    # From how many ranks on an all-to-all reaches which part of the rate: it leaves a PCIe switch, and its messages
    # are small.
    exchange_shares: Mapping[int, float]
    # How much longer attention takes while a ring's blocks travel, whose kernels take units; an assumption.
    tax: float = 0.03

    def speed(self, operation: Operation, degree: int, stride: int, talking: int) -> Speed:
        rate = self.bytes_per_s
        if self.total_bytes_per_s:
            rate = min(rate, self.total_bytes_per_s / talking)
        if operation == "exchange":
            share = [part for least, part in sorted(self.exchange_shares.items()) if least <= max(2, talking)][-1]
            return Speed(self.start_s, rate * share)
        if operation == "gather":
            return Speed(self.start_s + self.hop_s * LATER_HOP * (degree - 2), rate)
        return Speed(self.hop_s, rate)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured stands for the groups that it was not measured for, the nearest one by its degree first."""

    speeds: Mapping[Kind, Speed]
    tax: float = 0.0

    def speed(self, operation: Operation, degree: int, stride: int, talking: int) -> Speed:
        if found := self.speeds.get((operation, degree, stride, talking)):
            return found

        def distance(kind: Kind) -> tuple[float, ...]:
            pairs = ((kind[1], degree), (kind[3], talking), (kind[2], stride))
            return *(abs(math.log2(one / other)) for one, other in pairs), kind[1]

        return self.speeds[min((kind for kind in self.speeds if kind[0] == operation), key=distance)]


Wires = Fabric | Measured


SWITCHED = {2: 0.9, 4: 0.85, 8: 0.8}
PEER = {2: 1.0, 4: 0.65, 8: 0.45}
THROUGH_HOST = {2: 1.0, 4: 0.95, 8: 0.85}
# NVLink 3, 4, 5: 300, 450, 900 GB/s each way by NVIDIA's data sheets (H800 200), of which 80 % are reached
# (nccl-tests). PCIe x16: 32 and 64 GB/s each way by the standard, of which 25 and 50 are. Through the host, where GPUs
# cannot read each other's memory (GeForce): fitted on one published row of 4 x 4090, PCIe 5 is twice that. Starts and
# shares of an all-to-all are fitted on rows of `tests/bench/published.py` that do not count there.
FABRICS: Mapping[str, Fabric] = {
    fabric.name: fabric
    for fabric in (
        Fabric(name="nvlink5", bytes_per_s=720e9, start_s=18e-6, hop_s=10e-6, exchange_shares=SWITCHED, tax=0.08),
        Fabric(name="nvlink4", bytes_per_s=360e9, start_s=18e-6, hop_s=10e-6, exchange_shares=SWITCHED, tax=0.08),
        Fabric(name="nvlink3", bytes_per_s=234e9, exchange_shares=SWITCHED, tax=0.08),
        Fabric(name="nvlink-h800", bytes_per_s=160e9, start_s=18e-6, hop_s=10e-6, exchange_shares=SWITCHED, tax=0.08),
        Fabric(name="pcie4-p2p", bytes_per_s=25e9, start_s=30e-6, hop_s=20e-6, exchange_shares=PEER),
        Fabric(name="pcie5-p2p", bytes_per_s=50e9, start_s=30e-6, hop_s=20e-6, exchange_shares=PEER),
        Fabric(
            name="pcie4-host",
            bytes_per_s=14e9,
            total_bytes_per_s=48e9,
            start_s=45e-6,
            hop_s=35e-6,
            exchange_shares=THROUGH_HOST,
        ),
        Fabric(
            name="pcie5-host",
            bytes_per_s=26e9,
            total_bytes_per_s=90e9,
            start_s=45e-6,
            hop_s=35e-6,
            exchange_shares=THROUGH_HOST,
        ),
    )
}
