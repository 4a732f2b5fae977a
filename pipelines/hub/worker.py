"""The process that talks to the hub: one order in, lines of JSON out, gone with its host.

Run by `child.py`. It is a process of its own because a hub that hangs, or a client that waits, can be ended at once
only with its process.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ...parallel.wording import worded

if TYPE_CHECKING:
    from .look import HubFile, HubModel

TELL_S = 1.0  # between two lines about bytes
NUM_AT_A_TIME = 8  # headers: a large model's weights are in dozens of files
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

    if order["what"] != "fetch" and sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (LOOK_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if order["what"] == "look":
        return {"model": to_plain(look(order["id"], order["revision"], Path(order["folder"])))}
    if order["what"] == "outline":
        _outline(order["id"], order["revision"], Path(order["folder"]))
        return {}
    from huggingface_hub import constants

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES  # pyrefly: ignore[bad-assignment]
    newest: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    threading.Thread(target=_tell_newest, args=(newest, answers), name="latentloom bytes", daemon=True).start()
    model, cache = from_plain(HubModel, order["model"]), Path(order["cache"])
    return {"folder": str(fetch(model, cache, lambda size, count: newest.put((size, count))))}


def _outline(model_id: str, revision: str, folder: Path) -> None:
    """Make of an empty folder one that says all that is asked of a model before it runs: of weights the headers."""
    from concurrent.futures import ThreadPoolExecutor

    from ..models.folder import INDEX, MODULAR_INDEX
    from ..models.outlines import SIZES_FROM
    from ..models.regular_file import read_object
    from .look import NotFetched, in_our_words, look

    model = look(model_id, revision, folder)
    if model.problem:
        raise NotFetched(model.problem, code=model.code)
    with in_our_words(model_id, revision), ThreadPoolExecutor(NUM_AT_A_TIME) as threads:
        list(threads.map(lambda file: _outline_file(model, file, folder), model.files))
    index = next(each for each in (folder / INDEX, folder / MODULAR_INDEX) if each.exists())
    named = {**read_object(index, what="the index"), SIZES_FROM: f"the headers of {model_id}@{model.commit[:8]}"}
    index.write_text(json.dumps(named))


def _outline_file(model: HubModel, file: HubFile, folder: Path) -> None:
    from ..models.tensor_file import MAX_HEADER_BYTES
    from .look import NotFetched, keep_small, open_hub

    target = folder / file.name
    target.parent.mkdir(exist_ok=True)
    if target.suffix == ".safetensors":
        found = open_hub().parse_safetensors_file_metadata(model.id, file.name, revision=model.commit)
        said = ("dtype", "shape", "data_offsets")
        told = {name: {key: getattr(each, key) for key in said} for name, each in found.tensors.items()}
        header = json.dumps({"__metadata__": found.metadata, **told}).encode()
        with target.open("xb") as opened:
            opened.write(len(header).to_bytes(8, "little") + header)
            # the weights are a hole, which takes no room on most disks
            opened.truncate(opened.tell() + max((each.data_offsets[1] for each in found.tensors.values()), default=0))
    elif target.name.endswith(("config.json", "index.json")) or (target.suffix == ".json" and "/" not in file.name):
        if file.num_bytes > MAX_HEADER_BYTES:
            raise NotFetched("{} of {} has {} bytes, which is too large", file.name, model.id, file.num_bytes)
        keep_small(model, file, folder)
    else:  # words of tokenizers, of which only is asked whether they are there
        target.write_text("{}")


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
