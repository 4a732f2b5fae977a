"""What is logged: lines on stderr, for people or as JSON, each with the run that it is about, in the host and in ranks.

Only a process of ours has its log set up so, by `begin`: a program that imports us keeps what it has. Both settings are
environment variables, so that ranks and workers, which inherit them, log alike.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

LEVEL, AS_JSON = "LATENTLOOM_LOG_LEVEL", "LATENTLOOM_LOG_JSON"
LEVELS = ("debug", "info", "warning", "error")

# What this thread works for: `run`, `node`, and in a rank `rank`.
_ABOUT: ContextVar[Mapping[str, Any]] = ContextVar("latentloom_about")


@contextmanager
def about(**told: Any) -> Iterator[None]:
    """Within it what this thread logs is about these. A thread that goes on for it needs a copy of its context."""
    token = _ABOUT.set({**_ABOUT.get({}), **told})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def begin(environment: Mapping[str, str], **told: Any) -> None:
    """Log as the environment says, and what is about no run as about what is `told`; where it says nothing, Python's
    own way stays: warnings, bare. Raises `ValueError` for a level that there is not."""
    level, as_json = environment.get(LEVEL, "").lower(), environment.get(AS_JSON, "") not in ("", "0")
    if level and level not in LEVELS:
        raise ValueError(f"{LEVEL} is {level[:40]!r}; choose {', '.join(LEVELS)}")
    if level or as_json:
        logger, handler = logging.getLogger("latentloom"), logging.StreamHandler()
        handler.setFormatter(LogLines(as_json=as_json, told=told))
        logger.handlers = [*(each for each in logger.handlers if not isinstance(each.formatter, LogLines)), handler]
        logger.setLevel((level or "warning").upper())


class LogLines(logging.Formatter):
    """A record as one line of JSON, `{"time", "level", "message", "logger", "run", "node", "rank", "pid"}` with
    `exception` where there is one; or as words, which a traceback may follow. What says nothing is left out."""

    def __init__(self, *, as_json: bool, told: Mapping[str, Any]) -> None:
        super().__init__()
        self._as_json = as_json
        self._told = told

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        about = {name: value for name, value in {**self._told, **_ABOUT.get({})}.items() if value != ""}
        level, failed = record.levelname.lower(), record.exc_info and self.formatException(record.exc_info)
        if self._as_json:
            plain = {"time": time, "level": level, "message": record.getMessage(), "logger": record.name, **about}
            return json.dumps({**plain, "pid": os.getpid(), **({"exception": failed} if failed else {})})
        where = "".join(f" {name}={value}" for name, value in about.items())
        return f"{time} {level}{where}: {record.getMessage()}" + (f"\n{failed}" if failed else "")
