"""The page as a Gradio app: one tab for each view, our routes in its process, and nothing that leaves the machine.

Imported by the `ui` command only: Gradio takes seconds to load.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import Request, Response
from fastapi.middleware import Middleware
from gradio import http_server
from gradio.exceptions import ServerFailedToStartError
from gradio.route_utils import FnIndexInferError
from gradio.routes import templates

from .access.answers import refused
from .access.gate import CALL, PROGRAMS, UPLOAD_BYTES, Gate, own_path
from .access.login import Guard, login_routes
from .access.policy import Policy, mark_scripts
from .api.router import make_router
from .bundle import STATIC, Bundle
from .canvas import LoomView
from .listening import PortTaken, guarded, started
from .server import Server
from .settings import Settings

logger = logging.getLogger("latentloom")

VIEWS = ("build", "simple", "gallery", "models")
LANGUAGES = ("en", "de")
TEXTS = Path(__file__).parent / "texts"
ASKED = ("loom/start", "loom/catalog")  # what the page asks before it draws anything, see `web/src/store/start.ts`
IDLE_S = 0.05  # how often Gradio looks for calls; it would each millisecond, which takes a twentieth of a core
# Of Gradio's; as its `_frontend` it would look once, and then ask the user to share the page with the world.
OFF = ("inline", "share", "ssr_mode", "run_history", "mcp_server", "pwa", "enable_monitoring", "_frontend")
SWITCHED_OFF: dict[str, Any] = dict.fromkeys(OFF, False)
CLEAN_S, KEPT_S = 3600, 86400  # how often Gradio looks through its copies of files, and how old they get
# On Gradio's login page, which has one answer for every refusal: that name and password are wrong.
LOGIN_HINT = "Where many passwords are tried at once, right ones are refused, too: wait half a minute, then try again."
CSS = """
.gradio-container .main.app { padding: 0 !important; max-width: none !important; }
.tabs { gap: 0 !important; }
.tabs > .tab-wrapper { height: 40px; margin: 0; padding: 0; }
.tabs .tab-container:not(.visually-hidden) { height: 40px; padding: 0 8px; }
.tabs .tab-container button {
  font: 500 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
.tabs .tab-container button.selected { color: var(--primary-700); }
.dark .tabs .tab-container button.selected { color: var(--primary-400); }
.loom-view, .loom-view .html-container { padding: 0 !important; border: 0 !important; border-radius: 0 !important; }
"""


class PatientServer(http_server.Server):
    """Waits until the page answers, so that nothing that Gradio asks it afterwards meets a server that is not up."""

    def run_in_thread(self) -> None:
        try:
            self.thread = started(self)
        except PortTaken as error:
            raise ServerFailedToStartError(str(error)) from None


@contextmanager
def _patience() -> Iterator[None]:
    # Gradio makes its server by this name, with no way to give another one
    usual, http_server.Server = http_server.Server, PatientServer
    try:
        yield
    finally:
        http_server.Server = usual


@_patience()
def launch(server: Server, bundle: Bundle) -> gr.Blocks:
    """Serve the page; returns once it answers. `close()` of what is returned ends that, not the server's runs.

    Raises `ValueError` where the port cannot be had, or nothing answers on it in time.
    """
    settings = server.settings
    texts = {name: json.loads((TEXTS / f"{name}.json").read_text(encoding="utf-8")) for name in LANGUAGES}
    words = gr.I18n(**texts)
    page = build_page(bundle=bundle, words=words)
    mark_scripts(
        templates.env,
        script=bundle.address("loom.js"),
        styles=bundle.address("loom.css"),
        parts=[f"loom/static/{name}" for name in bundle.parts],
        asked=ASKED,
    )
    try:
        page.launch(
            server_name=f"[{settings.host}]" if ":" in settings.host else settings.host,
            server_port=settings.port,
            root_path=settings.root_path,
            # makes Gradio show its login page; our route, which comes before its own, tries the password
            auth=(lambda name, password: False) if settings.users else None,
            auth_message=LOGIN_HINT,
            app_kwargs={
                "routes": [*make_router(server, bundle).routes, *login_routes(settings)],
                "middleware": [  # the first one is outermost: also what the gate refuses has a policy
                    Middleware(Policy),
                    Middleware(Guard),
                    Middleware(Gate, door=settings.door, trusted=settings.trusted_proxies),
                ],
                "exception_handlers": dict.fromkeys((FnIndexInferError, KeyError, TypeError), misused),
            },
            i18n=words,
            css=CSS,
            favicon_path=STATIC / "icon.svg",
            max_file_size=UPLOAD_BYTES,
            # it blocks nothing, prints nothing, and opens nothing of Gradio's
            prevent_thread_lock=True,
            quiet=True,
            footer_links=[],
            num_workers=0,
            **SWITCHED_OFF,
        )
    except OSError:
        raise PortTaken(settings.host, settings.port) from None
    page.app.state.tokens = settings.tokens
    guard_page(page, settings)
    return page


def guard_page(page: gr.Blocks, settings: Settings) -> None:
    """Put what listens by now behind its limits. Raises `ValueError`, and ends the page, where it does not answer."""
    try:
        guarded(page.server, settings)
    except ValueError:
        page.close(verbose=False)
        raise


async def misused(request: Request, error: Exception) -> Response:
    """The answer to a call that Gradio cannot match to what the page calls; any other error is not hidden."""
    if request.method != "POST" or CALL.fullmatch(own_path(request.scope)) is None:
        raise error
    logger.info("a call to %s was refused: %r", request.url.path, error)
    return refused(f"the call is not understood; {PROGRAMS}", 400)


def build_page(*, bundle: Bundle, words: gr.I18n) -> gr.Blocks:
    with gr.Blocks(
        title="latentloom", analytics_enabled=False, fill_height=True, fill_width=True, delete_cache=(CLEAN_S, KEPT_S)
    ) as page:
        shown: list[LoomView] = []
        with gr.Tabs(selected=VIEWS[0]) as tabs:
            for name in VIEWS:
                with gr.Tab(words(name), id=name, scale=1):
                    ids: dict[str, Any] = {"elem_id": f"loom-{name}", "elem_classes": ["loom-view"], "key": name}
                    shown.append(LoomView(view=name, version=bundle.version, **ids))
        for view in shown:
            view.go(_selected, None, tabs, queue=False, show_progress="hidden", api_visibility="private")
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = IDLE_S
    return page


def _selected(event: gr.EventData) -> Any:
    # a name of a tab that is none changes nothing
    wanted = event._data.get("view") if isinstance(event._data, dict) else None
    return gr.Tabs(selected=wanted) if wanted in VIEWS else gr.skip()
