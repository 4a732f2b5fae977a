"""ComfyUI's process around a node: its progress bar, previews and interrupt, and what it is asked to free."""

import contextlib
import functools
import logging
from typing import Any

from ...parallel.errors import Cancelled
from ...parallel.progress import Foreseen, Preview, Progress

logger = logging.getLogger("latentloom")


class ComfyProgress(Progress):
    """Steps become ComfyUI's progress bar; its interrupt ends the stage at the next step. What goes on before them is
    logged under `title`, if there is one."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self.wants_previews = False
        with contextlib.suppress(ImportError):
            from comfy.cli_args import args

            self.wants_previews = getattr(args.preview_method, "value", args.preview_method) != "none"
        self._bar: Any = None
        self._interrupt: BaseException | None = None

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        if self._title:
            logger.info("%s: %s", self._title, text)
        self.check()

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self.check()
        try:
            from comfy.utils import ProgressBar
        except ImportError:
            return
        if self._bar is None:
            self._bar = ProgressBar(total)
        try:
            self._bar.update_absolute(done, total, _shown_preview(preview) if self.wants_previews else None)
        except BaseException as error:  # the progress hook raises the interrupt itself and clears the flag
            self._interrupt = error
            raise Cancelled from error

    def foresee(self, foreseen: Foreseen) -> None:
        from ...pipelines.costs.ran import before

        logger.info("%s", before(foreseen))

    def raise_interrupt(self) -> None:
        """Raise the host's own exception for a stage that ended by `Cancelled`."""
        if self._interrupt is not None:
            raise self._interrupt

    def check(self) -> None:
        try:
            from comfy.model_management import throw_exception_if_processing_interrupted
        except ImportError:
            return
        try:
            throw_exception_if_processing_interrupted()
        except BaseException as error:
            self._interrupt = error
            raise Cancelled from error


def _shown_preview(preview: Preview | None) -> tuple[str, Any, int] | None:
    """A preview as ComfyUI's progress bar takes it: format, picture, largest side. A preview never ends a run."""
    if preview is None:
        return None
    from PIL import Image as Pillow

    try:
        return ("JPEG", Pillow.fromarray(preview().cpu().numpy()), 512)
    except Exception:
        logger.warning("no preview of this step", exc_info=True)
        return None


def hear_unloading() -> None:
    """Have what ComfyUI is asked to free (`POST /free`, its menu, a lack of memory) reach what we hold: pools without
    work, and what this process has loaded. The first call counts."""
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
