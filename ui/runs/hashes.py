"""The full sha256 of the weights behind a result: asked for, read in the background, one model at a time.

What was read is kept by path, size and times of change, so that the same files are read once.
"""

import hashlib
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import RootModel

from ...nodes.execution.models_used import ModelFacts, name_of, weights_of
from ...parallel.errors import Cancelled
from ...pipelines.models.regular_file import check_regular, open_regular
from ...pipelines.models.source import resolve_source
from ...pipelines.models.tensor_file import TensorFile
from ...pipelines.values import Model
from ..contract.run import FileHash, Hashing
from ..errors import NotHere
from ..settings import Settings
from ..store.user_files import fresh_id, read_record, write_record
from .runs import Runs

logger = logging.getLogger("latentloom")

CHUNK_BYTES = 8 << 20
MOST_UNDER_WAY = 4  # of one user: each may read hundreds of GiB
MOST_JOBS = 256
MOST_KEPT = 4096  # files whose hashes are remembered
Kept = RootModel[dict[str, str]]  # of each its hash, by its mark


@dataclass
class _Job:
    """Its state changes in the thread that reads it, or as it is cancelled before."""

    user: str
    files: Sequence[tuple[TensorFile, str]]  # each with its name, which tells no path of the server
    told: Hashing  # as its user is told of it
    cancel: threading.Event = field(default_factory=threading.Event)
    reading: Future[None] = field(init=False)

    @property
    def is_under_way(self) -> bool:
        return self.told.state in ("waiting", "running")

    def put(self, **update: Any) -> None:
        self.told = self.told.model_copy(update=update)


class Hashes:
    """Threads share it. `close` it."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self._settings = settings
        self._runs = runs
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "hashes")
        self._jobs: dict[str, _Job] = {}
        self._kept_path = settings.data_dir / "hashes.json"
        self._kept = (read_record(self._kept_path, Kept) or Kept({})).root

    def ask(self, user: str, run: str, node: str) -> Hashing:
        """Begin to read a node's model. Raises `NotHere`, and `ValueError` where it may not be read, or is another."""
        facts = self._runs.get(user, run).models.get(node)
        if facts is None:
            raise NotHere(f"nothing is kept of a model of {node[:64]} in this run; choose one that loads a model")
        files = self._files(user, facts)
        paths = [file.path for file, _ in files]
        with self._lock:
            under_way = [job for job in self._jobs.values() if job.user == user and job.is_under_way]
            if same := next((job for job in under_way if [file.path for file, _ in job.files] == paths), None):
                return same.told
            if len(under_way) >= MOST_UNDER_WAY:
                raise ValueError(f"{len(under_way)} models are being hashed for you; wait for one, or cancel it")
            while len(self._jobs) >= MOST_JOBS:
                oldest = next((id for id, each in self._jobs.items() if not each.is_under_way), "")
                if not oldest:
                    raise ValueError("too many models are being hashed on this server; try again later")
                del self._jobs[oldest]
            total = sum(file.size_bytes for file, _ in files)
            told = Hashing(
                id=fresh_id(), source=facts.source, state="waiting", done_bytes=0, total_bytes=total, files=(), error=""
            )
            self._jobs[told.id] = job = _Job(user, files, told)
            job.reading = self._thread.submit(self._work, job)
        return told

    def get(self, user: str, id: str) -> Hashing:
        return self._find(user, id).told

    def cancel(self, user: str, id: str) -> None:
        """What is over stays as it is. Raises `NotHere`."""
        job = self._find(user, id)
        job.cancel.set()
        if job.reading.cancel():
            job.put(state="cancelled")

    def close(self) -> None:
        with self._lock:
            for job in self._jobs.values():
                job.cancel.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _find(self, user: str, id: str) -> _Job:
        with self._lock:
            job = self._jobs.get(id)
        if job is None or job.user != user:
            raise NotHere("this hash is not under way any more; ask for it again")
        return job

    def _files(self, user: str, facts: ModelFacts) -> list[tuple[TensorFile, str]]:
        """Raises `ValueError` where the model may not be read, or its files are others by now."""
        roots = self._settings.roots(user)
        found = resolve_source(facts.source, revision=facts.revision, roots=roots)
        model = Model(source=found.id, folder=str(found.folder), family=facts.family)
        files = weights_of(model, roots=roots if found.is_local else None)
        headers = {hashlib.sha256(file.header).hexdigest() for file in files}
        if not files or any(file.header_sha256 not in headers for file in facts.files):
            raise ValueError(
                f"the files of {facts.source} are not those of this run any more; put them back to hash them"
            )
        return [(file, name_of(file, found.folder)) for file in files]

    def _work(self, job: _Job) -> None:
        job.put(state="running")
        try:
            for file, name in job.files:
                found = FileHash(name=name, num_bytes=file.size_bytes, sha256=self._hash(job, file.path))
                job.put(files=(*job.told.files, found))
            state, error = "done", ""
        except Cancelled:
            state, error = "cancelled", ""
        except OSError as failure:
            state, error = "failed", f"a file could not be read ({failure.strerror or failure}); try again"
        job.put(state=state, error=error)

    def _hash(self, job: _Job, path: Path) -> str:
        """Raises `Cancelled`, and `OSError`."""
        mark = _mark(path)
        if (known := self._kept.get(mark)) is not None:
            job.put(done_bytes=job.told.done_bytes + path.stat().st_size)
            return known
        digest = hashlib.sha256()
        with open_regular(path) as file:
            while chunk := file.read(CHUNK_BYTES):
                if job.cancel.is_set():
                    raise Cancelled
                digest.update(chunk)
                job.put(done_bytes=job.told.done_bytes + len(chunk))
        if _mark(path) == mark:  # else it was written meanwhile, and the digest is of no file that there was
            self._kept[mark] = digest.hexdigest()
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            try:
                write_record(self._kept_path, Kept(self._kept))
            except ValueError as error:  # they are read again after a restart
                logger.warning("the hashes of models were not kept: %s", error)
        return digest.hexdigest()


def _mark(path: Path) -> str:
    found = check_regular(path)
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} {path}"
