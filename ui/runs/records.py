"""Runs on the disk: one small record each, and the workflow of each batch once."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import RootModel

from ...nodes.graph.graph import Graph
from ..live.state import RunRecord
from ..store.quota import Quota
from ..store.user_files import ID, put_aside, read_graph_file, read_record, user_folder, write_graph_file, write_record
from .once import Answered

ANSWER = ".answer.json"
Order = RootModel[list[str]]  # the ids of the runs that wait


class RunRecords:
    """Below the server's data folder. Writing raises `ValueError` when the disk does not take it."""

    def __init__(self, data_dir: Path, *, quota: Quota | None = None) -> None:
        self._data_dir = data_dir
        self._order_path = data_dir / "queue.json"
        self.quota = quota or Quota(data_dir)

    def write(self, run: RunRecord) -> None:
        path = self._path(run.user, run.id)
        with self.quota.changing(run.user, "runs", path, count=not path.exists()):
            write_record(path, run)

    def read(self, user: str, id: str) -> RunRecord | None:
        return read_record(self._path(user, id), RunRecord)

    def remove(self, user: str, id: str) -> None:
        path = self._path(user, id)
        with self.quota.changing(user, "runs", path, count=-path.exists()):
            path.unlink(missing_ok=True)

    def all(self) -> Iterator[RunRecord]:
        for path in sorted(self._data_dir.glob("users/*/runs/[!.]*.json")):
            run = read_record(path, RunRecord)
            if run is not None and self._path(run.user, run.id) == path and ID.fullmatch(run.batch):
                yield run
            elif run is not None:
                put_aside(path, ValueError("it belongs elsewhere"))

    def write_graph(self, user: str, batch: str, graph: Graph) -> None:
        with self.quota.changing(user, "runs", path := self._graph_path(user, batch)):
            write_graph_file(path, graph)

    def read_graph(self, user: str, batch: str) -> Graph | None:
        """The workflow of a batch, before the values of its runs are put in."""
        return read_graph_file(self._graph_path(user, batch))

    def remove_graph(self, user: str, batch: str) -> None:
        """And the answer to the key by which it was asked for."""
        paths = self._graph_path(user, batch), self._answer_path(user, batch)
        with self.quota.changing(user, "runs", *paths):
            for path in paths:
                path.unlink(missing_ok=True)

    def write_answer(self, answered: Answered) -> None:
        path = self._answer_path(answered.user, answered.answer.batch)
        with self.quota.changing(answered.user, "runs", path):
            write_record(path, answered)

    def answers(self) -> Iterator[Answered]:
        for path in sorted(self._data_dir.glob(f"users/*/batches/[!.]*{ANSWER}")):
            if (answered := read_record(path, Answered)) is not None:
                yield answered

    def is_answered(self, run: RunRecord) -> bool:
        """Whether whoever asked for it with a key may have been answered."""
        return not run.is_keyed or self._answer_path(run.user, run.batch).exists()

    def write_order(self, ids: Iterable[str]) -> None:
        """The order of the queue, all users together."""
        write_record(self._order_path, Order([*ids]))

    def read_order(self) -> list[str]:
        """Empty where it was lost: then the time of their making orders the runs."""
        order = read_record(self._order_path, Order)
        return order.root if order else []

    def _path(self, user: str, id: str) -> Path:
        return user_folder(self._data_dir, user) / "runs" / f"{id}.json"

    def _graph_path(self, user: str, batch: str) -> Path:
        return user_folder(self._data_dir, user) / "batches" / f"{batch}.json"

    def _answer_path(self, user: str, batch: str) -> Path:
        return self._graph_path(user, batch).with_suffix(ANSWER)
