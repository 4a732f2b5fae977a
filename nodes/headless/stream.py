"""The lines of JSON that a command prints for programs: one object a line, each with a version, a number and its time.

What they hold is in the schema beside this: an `event`, a `result` (of a run, or of what was refused), or a `sweep`,
which is the last line of one; `manifest` is of the file that a run leaves. Keys may come; those that are there stay.
"""

import itertools
import json
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...parallel.errors import as_told, code_of

SCHEMA_FILE = Path(__file__).with_name("stream.schema.json")
SCHEMAS = ("line", "event", "result", "sweep", "manifest")
STREAM = 1  # the version of the lines: in another one, keys that were there may mean something else
_numbers = itertools.count(1)
_printing = threading.Lock()  # runs that overlap tell of their events from threads of their own


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one of `SCHEMAS`; a line is any that a command prints."""
    whole = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return whole if name == "line" else {**whole, "title": f"latentloom {name}", "oneOf": [{"$ref": f"#/$defs/{name}"}]}


def print_line(plain: Mapping[str, Any]) -> None:
    with _printing:
        told = {"v": STREAM, "seq": next(_numbers), "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        print(json.dumps({**told, **plain}), flush=True)


def print_nothing() -> None:
    """From now on: the reader went away, of which Python would complain once more when it ends."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (as long as the process lives)


def print_end(error: BaseException) -> None:
    """The line of what ended a command before it had a result."""
    told = as_told(code_of(error))
    state = "refused" if isinstance(error, ValueError) else "cancelled" if told["where"] == "user" else "failed"
    print_line({"kind": "result", "state": state, "error": str(error) or "cancelled", **told})
