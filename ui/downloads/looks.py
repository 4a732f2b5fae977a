"""What users were shown of models on the hub: that alone can they ask for, at that commit, and where there is room."""

import threading
from collections import OrderedDict

from ...parallel.wording import worded
from ...pipelines.hub.child import LOOK_S, looked_at
from ...pipelines.hub.fetching import free_bytes, had_bytes
from ...pipelines.hub.look import HubModel, NotFetched
from ...pipelines.models.source import home_of, hub_cache
from ..errors import Conflict
from ..store.quota import FREE_BYTES, Quota, sized

MOST_AT_ONCE = 4  # of all users; each has one
MOST_KEPT = 32  # of each user


class Looks:
    """Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._seen: OrderedDict[tuple[str, str, str], HubModel] = OrderedDict()  # by user, id and revision

    def look(self, user: str, model_id: str, revision: str) -> HubModel:
        """Asks the hub. Raises `NotFetched` where it tells nothing, and `Conflict` where it is being asked already."""
        with self._lock:
            if user in self._under_way or len(self._under_way) >= MOST_AT_ONCE:
                raise Conflict("the hub is being asked already; wait for its answer, then look again")
            self._under_way.add(user)
        try:
            model = looked_at(model_id, revision, timeout_s=LOOK_S)
        finally:
            with self._lock:
                self._under_way.discard(user)
        with self._lock:
            self._seen[user, model_id, revision] = model
            self._seen.move_to_end((user, model_id, revision))
            own = [each for each in self._seen if each[0] == user]
            for oldest in own[:-MOST_KEPT]:
                del self._seen[oldest]
        return model

    def seen(self, user: str, model_id: str, revision: str, *, commit: str) -> HubModel:
        """What this user was shown. Raises `Conflict` where it is not of this commit, `NotFetched` with its problem."""
        with self._lock:
            model = self._seen.get((user, model_id, revision))
        if model is None or model.commit != commit:
            raise Conflict(worded("look at {} first: its licence and its size as they are now", model_id[:200]))
        if model.problem:
            error = NotFetched(model.problem)
            error.code = model.code
            raise error
        return model


def why_no_room(quota: Quota, user: str, model: HubModel, *, counted_bytes: int) -> str:
    """Empty where there is room. `counted_bytes` of it count against the user already."""
    room = quota.room(user, "models")
    if room is not None and model.num_bytes - counted_bytes > room:
        return worded(
            "{} takes {}, and you may keep {} more; delete what you no longer need, or ask who runs this server",
            model.id,
            sized(model.num_bytes),
            sized(room),
        )
    left = model.num_bytes - had_bytes(home_of(hub_cache(), model.id), model)
    return why_no_disk(model, left) if left else ""


def why_no_disk(model: HubModel, left: int) -> str:
    """Why the disk does not take so many bytes more; empty where it does."""
    free = free_bytes(hub_cache())
    if free - left >= FREE_BYTES:
        return ""
    return worded(
        "{} of {} are to be fetched, and the server's disk has {} left, of which {} stay free; "
        "tell who runs this server",
        sized(left),
        model.id,
        sized(free),
        sized(FREE_BYTES),
    )
