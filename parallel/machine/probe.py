"""What torch finds on this machine, as JSON; a process of its own, which a bad driver may hang or kill.

Run by path, as `python -P probe.py PACKAGE...`, so it imports nothing of ours.
"""

# B batch, H heads, S tokens, D head width

import importlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel


def main() -> None:
    warnings.simplefilter("ignore")  # of a driver too old, say: that is in what is found
    print(json.dumps(found(sys.argv[1:])))


def found(packages: Sequence[str]) -> dict[str, Any]:
    """Versions, collectives, attention kernels, those in packages too, and every accelerator, tried out."""
    is_distributed = dist.is_available()
    backends = {"gloo": "is_gloo_available", "nccl": "is_nccl_available"}
    devices = [_device(index) for index in range(torch.cuda.device_count())]
    works = next((device["name"] for device in devices if not device["problem"]), "")
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda or "",
        "hip": torch.version.hip or "",
        "nccl": _nccl_version(),
        "backends": [name for name, asks in backends.items() if is_distributed and getattr(dist, asks)()],
        "start_problem": _fault(torch.cuda.init) if torch.backends.cuda.is_built() else "",
        "has_mps": torch.backends.mps.is_available(),
        "devices": devices,
        "peers": [[_is_peer(one, other) for other in range(len(devices))] for one in range(len(devices))],
        "kernels": {**_fused_kernels(works or ("" if devices else "cpu")), **_packaged_kernels(packages)},
    }


def _device(index: int) -> dict[str, Any]:
    """A GPU's facts, after a sum on it; `problem` says why that failed."""
    facts = {"name": f"cuda:{index}", "title": "", "total_bytes": 0, "free_bytes": 0, "capability": "", "uuid": ""}
    try:
        properties = torch.cuda.get_device_properties(index)
        facts |= {"title": properties.name, "total_bytes": properties.total_memory}
        facts |= {"uuid": str(getattr(properties, "uuid", "")), "capability": f"{properties.major}.{properties.minor}"}
        facts["free_bytes"], _ = torch.cuda.mem_get_info(index)
        # A GPU may be listed and yet have no kernels in this build of torch, or be broken: only work shows that.
        total = torch.ones(1024, device=f"cuda:{index}").sum().item()
    except Exception as error:
        return {**facts, "problem": _words(error)}
    return {**facts, "problem": "" if total == 1024 else f"1024 ones add up to {total:g}"}


def _is_peer(one: int, other: int) -> bool:
    try:
        return one != other and torch.cuda.can_device_access_peer(one, other)
    except Exception:
        return False


def _nccl_version() -> str:
    try:
        return ".".join(map(str, importlib.import_module("torch.cuda.nccl").version()))
    except Exception:  # a torch without NCCL has no such function either
        return ""


def _fused_kernels(device: str) -> dict[str, str]:
    """{kernel of torch: why it does not run, or ""}."""
    if not device:
        return {}
    kinds = {"flash": SDPBackend.FLASH_ATTENTION}
    if device != "cpu":
        kinds |= {"cuDNN": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    dtype = torch.float32 if device == "cpu" else torch.float16

    def attend(kind: SDPBackend) -> None:
        q = torch.ones(1, 2, 128, 64, device=device, dtype=dtype)  # B H S D
        with sdpa_kernel([kind]):
            torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().item()

    return {name: _fault(attend, kind) for name, kind in kinds.items()}


def _packaged_kernels(packages: Sequence[str]) -> dict[str, str]:
    """Attention kernels of other packages that are installed, tried once each: one built for another torch does not
    import."""
    there = (name for name in packages if importlib.util.find_spec(name) is not None)
    return {name: _fault(importlib.import_module, name) for name in there}


def _fault(action: Callable[..., object], *given: Any) -> str:
    """What it fails with; "" where it does not."""
    try:
        action(*given)
    except Exception as error:
        return _words(error)
    return ""


def _words(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


if __name__ == "__main__":
    main()
