"""Split plan of GLM-Image: text before image in the joint sequence, and pictures to edit kept as keys and values."""

from __future__ import annotations

from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image, text

JOINT = ("text", "image")


class _WholeCache:
    """A layer's cache of keys and values, which keeps and gives whole sequences to a processor that has a part."""

    def __init__(self, cache: Any, session: Any) -> None:
        self.mode = cache.mode
        self._cache = cache
        self._session = session

    def store(self, key: Any, value: Any) -> None:
        self._cache.store(*(self._session.gather(x, 1, *JOINT) for x in (key, value)))

    def get(self, key: Any, value: Any) -> Any:
        return self._cache.get(*(self._session.gather(x, 1, *JOINT) for x in (key, value)))


class _WithCache:
    """The processor of attention, for whose caches sequences are whole."""

    def __init__(self, old: Any, session: Any) -> None:
        self._old = old
        self._session = session

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
        if kv_cache is not None:
            if kv_cache.mode == "read":
                self._session.calls = self._session.calls[1:]  # the coming call has its keys whole
            kv_cache = _WholeCache(kv_cache, self._session)
        return self._old(attn, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb, kv_cache)


PLANS: dict[str, SplitPlan] = {
    "GlmImageTransformer2DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
            "transformer_blocks.*": {"image_rotary_emb": image(0), "attention_mask": text(1)},
        },
        outputs={"proj_out": image(1)},
        attention={"attn1": (Attend(JOINT, JOINT, mask="outer"), LOCAL)},
        processors={"attn1": _WithCache},
    ),
}
