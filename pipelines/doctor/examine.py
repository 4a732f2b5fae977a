"""`latentloom doctor`: what of this machine keeps latentloom from working or from being fast, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...parallel.machine.deadline import within
from ...parallel.machine.machine import Machine, read_machine
from .devices import examine_devices
from .finding import Finding
from .packages import examine_packages
from .system import system_checks

if TYPE_CHECKING:
    from ...parallel.pool.trial import Tried

PROBE_S = 120.0  # eight cold GPUs behind a cold file system take most of a minute
CHECK_S = 10.0
Check = Callable[[], list[Finding]]


def examine(
    *, cache_dir: Path | None, data_dir: Path | None = None, trial: Callable[[], Tried] | None = None
) -> list[Finding]:
    """Look at everything; nothing raises or hangs. `trial` starts ranks for a moment, keeps a deadline, and says how it
    went, or raises."""
    found = looked_at("packages", examine_packages, timeout_s=CHECK_S)
    try:
        machine = within(lambda: read_machine(timeout_s=PROBE_S), timeout_s=PROBE_S + CHECK_S)
    except Exception as error:
        machine = Machine(torch=None, problem=_words(error))
    found += looked_at("devices", lambda: examine_devices(machine), timeout_s=CHECK_S)
    for name, check in system_checks(cache_dir=cache_dir, data_dir=data_dir, num_gpus=len(machine.devices)).items():
        found += looked_at(name, check, timeout_s=CHECK_S)

    def tried(trial: Callable[[], Tried]) -> list[Finding]:
        how = trial()
        return [Finding(check="trial", state="warning" if how.mend else "ok", says=how.says, mend=how.mend)]

    return found if trial is None else found + looked_at("trial", lambda: tried(trial), timeout_s=PROBE_S)


def try_ranks() -> Tried:
    """Start a rank on each device for a moment, as those of the built-in model are started."""
    from ...parallel.pool.trial import trial
    from ..models.describe import describe_model
    from ..place import trial_devices
    from ..pools import preloads

    return trial(trial_devices(), preload=preloads(describe_model("builtin:bobbin", device="cpu")))


def looked_at(name: str, check: Check, *, timeout_s: float) -> list[Finding]:
    """The findings of a check, or one that says why there are none."""
    try:
        return within(check, timeout_s=timeout_s)
    except TimeoutError as error:
        mend = "look for a hung driver, disk or file server (dmesg, ps), then try again"
        return [Finding(check=name, state="problem", says=f"it could not be looked at: {error}", mend=mend)]
    except Exception as error:  # one check that fails hides none of the others
        mend = "mend what it names; if it is no fault of this machine, report it with the whole output"
        return [Finding(check=name, state="problem", says=f"the check failed: {_words(error)}", mend=mend)]


def as_text(findings: Sequence[Finding]) -> str:
    """A line for each, those to mend with a second line that says how, and a sum at the end."""
    width = max(len(finding.check) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.check:<{width}}  {finding.says}")
        if finding.mend:
            lines.append(f"{'':<{width + 11}}-> {finding.mend}")
    counts = [(sum(finding.state == state for finding in findings), state) for state in ("problem", "warning")]
    words = [f"{count} {state}{'s' if count > 1 else ''}" for count, state in counts if count]
    return "\n".join([*lines, "", ", ".join(words) or "all is well"])


def has_problems(findings: Sequence[Finding]) -> bool:
    return any(finding.state == "problem" for finding in findings)


def _words(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
