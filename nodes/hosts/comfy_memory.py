"""What ComfyUI is asked to free (`POST /free`, its menu, a lack of memory) we give back, too: pools without work, and
what this process has loaded."""

from __future__ import annotations

import functools
from typing import Any


def hear_unloading() -> None:
    """Have ComfyUI's unloading of all models reach ours; the first call counts."""
    try:
        from comfy import model_management
    except ImportError:
        return
    unload = getattr(model_management, "unload_all_models", None)
    if unload is None or hasattr(unload, "reaches_ranks"):
        return

    @functools.wraps(unload)
    def unload_all_models(*given: Any, **options: Any) -> Any:
        from ...pipelines.components.store import store
        from ...pipelines.pools import POOLS

        POOLS.close_idle()
        store().give_way()
        return unload(*given, **options)

    vars(unload_all_models)["reaches_ranks"] = True
    model_management.unload_all_models = unload_all_models
