"""What the page may load and run (its Content-Security-Policy): our own files, and Gradio's own inline scripts.

Those are told from injected ones by a nonce, new in each answer. It is written into the source of Gradio's template,
before any data is, so that a script in the data never bears it.
"""

import re
import secrets
from collections.abc import Callable, Sequence

from jinja2 import BaseLoader, Environment
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NONCE = "latentloom.nonce"  # the key of the nonce in the scope of a request
POLICY = "; ".join(
    (
        "default-src 'self'",
        # gr.HTML makes functions of text: its templates and `js_on_load`. Without it, drop 'unsafe-eval'.
        "script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
        # Gradio and React Flow write styles into elements
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "font-src 'self' data:",
        # 'self' means our WebSocket, too, in all browsers since 2022
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
SCRIPT = re.compile(r"<script(?=[\s>])")
MARKED = f"<script nonce=\"{{{{ request.scope['{NONCE}'] }}}}\""
BASE = re.compile(r"<base\s[^>]*>")  # `./`, which is what it would be without, and which base-uri forbids
# Our own files are read before Gradio's, and draw before Gradio is up; none where a login comes first.
#
# Gradio begins when our script says that the canvas rests, for both at once are late; without that script, later.
FIRST = """<head>{{% if not config.get('auth_required') %}}
{parts}<script type="module" async src="{script}"></script><link rel="preload" as="style" href="{styles}">{asked}
<script>
(() => {{
  const begin = () => {{
    for (const held of document.querySelectorAll('script[type="loom/held"]')) {{
      const script = document.createElement("script");
      Object.assign(script, {{ type: "module", crossOrigin: "", src: held.src }});
      held.replaceWith(script);
    }}
  }};
  addEventListener("loom-rests", begin, {{ once: true }});
  setTimeout(begin, {most_ms});
}})();
</script>
{{% endif %}}"""
MOST_MS = 4000
MODULE = 'type="module" crossorigin'
# Gradio's own script, before and after.
HELD = "type=\"{% if config.get('auth_required') %}module{% else %}loom/held{% endif %}\" crossorigin"
PART = '<link rel="modulepreload" href="{}">'
# What the script asks first, on the way before it is read. `crossorigin` as its `fetch` is, without which it is asked
# twice.
ASKED = '<link rel="preload" as="fetch" crossorigin href="{}">'


class Policy:
    """A middleware that sends the policy with each answer that has none of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        nonce = scope[NONCE] = secrets.token_urlsafe(16)

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("Content-Security-Policy", POLICY.format(nonce=nonce))
            await send(message)

        await self.app(scope, receive, send_with_policy)


class MarkedTemplates(BaseLoader):
    """Templates whose scripts bear the nonce of the answer, and that name our own files; `inner` finds them."""

    def __init__(self, inner: BaseLoader, first: str) -> None:
        self.inner = inner
        self.first = first

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        source, name, is_fresh = self.inner.get_source(environment, template)
        marked = SCRIPT.sub(MARKED, source.replace(MODULE, HELD).replace("<head>", self.first))
        return BASE.sub("", marked), name, is_fresh


def mark_scripts(
    environment: Environment, *, script: str, styles: str, parts: Sequence[str], asked: Sequence[str]
) -> None:
    """For Gradio's templates, which all its apps of this process share; the last one's files are named."""
    first = FIRST.format(
        script=script,
        styles=styles,
        parts="".join(map(PART.format, parts)),
        asked="".join(map(ASKED.format, asked)),
        most_ms=MOST_MS,
    )
    loader = environment.loader
    inner = loader.inner if isinstance(loader, MarkedTemplates) else loader
    if inner is not None:
        environment.loader = MarkedTemplates(inner, first)
