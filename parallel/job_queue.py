"""A fair queue: owners take turns, each owner's jobs in order; a job that is tried again goes first."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from .job import Job


class JobQueue:
    def __init__(self) -> None:
        self._again: deque[Job] = deque()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()

    def put(self, job: Job) -> None:
        self._waiting.setdefault(job.work.owner, deque()).append(job)

    def put_again(self, job: Job) -> None:
        self._again.append(job)

    def take(self, fits: Callable[[Job], bool] = lambda job: True) -> Job | None:
        """The next job that fits; its owner goes to the end of the line."""
        if (job := next(filter(fits, self._again), None)) is not None:
            self._again.remove(job)
            return job
        for owner, jobs in self._waiting.items():
            if (job := next(filter(fits, jobs), None)) is not None:
                jobs.remove(job)
                del self._waiting[owner]
                if jobs:
                    self._waiting[owner] = jobs
                return job
        return None

    def remove(self, job: Job) -> bool:
        """Whether it was waiting here."""
        for jobs in (self._again, *self._waiting.values()):
            if job in jobs:
                jobs.remove(job)
                self._waiting = OrderedDict((owner, left) for owner, left in self._waiting.items() if left)
                return True
        return False

    def __iter__(self) -> Iterator[Job]:
        yield from self._again
        for jobs in self._waiting.values():
            yield from jobs
