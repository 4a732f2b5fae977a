"""The process that talks to the hub: one order in, lines of JSON out, gone with its host.

Run by `child.py`. It is a process of its own because a hub that hangs, or a client that waits, can be ended at once
only with its process.
"""

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from ...parallel.wording import worded

TELL_S = 1.0  # between two lines about bytes
LOOK_BYTES = 4 << 30  # of address space, for what a hub tells of a model: all of it is read at once
TELLING = threading.Lock()


def main() -> None:
    orders, answers = sys.stdin, os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("w") as nothing:  # what libraries print is no answer, and may quote what was asked
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    order = json.loads(orders.readline())
    threading.Thread(target=_end_with, args=(orders,), name="latentloom host", daemon=True).start()
    from ...parallel.errors import LoomError, code_of

    try:
        told = _obey(order, answers)
    except ValueError as error:
        told = {"error": str(error), "code": code_of(error)}
    except Exception as error:
        why = worded("the hub's client failed ({}); try again", type(error).__name__)
        told = {"error": why, "code": LoomError.code}
    _tell(answers, told)
    os._exit(0)  # threads of the client may wait for the hub yet


def _obey(order: dict[str, Any], answers: IO[str]) -> dict[str, Any]:
    from ..values import from_plain, to_plain
    from .fetching import CHUNK_BYTES, fetch
    from .look import HubModel, look

    if order["what"] == "look":
        if sys.platform == "linux":
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (LOOK_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
        return {"model": to_plain(look(order["id"], order["revision"], Path(order["folder"])))}
    from huggingface_hub import constants

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES  # pyrefly: ignore[bad-assignment]
    newest: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    threading.Thread(target=_tell_newest, args=(newest, answers), name="latentloom bytes", daemon=True).start()
    model, cache = from_plain(HubModel, order["model"]), Path(order["cache"])
    return {"folder": str(fetch(model, cache, lambda size, count: newest.put((size, count))))}


def _tell_newest(newest: queue.SimpleQueue[tuple[int, int]], answers: IO[str]) -> None:
    """Now and again, and at last what there was before nothing came any more."""
    while True:
        num_bytes, num_files = newest.get()
        while not newest.empty():
            num_bytes, num_files = newest.get()
        _tell(answers, {"bytes": num_bytes, "files": num_files})
        time.sleep(TELL_S)


def _tell(answers: IO[str], told: dict[str, Any]) -> None:
    from ...parallel.wording import with_words

    try:
        with TELLING:
            answers.write(json.dumps(with_words(told)) + "\n")
            answers.flush()
    except OSError:  # the host is gone
        os._exit(1)


def _end_with(orders: IO[str]) -> None:
    """The host's end of the pipe closes when the host dies, however it does."""
    orders.read()
    os._exit(1)


if __name__ == "__main__":
    main()
