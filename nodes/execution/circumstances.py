"""The circumstances of a run, on which no result depends: when, by which command, on which machine, as whose job.

A command is told without secrets: what stands behind a name such as `token` or `api_key`, and who logs in by a URL.
"""

import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ...parallel.machine.machine import driver_version
from ...pipelines.values import Place

HIDDEN = "***"
_SECRET = r"(?:(?:api|access)?keys?|tokens?|pass(?:word|wd|phrase)?|secrets?|auth(?:orization)?|credentials?|bearer)"
# A name of which one word is one of these: `--hf-token`, `api_key`, `load.password`, but not `monkey`.
_NAME = rf"(?<![A-Za-z0-9])(?:[\w.-]*[_.-])?{_SECRET}(?:[_.-][\w.-]*)?"
_OPTION = re.compile(rf"--?{_NAME}", re.IGNORECASE)
# What is hidden, behind what stays: of a setting or an option all of it, then in a URL's query, its login, a header.
_HIDES = (
    re.compile(rf"\A((?:--?[\w-]+=|--?)?{_NAME}\s*=).+", re.IGNORECASE | re.DOTALL),
    re.compile(rf"([?&;]{_NAME}=)[^&;#\s]+", re.IGNORECASE),
    re.compile(r"(://)[^/\s]+(?=@)"),
    re.compile(r"\b((?:bearer|basic) +)[^\s\"',]+", re.IGNORECASE),
)

# What a scheduler calls this process, by our names for it: in which of these variables it says so.
SCHEDULERS: Mapping[str, Mapping[str, str]] = {
    "slurm": {"job": "SLURM_JOB_ID", "array_job": "SLURM_ARRAY_JOB_ID", "array_task": "SLURM_ARRAY_TASK_ID"}
    | {"restarts": "SLURM_RESTART_COUNT"},
    "kubernetes": {"pod": "POD_NAME", "namespace": "POD_NAMESPACE", "completion_index": "JOB_COMPLETION_INDEX"},
    "openjd": {"session": "OPENJD_SESSION_WORKING_DIR"},
}


def job_of(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What schedulers call this process, by the scheduler; empty where none has started it."""
    if "KUBERNETES_SERVICE_HOST" in environment and "HOSTNAME" in environment:  # of a pod, whose name that is
        environment = {"POD_NAME": environment["HOSTNAME"], **environment}
    found = {
        kind: {name: environment[key] for name, key in names.items() if environment.get(key)}
        for kind, names in SCHEDULERS.items()
    }
    return {kind: told for kind, told in found.items() if told}


JOB = job_of(os.environ)  # it stays while this process lives


def without_secrets(command: Sequence[str]) -> list[str]:
    """A command as it may be kept."""
    told: list[str] = []
    for word, before in zip(command, ["", *command], strict=False):
        is_secret = _OPTION.fullmatch(before) and not word.startswith("--")
        for pattern in _HIDES:
            word = pattern.sub(rf"\g<1>{HIDDEN}", word)
        told.append(HIDDEN if is_secret else word)
    return told


def circumstances(*, started: datetime, place: Place, command: Sequence[str] | None) -> dict[str, Any]:
    """Of a run that ends now; its place is that for which it was asked, its command None outside the command line."""
    times = {"started": started, "ended": datetime.now(UTC)}
    torch = sys.modules.get("torch")  # where nobody has loaded it, the run had no use for it
    version = getattr(torch, "version", None)
    return {
        **{name: time.isoformat(timespec="milliseconds") for name, time in times.items()},
        "command": None if command is None else without_secrets(command),
        "machine": {
            "name": platform.node(),
            "platform": platform.platform(),
            "driver": driver_version() or None,
            "cuda": getattr(version, "cuda", None),
        },
        "job": JOB,
        "place": {**asdict(place), "cluster": without_secrets([place.cluster])[0]},
    }
