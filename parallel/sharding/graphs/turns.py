"""Compiling in turn: of the ranks that want the same graph one compiles it, and the others read it from the disk.

A graph names its device with its number, for us as for torch: ranks on CPUs take turns, and so do processes that use
one GPU, but the GPUs of a machine compile side by side the first time.

Torch's inductor keeps what it compiled in a folder and looks there first. The folder is the user's own (0700), where
torch's, in the folder for temporary files, may be made by somebody else first. It is named after all that its contents
depend on and torch does not look at, so that a home that machines share does no harm.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...machine.folders import locked, private, private_folder, text_of

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("latentloom")
# For another process's compiler. Less than the pool allows a first step (`Limits.work_s`), so that this one has time
# to compile by itself then.
WAIT_S = 600.0
VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def in_turn(graph: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    """A backend of `torch.compile`: inductor, with its cache in `cache_folder`, one process a graph at a time."""
    from torch._dynamo.backends.registry import lookup_backend

    folder = _use(os.environ.get(VARIABLE))
    with _turn(folder / f"turn-{_name_of(graph)}"):
        return _below_autograd(lookup_backend("inductor")(graph, list(inputs)))


def _below_autograd(run: Callable[..., Any]) -> Callable[..., Any]:
    # Without gradients no operator of the graph asks for them, as torch's own collectives would, each time, in Python.
    def below(*args: Any) -> Any:
        if torch.is_grad_enabled():
            return run(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return run(*args)

    return below


def cache_folder() -> Path:
    """This user's folder for compiled graphs, made if need be; a new one for this process if it cannot be kept safe."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "latentloom" / f"compiled-{_machine()}"
    try:
        for each in (folder.parent, folder):
            private_folder(each)
            _check_own(each)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        other = tempfile.mkdtemp(prefix="latentloom-compiled-")
        logger.warning("compiled graphs are not kept for later: %s; this process has them in %s", error, other)
        return Path(other)
    return folder


def _use(named: str | None) -> Path:
    """The folder that inductor uses from now on: one that the user has named, else ours."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    # One that the user has named stays; torch puts its own into the environment, too.
    if named and Path(named) != Path(default_cache_dir()):
        return Path(named)
    found = _folder()
    os.environ[VARIABLE] = str(found)
    return found


_folder = functools.cache(cache_folder)


def _check_own(folder: Path) -> None:
    """OSError for a folder that somebody else can write to: shared objects are loaded from it."""
    found = os.lstat(folder)
    if folder.is_symlink() or found.st_uid != os.getuid():
        raise OSError(f"{folder} is a link or somebody else's")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def _machine() -> str:
    """What compiled code depends on, as a short name: versions, processor, device."""
    what = [torch.__version__, platform.python_version(), platform.machine(), _processor()]
    if torch.cuda.is_available():
        what += [torch.cuda.get_device_name(), str(torch.version.cuda or torch.version.hip)]
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]


def _processor() -> str:
    """The processor's name and instructions, as Linux tells; elsewhere what Python knows of it."""
    lines = text_of(Path("/proc/cpuinfo")).splitlines()
    told = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return "\n".join(sorted(told)) if lines else platform.processor()


def _name_of(graph: torch.fx.GraphModule) -> str:
    told = graph.print_readable(print_output=False, include_stride=True, include_device=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Alone until the graph of this file was compiled once; afterwards all read it side by side."""
    with contextlib.ExitStack() as stack:
        lock = None
        if not _is_done(path) and os.name == "posix":  # elsewhere there are no ranks
            lock = stack.enter_context(open(path, "ab", opener=private))
            if not locked(lock.fileno(), wait_s=WAIT_S):
                logger.warning("another process has compiled for %.0f s; this one does so too", WAIT_S)
                lock = None
            elif _is_done(path):
                stack.close()
                lock = None
        yield
        if lock is not None:  # not where compiling failed: the next one that wants the graph has its turn then
            lock.write(b"done")


def _is_done(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
