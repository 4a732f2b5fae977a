"""The doctor on accelerators: each GPU, the links between them, collectives, and attention kernels."""

from ...parallel.machine.machine import KERNEL_PACKAGES, Device, Machine, Torch
from ..components.memory import spare_rank_bytes
from ..forecast.choice import amount
from .finding import Finding

ROOM = 0.1  # a GPU with less than this share of its memory free is in use by somebody else


def examine_devices(machine: Machine) -> list[Finding]:
    if machine.torch is None:
        says = f"torch does not start ({machine.problem})"
        look = 'run `python -c "import torch; torch.cuda.init()"` to see it all'
        mend = f"{look}; then install torch again, or the driver"
        return [Finding(check="torch", state="problem", says=says, mend=mend)]
    torch, seen, listed = machine.torch, len(machine.devices), machine.num_listed_gpus
    built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "the CPU"
    driver = f"; the GPU driver is {machine.driver}" if machine.driver else ""
    found = [Finding(check="torch", says=f"torch {torch.version} is built for {built}{driver}")]
    found += map(_device, machine.devices)
    if not seen:
        found.append(_no_device(torch, listed))
    elif seen < listed:
        says = f"torch sees {seen} of the {listed} GPUs that the driver lists"
        mend = "unset CUDA_VISIBLE_DEVICES to use all of them"
        found.append(Finding(check="devices", state="warning", says=says, mend=mend))
    kinds: dict[tuple[str, bool], list[str]] = {}
    for link in machine.links:
        kinds.setdefault((link.wire, link.is_direct), []).append(f"{link.first} - {link.second}")
    found += [_alike(wire, is_direct, pairs) for (wire, is_direct), pairs in kinds.items()]
    return [*found, _backends(torch, seen), _kernels(torch)]


def _device(device: Device) -> Finding:
    free = f"{amount(device.free_bytes)} of {amount(device.total_bytes)} free"
    says = f"{device.title or 'a GPU'}, {free}, compute capability {device.capability}"
    if device.problem:
        says = f"{device.title or 'a GPU'} cannot compute ({device.problem})"
        mend = f"look for other processes on it with nvidia-smi or rocm-smi, or leave {device.name} out of --devices"
        return Finding(check=device.name, state="problem", says=says, mend=mend)
    if device.free_bytes < ROOM * device.total_bytes:
        mend = f"end what else runs on {device.name} (nvidia-smi lists it), or leave it out of --devices"
        return Finding(check=device.name, state="warning", says=f"{says}: others use it", mend=mend)
    if spare := spare_rank_bytes(device.name, device.total_bytes):
        says = f"{says}; a spare rank takes about {amount(spare)} of it while nothing else needs that"
    return Finding(check=device.name, says=says)


def _no_device(torch: Torch, num_listed: int) -> Finding:
    if torch.has_mps:
        return Finding(check="devices", says="the Apple GPU (mps) is used, as one device")
    gpus = f"the driver lists {num_listed} NVIDIA GPU{'s' if num_listed > 1 else ''}"
    if num_listed and not torch.cuda:
        mend = "install a torch built with CUDA: https://pytorch.org/get-started/locally"
        says = f"{gpus}, but this torch cannot use any: it is built without CUDA"
        return Finding(check="devices", state="problem", says=says, mend=mend)
    if num_listed:
        says = f"{gpus}, but torch can use none ({torch.start_problem or 'it names no reason'})"
        mend = "check that CUDA_VISIBLE_DEVICES is not empty, and that the driver is not older than torch's CUDA"
        return Finding(check="devices", state="problem", says=says, mend=mend)
    if torch.cuda or torch.hip:
        mend = "none is needed on a CPU; in Docker, pass GPUs on with --gpus all (AMD: --device /dev/kfd /dev/dri)"
        says = f"no GPU is found, though this torch is built for some ({torch.start_problem or 'none is listed'})"
        return Finding(check="devices", state="warning", says=says, mend=mend)
    return Finding(check="devices", says="there is no GPU: everything runs on the CPU, in fp32")


def _alike(wire: str, is_direct: bool, pairs: list[str]) -> Finding:
    """One finding for the links that are alike."""
    named = ", ".join(pairs) if len(pairs) < 4 else f"{pairs[0]} and {len(pairs) - 1} more pairs"
    way = "a link whose kind is unknown" if wire == "unknown" else wire
    if is_direct:
        return Finding(check="links", says=f"{named}: {way}, each reads the other's memory")
    says = f"{named}: {way}, without peer access, so what they exchange goes through host memory"
    mend = "turn off ACS and the IOMMU in the BIOS, or prefer plans that send little between them, such as cfg=2"
    return Finding(check="links", state="warning", says=says, mend=mend)


def _backends(torch: Torch, num_gpus: int) -> Finding:
    nccl = f"nccl {torch.nccl}".strip() if "nccl" in torch.backends else ""
    says = f"collectives: {', '.join(filter(None, ('gloo' if 'gloo' in torch.backends else '', nccl))) or 'none'}"
    missing = [name for name in ("gloo", "nccl") if name not in torch.backends and (name == "gloo" or num_gpus > 1)]
    if not missing:
        return Finding(check="backends", says=says)
    mend = "install a torch from https://pytorch.org; until then use one device"
    lack = f"{says}; several devices need {' and '.join(missing)}"
    return Finding(check="backends", state="warning", says=lack, mend=mend)


def _kernels(torch: Torch) -> Finding:
    runs = [name for name, problem in torch.kernels.items() if not problem]
    broken = {name: torch.kernels[name] for name in KERNEL_PACKAGES if torch.kernels.get(name)}
    says = f"attention kernels that run here: {', '.join(runs) or 'none'}"
    if broken:
        why = "; ".join(f"{name} is left out, it does not import ({problem})" for name, problem in broken.items())
        mend = f"pip uninstall {' '.join(broken)}, or install it for torch {torch.version}"
        return Finding(check="attention", state="warning", says=f"{says}; {why}", mend=mend)
    if not runs:
        mend = "use bf16 or fp16 on a GPU of compute capability 8.0 or later; attention is slow and large without"
        return Finding(check="attention", state="warning", says=says, mend=mend)
    return Finding(check="attention", says=says)
