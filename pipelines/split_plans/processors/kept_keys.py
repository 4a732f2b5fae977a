"""Keys and values that a pipeline keeps for later forwards: whole on every rank, around the model's own processors."""

from typing import Any

from torch import Tensor

from ....parallel.sharding.operator import in_no_graph
from . import StandIn

GLM_STREAMS = ("text", "image")


class _WholeCache:
    """A layer's cache of keys and values, which keeps and gives whole sequences to a processor that has a part."""

    def __init__(self, cache: Any, session: Any) -> None:
        self.mode = cache.mode
        self._cache = cache
        self._session = session

    def store(self, key: Any, value: Any) -> None:
        self._cache.store(*(self._session.gather(x, 1, *GLM_STREAMS) for x in (key, value)))

    def get(self, key: Any, value: Any) -> Any:
        return self._cache.get(*(self._session.gather(x, 1, *GLM_STREAMS) for x in (key, value)))


class GlmImageKeeping(StandIn):
    """GLM-Image's processor of attention, which keeps pictures to edit: for its caches, sequences are whole."""

    # Named one by one: diffusers drops arguments that it does not find here.
    def __call__(
        self,
        attn: Any,
        hidden_states: Any,
        encoder_hidden_states: Any,
        attention_mask: Any = None,
        image_rotary_emb: Any = None,
        kv_cache: Any = None,
    ) -> Any:
        given = attn, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb
        return self.old(*given, None) if kv_cache is None else self._with_kept(kv_cache, *given)

    @in_no_graph
    def _with_kept(self, kv_cache: Any, *given: Any) -> Any:
        """Collective."""
        if kv_cache.mode == "read":
            self.session.calls = self.session.calls[1:]  # the coming call has its keys whole
        return self.old(*given, _WholeCache(kv_cache, self.session))


class RefinerKeeping(StandIn):
    """SANA-WM's refiner keeps keys and values for later chunks: gathered, since the pipeline trims them by frames."""

    def __call__(  # the attention module passes on what is named here
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        query_rotary_emb: Any = None,
        key_rotary_emb: Any = None,
        sink_rotary_emb: Any = None,
        kv_cache: Any = None,
        kv_cache_mode: str | None = None,
    ) -> Tensor:
        rotary = {"query_rotary_emb": query_rotary_emb, "sink_rotary_emb": sink_rotary_emb}
        if kv_cache_mode is None:
            return self.old(attn, hidden_states, kv_cache=kv_cache, kv_cache_mode=None, **rotary)
        return self._with_kept(attn, hidden_states, kv_cache=kv_cache, kv_cache_mode=kv_cache_mode, **rotary)

    @in_no_graph
    def _with_kept(
        self, attn: Any, hidden_states: Tensor, *, kv_cache: Any, kv_cache_mode: str, **rotary: Any
    ) -> Tensor:
        """Collective."""
        out = self.old(attn, hidden_states, kv_cache=kv_cache, kv_cache_mode=kv_cache_mode, **rotary)
        if kv_cache_mode == "capture_pre_rope":
            kv_cache.store_captured_pre_rope(*self._whole(kv_cache.get_captured_pre_rope()))
        if kv_cache_mode == "inject_and_capture_post_rope":
            kv_cache.store_captured_post_rope(*self._whole(kv_cache.get_captured_post_rope()))
        return out

    def _whole(self, keys_and_values: tuple[Tensor, Tensor]) -> list[Tensor]:
        return [self.session.gather(x, 1, "image") for x in keys_and_values]
