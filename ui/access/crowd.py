"""Who is connected, by address, and who has to make room when there are too many.

Whoever asked for nothing for longest does, so that those who only hold connections keep nobody out who asks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connections import Connection

LOOK_S = 1.0  # how often ended websockets are looked for, at most


@dataclass(frozen=True, kw_only=True)
class Patience:
    """What is allowed to all who connect."""

    header_s: float = 10.0  # for a whole request header, and for the rest of a body that is not read any more
    body_window_s: float = 10.0
    body_rate: float = 1024.0  # bytes a second that a body brings at least, in each window
    unread_s: float = 60.0  # for reading the next piece of an answer
    per_address: int = 512
    in_all: int = 4096
    trusted: tuple[str, ...] = ()  # proxies: many users stand behind one, so only the limit for all holds


class ConnectionGroup:
    """Connections, and which of them asked for nothing for longest."""

    def __init__(self) -> None:
        self.members: set[Connection] = set()
        self._fresh: OrderedDict[Connection, None] = OrderedDict()
        self._answered: OrderedDict[Connection, None] = OrderedDict()

    def add(self, new: Connection) -> None:
        self.members.add(new)
        self._fresh[new] = None

    def answered(self, each: Connection) -> None:
        self._fresh.pop(each, None)
        self._answered[each] = None
        self._answered.move_to_end(each)

    def discard(self, gone: Connection) -> None:
        self.members.discard(gone)
        self._fresh.pop(gone, None)
        self._answered.pop(gone, None)

    def make_room(self) -> bool:
        """Cut the one that waits for longest; those that never asked for anything go first."""
        for line in (self._fresh, self._answered):
            while line:
                first, _ = line.popitem(last=False)
                if first.is_idle:
                    first.leave_room()
                    return True
        return False


class Crowd:
    """All connections of a server; belongs to its event loop."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self._all = ConnectionGroup()
        self._by_address: dict[str, ConnectionGroup] = {}
        self._looked = 0.0

    def admit(self, new: Connection) -> bool:
        """Whether there is room: who asks is let in before who only waits, so half sent headers keep nobody out."""
        self._forget_websockets(new.loop.time())
        limits = [(self._all, self.patience.in_all)]
        if not new.is_proxy and (own := self._by_address.get(new.address)) is not None:
            # first: who makes room at his own address makes it among all, too
            limits.insert(0, (own, self.patience.per_address))
        if not all(len(group.members) < most or group.make_room() for group, most in limits):
            return False
        self._all.add(new)
        self._by_address.setdefault(new.address, ConnectionGroup()).add(new)
        return True

    def answered(self, each: Connection) -> None:
        for group in self._groups_of(each):
            group.answered(each)

    def leave(self, gone: Connection) -> None:
        for group in self._groups_of(gone):
            group.discard(gone)
        own = self._by_address.get(gone.address)
        if own is not None and not own.members:
            del self._by_address[gone.address]

    def _groups_of(self, each: Connection) -> tuple[ConnectionGroup, ...]:
        return (self._all, self._by_address[each.address]) if each in self._all.members else ()

    def _forget_websockets(self, now: float) -> None:
        # a websocket has a protocol of its own, which does not tell here that it ended
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        for each in [each for each in self._all.members if each.is_websocket and each.transport.is_closing()]:
            self.leave(each)
