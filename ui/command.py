"""What `latentloom ui` does: open the page, say where it is, and end in order when it is asked to."""

import threading
import time
import webbrowser
from contextlib import closing
from types import ModuleType
from typing import TYPE_CHECKING

from ..nodes.headless.lifetime import interrupts
from .bundle import read_bundle
from .options import prepare_gradio, read_settings
from .server import Server
from .settings import Settings
from .watchdog import watched
from .worker.process import WorkerProcess

if TYPE_CHECKING:
    import argparse

    from ..pipelines.values import Place

POLL_S = 0.5  # how often a waiting server looks whether it was asked to end


def page(arguments: "argparse.Namespace", place: "Place") -> int:
    settings = read_settings(arguments, place=place)
    if settings.tokens is not None and not settings.users:
        raise ValueError(
            "--tokens lets programs in, and nobody could open the page; add --auth, or use latentloom serve"
        )
    prepare_gradio(settings)
    serve(settings, opens_browser=arguments.open)
    return 0


def serve(settings: Settings, *, opens_browser: bool) -> None:
    """Serve until Ctrl-C. Raises `ValueError` for what keeps the page from opening."""
    bundle, app = read_bundle(), _app()
    from .listening import check_port  # behind `_app`, which says what is not installed

    check_port(settings.host, settings.port)
    stop = threading.Event()
    with interrupts(stop), closing(Server(settings, work := WorkerProcess(settings.cache_dir))) as server:
        page = app.launch(server, bundle)
        work.start()  # so that the first run need not wait for it
        print(f"latentloom: the page is at {address(settings)} (Ctrl-C ends it)", flush=True)
        if opens_browser:
            webbrowser.open(address(settings))
        with watched(page.server.servers[0].get_loop()):  # in which the page answers
            while not stop.is_set():  # never `wait`, see `interrupts`
                time.sleep(POLL_S)
        page.close(verbose=False)


def address(settings: Settings) -> str:
    if "://" in settings.root_path:
        return settings.root_path.rstrip("/") + "/"
    host = "localhost" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/"


def _app() -> ModuleType:
    # Gradio, which hosts such as ComfyUI leave out, is asked for here
    try:
        from . import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("gradio", "fastapi", "starlette", "websockets"):
            raise
        raise ValueError(f"the page needs {error.name}, which is not installed; run: pip install latentloom") from None
    return app
