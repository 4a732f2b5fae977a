"""The order in which runs wait, all users together."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class RunQueue:
    """Every change is handed to `keep` before it holds; not for several threads at a time."""

    def __init__(self, keep: Callable[[Sequence[str]], None]) -> None:
        self._keep = keep
        self._users: dict[str, str] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._users)

    def count(self, user: str) -> int:
        return sum(owner == user for owner in self._users.values())

    def add(self, entries: Sequence[tuple[str, str]]) -> None:
        """(id, user) at the end."""
        self._change({**self._users, **dict(entries)})

    def take(self) -> str | None:
        """The first, which then waits no more; nothing is kept, since its own record says that it began."""
        if not self._users:
            return None
        id = next(iter(self._users))
        del self._users[id]
        return id

    def remove(self, id: str) -> None:
        if id in self._users:
            self._change({each: user for each, user in self._users.items() if each != id})

    def move(self, id: str, before: str | None, user: str) -> None:
        """Among the user's own places: everybody else's run stays where it is."""
        mine = [each for each, owner in self._users.items() if owner == user and each != id]
        mine.insert(mine.index(before) if before in mine else len(mine), id)
        order = iter(mine)
        self._change(
            dict((next(order), user) if owner == user else (each, owner) for each, owner in self._users.items())
        )

    def _change(self, users: dict[str, str]) -> None:
        self._keep(tuple(users))
        self._users = users
