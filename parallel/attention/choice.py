"""Which attention kernel a rank uses: the fastest exact one of its architecture that was seen to work there.

A kernel may be there and not work: built for another torch, CUDA or GPU. So each is tried once for each process, by a
tiny call whose answers and log-sum-exp are compared with plain attention, and one that fails is left out with the
reason, in the log and in what `latentloom doctor` says of its trial. In a pool only the first rank of a kind of GPU
does so: the host tells the others what it found, and they `adopt` it.
"""

# B batch, H heads, S queries, T keys, D head width

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from . import kernels
from .kernels import HALF, KERNELS
from .local import attend_plain, attend_with_lse
from .strategy import Kernel

logger = logging.getLogger("latentloom")

# By the major number of NVIDIA's compute capability, before torch's own choice. cuDNN is 1.7 to 2.3 times as fast as
# FlashAttention 2 on Hopper and slower on Ampere and Ada (huggingface/transformers 48163), and faster than
# FlashAttention 4 for diffusion on Blackwell (sgl-project/sglang 33655).
FASTEST: Mapping[int, tuple[str, ...]] = {
    8: ("flash_attn",),
    9: ("flash3", "cudnn", "flash_attn"),
    10: ("cudnn", "flash_attn"),
    11: ("cudnn", "flash_attn"),
    12: ("cudnn", "flash_attn"),
}
NOT_INSTALLED = "not installed"
DTYPES = {str(each): each for each in (torch.float32, *HALF)}
_order = contextlib.ExitStack()  # holds what `prefer` has set
# What was chosen, by trials here or by those of another process.
_found: dict[tuple[torch.device, torch.dtype], KernelChoice] = {}


@dataclass(frozen=True)
class KernelChoice:
    """A kernel, and {another that might have been faster: why it was left out}."""

    kernel: Kernel
    left_out: Mapping[str, str]

    @property
    def is_news(self) -> bool:
        """Whether one that is installed was left out."""
        return any(reason != NOT_INSTALLED for reason in self.left_out.values())

    def __str__(self) -> str:
        left_out = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
        return f"{self.kernel.name} (left out: {left_out})" if left_out else self.kernel.name


@functools.cache
def choose(device: torch.device, dtype: torch.dtype, name: str | Kernel = "auto") -> Kernel:
    """The kernel called `name`, or the fastest exact one that works; tried and told once. One that is given is taken.

    Raises ValueError for a kernel that is asked for and does not work.
    """
    if isinstance(name, Kernel):
        return name
    if name == "auto":
        return chosen(device, dtype).kernel
    check_kernel(name, device.type)
    if reason := fault(name, device, dtype):
        raise ValueError(f"attention kernel {name} does not work on {device}: {reason}; mend it, or choose auto")
    return KERNELS[name]


def check_kernel(name: str, device_type: str) -> None:
    """Raises ValueError for a kernel that is unknown, not installed, or for another device."""
    if name == "auto":
        return
    if name not in KERNELS:
        raise ValueError(f"there is no attention kernel {name!r}; choose auto, {', '.join(KERNELS)}")
    if (name == "cpu_flash") != (device_type == "cpu"):
        raise ValueError(f"attention kernel {name} does not run on {device_type}; choose auto")
    package = KERNELS[name].package
    if not _is_installed(package):
        raise ValueError(f"attention kernel {name} needs the package {package}; install it, or choose auto")


@functools.cache
def chosen(device: torch.device, dtype: torch.dtype) -> KernelChoice:
    """The first candidate that works, the last of them without a trial: there is nothing to take in its place."""
    if (device, dtype) in _found:
        return _found[device, dtype]  # what another rank has tried (`adopt`)
    *tried, last = candidates(device, dtype)
    left_out: dict[str, str] = {}
    for name in tried:
        if not (reason := fault(name, device, dtype)):
            break
        left_out[name] = reason
    else:
        name = last
    choice = _found[device, dtype] = KernelChoice(KERNELS[name], left_out)
    level = logging.WARNING if choice.is_news else logging.INFO
    logger.log(level, "attention kernel on %s, %s: %s", device, dtype, choice)
    return choice


def found(device: torch.device) -> Mapping[str, KernelChoice]:
    """What was chosen on a device so far, by number format."""
    return {str(dtype): choice for (where, dtype), choice in [*_found.items()] if where == device}


def adopt(device: torch.device, dtype: str, name: str, left_out: Mapping[str, str]) -> None:
    """Choose what another process has found on a device of this kind, without a trial.

    Raises ValueError for what cannot have been found: it comes from a file, or its package is gone.
    """
    number = DTYPES.get(dtype)
    names = () if number is None else candidates(device, number)
    if number is None or name not in names or (*left_out,) != names[: names.index(name)]:
        raise ValueError(f"{name[:100]!r} is no choice for {dtype[:100]} on {device}")
    if not _is_installed(KERNELS[name].package):
        raise ValueError(f"attention kernel {name} is not installed any more")
    try:
        with _standing_in(KERNELS[name].stand_in):
            _found[device, number] = KernelChoice(KERNELS[name], left_out)
    except Exception as error:
        raise ValueError(f"attention kernel {name} does not stand in: {_words(error)}") from error


def kind_of(device: torch.device) -> str:
    """What decides which kernel works: the GPU, its driver, and the versions of all that may be tried; "" where nothing
    is tried."""
    if device.type != "cuda":
        return ""
    properties = torch.cuda.get_device_properties(device)
    drivers = [path.read_text().strip() for name in ("nvidia", "amdgpu") if (path := _version_file(name)).exists()]
    libraries = torch.__version__, torch.version.cuda, torch.version.hip, torch.backends.cudnn.version()
    packages = sorted({KERNELS[name].package for names in FASTEST.values() for name in names} - {""})
    versions = [*map(_version, packages), *map(_stamp, (kernels.__file__, __file__))]
    gpu = properties.name, properties.major, properties.minor
    return " ".join(map(str, (*gpu, *drivers, *libraries, *versions)))


def candidates(device: torch.device, dtype: torch.dtype) -> tuple[str, ...]:
    """The kernels to try, the fastest first, the last one works everywhere."""
    if device.type == "cpu":
        return ("cpu_flash",)
    if device.type != "cuda" or not torch.cuda.is_available():  # tensors without data are counted with, not computed
        return ("sdpa",)
    if torch.version.hip:
        return ("flash_attn", "sdpa", "math") if dtype in HALF else ("sdpa", "math")
    major, _ = torch.cuda.get_device_capability(device)
    if major < 8:  # torch's flash kernel needs Ampere
        return ("efficient", "math")
    return (*FASTEST.get(major, ()), "sdpa", "efficient", "math") if dtype in HALF else ("sdpa", "efficient", "math")


@functools.cache
def fault(name: str, device: torch.device, dtype: torch.dtype) -> str:
    """Why a kernel does not work, by one tiny call of each kind; "" if it does."""
    kernel = KERNELS[name]
    if not _is_installed(kernel.package):
        return NOT_INSTALLED
    try:
        with _standing_in(kernel.stand_in):
            _try(kernel, device, dtype)
    except Exception as error:  # whatever a library of somebody else raises when it is imported or called
        return _words(error)
    return ""


def prefer(device: torch.device, *, is_sound: bool | None = None) -> bool:
    """Make cuDNN torch's own first choice, where it is ours, so that a model that is not sharded has it too; whether it
    is now. `is_sound`: whether another process has found that it may be; None, try it."""
    # For a process that is ours: torch keeps one order for all threads of it, and for its life.
    if device.type != "cuda" or choose(device, torch.bfloat16).name != "cudnn" or is_sound is False:
        return False
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kinds = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
    # Torch would give it masks too, and rows in which all is masked: what it answers to those is compared before.
    try:
        before = None if is_sound else _masked_answers(device)
        _order.enter_context(sdpa_kernel([getattr(SDPBackend, kind) for kind in kinds], set_priority=True))
        error = KERNELS["cudnn"].error
        is_same = before is None or torch.allclose(_masked_answers(device), before, atol=error, equal_nan=True)
        reason = "" if is_same else "its masked answers differ from those of torch's other kernels"
    except RuntimeError as error:
        reason = _words(error)
    if reason:
        _order.close()
        logger.warning("cuDNN attends for sharded models only: %s", reason)
    return not reason


def load(device: torch.device) -> None:
    """Have the chosen kernel load its libraries by one tiny call, whatever comes of it; matrix products theirs, too."""
    q, k, v = _sample(device, torch.bfloat16)
    with contextlib.suppress(Exception):
        torch.matmul(q, k.transpose(2, 3))
        attend_with_lse(q, k, v, mask=None, scale=None, kernel=chosen(device, torch.bfloat16).kernel)


@contextlib.contextmanager
def _standing_in(name: str) -> Iterator[None]:
    """Have torch's flash kernel replaced by another, for good unless that fails."""
    # By torch's own switch, of which a process has one: two that stand in would undo each other.
    if not name:
        yield
        return
    from torch.nn import attention

    active = attention.current_flash_attention_impl()
    if active not in (None, name):
        raise RuntimeError(f"{active} stands in for torch's flash kernel already, and a process has one")
    try:
        attention.activate_flash_attention_impl(name)
        yield
    except BaseException:
        if active is None and attention.current_flash_attention_impl() is not None:
            attention.restore_flash_attention_impl()
        raise


def _version_file(driver: str) -> Path:
    return Path(f"/sys/module/{driver}/version")


def _version(package: str) -> str:
    """Of what is installed, also where that has no record: then by when it was."""
    if (spec := importlib.util.find_spec(package)) is None:
        return "none"
    with contextlib.suppress(metadata.PackageNotFoundError):
        return f"{metadata.version(package)} {_stamp(spec.origin)}"
    return _stamp(spec.origin)


def _stamp(file: str | None) -> str:
    return str(Path(file).stat().st_mtime_ns) if file else ""


def _is_installed(package: str) -> bool:
    """Whether a package is there, be it broken."""
    try:
        return not package or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of `flash_attn.cute`, that there is no `flash_attn`
        return False
    except ImportError:  # what is around it was imported, and failed: the trial tells with what
        return True


def _try(kernel: Kernel, device: torch.device, dtype: torch.dtype) -> None:
    """Raises RuntimeError, or what the kernel raises, if it does not give what plain attention gives."""
    q, k, v = _sample(device, dtype)
    some = torch.arange(k.shape[2], device=device)[None, None, None] < 60  # 1 1 1 T
    for mask, num_keys in ((None, 4), (some, 4), (None, 2)):  # as many key heads, or fewer; a kernel may fail at one
        keys, values = k[:, :num_keys], v[:, :num_keys]
        if not kernel.fits(q, keys, values):
            raise RuntimeError("torch does not let it attend here")
        wanted, lse = _attention_by_scores(q, keys, values, mask)
        out = attend_plain(q, keys, values, mask=mask, scale=None, kernel=kernel)
        _compare("answers", out, wanted, kernel.error)
        out, own = attend_with_lse(q, keys, values, mask=mask, scale=None, kernel=kernel)
        _compare("answers with log-sum-exp", out, wanted, kernel.error)
        _compare("log-sum-exp", own, lse, kernel.error)


def _attention_by_scores(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention and its log-sum-exp by the formula, fp32, on the CPU."""
    share = q.shape[1] // k.shape[1]
    q, k, v = q.float().cpu(), *(x.float().cpu().repeat_interleave(share, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5  # B H S T
    if mask is not None:
        scores = scores.masked_fill(~mask.cpu(), -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def _compare(what: str, found: Tensor, wanted: Tensor, error: float) -> None:
    if found.shape != wanted.shape:
        raise RuntimeError(f"its {what} have shape {tuple(found.shape)} instead of {tuple(wanted.shape)}")
    off = float((found.float().cpu() - wanted).abs().max())
    if not off <= error:  # nor is NaN
        raise RuntimeError(f"its {what} differ from plain attention by {off:.2g}")


def _masked_answers(device: torch.device) -> Tensor:
    """Torch's answers where keys are masked: the last ones of all queries, all of the first query."""
    q, k, v = _sample(device, torch.bfloat16)
    mask = (torch.arange(k.shape[2], device=device) < 60).expand(1, 1, q.shape[2], -1).clone()
    mask[:, :, 0] = False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _sample(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v as models lay them out: B H S D, contiguous as B S H D."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, tokens, 4, 64, generator=draw).to(device, dtype) for tokens in (40, 72, 72))
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _words(error: Exception) -> str:
    """One line; the name of a RuntimeError says nothing."""
    text = (str(error).strip() or "no reason given").splitlines()[0][:200]
    return text if type(error) is RuntimeError else f"{type(error).__name__}: {text}"
