"""Ranks that remember which process groups they have joined and left."""

from collections.abc import Mapping
from typing import Any

from latentloom.parallel.ranks.membership import Membership
from latentloom.parallel.ranks.seat import World

done: list[str] = []
join, leave = Membership.join, Membership.leave


def noted_join(self: Membership, world: World, rank: int, **options: Any) -> None:
    join(self, world, rank, **options)
    done.append(world.name)


def noted_leave(self: Membership) -> None:
    if self._is_joined:
        done.append("left")
    leave(self)


def joined(request: Mapping[str, Any], progress: Any, seat: Any) -> list[str]:
    return done


Membership.join, Membership.leave = noted_join, noted_leave  # type: ignore[method-assign]
