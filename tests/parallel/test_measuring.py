"""What ranks measure of their machine, and the machine that is made of it."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from latentloom.parallel.pool import measuring
from latentloom.pipelines.costs.measured import checked, machine_of
from latentloom.pipelines.forecast.here import slowest

GROUPS = {(2, 1), (2, 2), (4, 1)}


def test_ranks_measure_each_operation_in_every_kind_of_group(ranks: Any) -> None:
    told = ranks.run("bodies.rank:measured", 4)
    found = {(each["operation"], each["degree"], each["stride"]) for each in told[0]["samples"]}
    assert found == {(operation, *group) for operation in ("exchange", "gather", "hop") for group in GROUPS}
    assert len(told[0]["samples"]) == 3 * len(found)
    assert all(each["seconds"] > 0 and each["sent_bytes"] > 0 for each in told[0]["samples"])
    seen = slowest(told, is_amid=True)
    assert seen["single"]["seconds"] == max(each["single"]["seconds"] for each in told)
    assert seen["samples"][4]["seconds"] == min(each["samples"][4]["seconds"] for each in told)
    machine = machine_of(
        checked({"title": "here", "kind": "cpu", "memory_bytes": 1 << 33, "num_units": 0, "seen": {4: seen}})
    )
    speeds = machine.chip(4)
    assert 1e8 < speeds.single_flops < 1e13
    assert speeds.wires is not None and not speeds.is_async
    assert 1e6 < speeds.wires.speed("gather", 4, 1, 4)[1] < 1e12


def test_the_operations_of_a_block_are_as_many_as_a_launch_is_reckoned_by() -> None:
    class Counting(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.count += 1
            return func(*args, **(kwargs or {}))

    x = torch.randn(2, 192)
    with torch.inference_mode(), Counting() as counting:
        measuring._as_a_block(x)
    assert counting.count == measuring.NUM_OPERATIONS
