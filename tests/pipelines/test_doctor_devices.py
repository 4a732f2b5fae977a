import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from latentloom.parallel.machine.machine import Device, DeviceLink, Machine, Torch
from latentloom.pipelines.doctor.devices import examine_devices
from latentloom.pipelines.doctor.finding import Finding

TORCH = Torch(version="2.13.0", cuda="13.0", hip="", nccl="2.29.7", backends=("gloo", "nccl"), kernels={"flash": ""})
GPU = Device(
    name="cuda:0", title="H100", total_bytes=80 << 30, free_bytes=79 << 30, capability="9.0", uuid="a", problem=""
)
OTHER = dataclasses.replace(GPU, name="cuda:1", uuid="b")
LINK = DeviceLink(first="cuda:0", second="cuda:1", wire="NVLink, 18 lanes", is_direct=True)
TWO = Machine(torch=TORCH, devices=(GPU, OTHER), links=(LINK,), driver="580.65.06", num_listed_gpus=2)
ALONE = Machine(torch=dataclasses.replace(TORCH, cuda="", nccl="", backends=("gloo",)))


def the(findings: Sequence[Finding], check: str) -> Finding:
    found = [finding for finding in findings if finding.check == check]
    assert len(found) == 1, f"{check} in {[finding.check for finding in findings]}"
    return found[0]


def test_two_gpus_in_order_are_no_news() -> None:
    found = examine_devices(TWO)
    assert {finding.state for finding in found} == {"ok"}
    assert the(found, "links").says == "cuda:0 - cuda:1: NVLink, 18 lanes, each reads the other's memory"
    assert "CUDA 13.0; the GPU driver is 580.65.06" in the(found, "torch").says
    assert "79.0 GiB of 80.0 GiB free, compute capability 9.0" in the(found, "cuda:1").says


def gpu(**changes: Any) -> dict[str, Any]:
    """The only one of the machine."""
    return {"devices": (dataclasses.replace(GPU, **changes),), "links": (), "num_listed_gpus": 1}


def torch_with(**changes: Any) -> dict[str, Any]:
    return {"torch": dataclasses.replace(TORCH, **changes)}


NONE = {"devices": (), "links": ()}
INDIRECT = {"links": (dataclasses.replace(LINK, is_direct=False),)}
OTHERS = {"flash": "", "flash_attn": "undefined symbol"}
DEVICES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a torch that does not start": ({"torch": None, "problem": "no answer"}, "torch", "problem", "install torch again"),
    "a GPU that cannot compute": (gpu(problem="no kernel image"), "cuda:0", "problem", "leave cuda:0 out of --devices"),
    "a GPU in use": (gpu(free_bytes=1 << 30), "cuda:0", "warning", "end what else runs on cuda:0"),
    "a hidden GPU": ({"num_listed_gpus": 4}, "devices", "warning", "unset CUDA_VISIBLE_DEVICES"),
    "a torch for CPUs": ({**NONE, "torch": ALONE.torch}, "devices", "problem", "install a torch built with CUDA"),
    "a driver that torch cannot use": (NONE, "devices", "problem", "not older than torch's"),
    "a container without its GPUs": ({**NONE, "num_listed_gpus": 0}, "devices", "warning", "--gpus all"),
    "no peer access": (INDIRECT, "links", "warning", "ACS and the IOMMU"),
    "two GPUs without NCCL": (torch_with(backends=("gloo",)), "backends", "warning", "install a torch"),
    "a flash_attn of another torch": (
        torch_with(kernels=OTHERS),
        "attention",
        "warning",
        "pip uninstall flash_attn, or install it for torch 2.13.0",
    ),
    "no fused kernel": (torch_with(kernels={"flash": "no kernel"}), "attention", "warning", "compute capability 8.0"),
}


@pytest.mark.parametrize("name", DEVICES)
def test_what_is_wrong_with_devices_is_told_with_its_cure(name: str) -> None:
    changes, check, state, cure = DEVICES[name]
    finding = the(examine_devices(dataclasses.replace(TWO, **changes)), check)
    assert finding.state == state
    assert cure in finding.mend


def test_a_machine_without_a_gpu_is_well() -> None:
    found = examine_devices(ALONE)
    assert {finding.state for finding in found} == {"ok"}
    assert "everything runs on the CPU" in the(found, "devices").says
    assert the(found, "backends").says == "collectives: gloo"


def test_many_links_that_are_alike_are_one_line() -> None:
    links = tuple(dataclasses.replace(LINK, second=f"cuda:{number}") for number in range(1, 7))
    odd = dataclasses.replace(LINK, first="cuda:1", wire="unknown")
    found = [each for each in examine_devices(dataclasses.replace(TWO, links=(*links, odd))) if each.check == "links"]
    assert [finding.says.partition(":  ")[0].split(", each")[0] for finding in found] == [
        "cuda:0 - cuda:1 and 5 more pairs: NVLink, 18 lanes",
        "cuda:1 - cuda:1: a link whose kind is unknown",
    ]


@pytest.mark.parametrize(("total_gib", "is_told"), [(80, True), (24, False)])
def test_a_large_gpu_says_what_a_spare_rank_takes(total_gib: int, is_told: bool) -> None:
    device = dataclasses.replace(GPU, total_bytes=total_gib << 30, free_bytes=total_gib << 30)
    found = the(examine_devices(dataclasses.replace(TWO, devices=(device, OTHER))), "cuda:0")
    assert ("a spare rank takes about 572 MiB of it" in found.says) == is_told
