"""The one Gradio component of the page: an empty box in which our bundle draws a view.

This and `app.py` are the only Python files that know Gradio's component hooks.
"""

from typing import Any

import gradio as gr

# Constant: what Gradio puts into a template is run as code, so no data ever goes through one.
TEMPLATE = '<div class="loom-host"></div>'

STYLE = "& .loom-host { height: calc(100dvh - 40px); min-height: 420px; }"  # the whole window below the row of tabs

# The quoted 'go' declares the event: the view asks for another tab.
ON_LOAD = """
const host = element.querySelector(".loom-host") || element;
import(new URL(`loom/static/loom.js?v=${props.version}`, document.baseURI).href)
  .then((loom) => loom.mount({ element: host, props, trigger }))
  .catch((error) => {
    host.setAttribute("role", "alert");
    host.textContent = `The page could not be loaded (${error.message}). Reload it, or look at the server's log.`;
  });
/* events: 'go' */
"""


class LoomView(gr.HTML):
    """One view of the bundle: `build`, `simple`, `gallery` or `models`."""

    # Gradio calls this again with every property when one of them changes, so it takes each by keyword
    def __init__(self, value: Any = None, *, view: str = "build", version: str = "", **properties: Any) -> None:
        fixed: dict[str, Any] = {
            **properties,
            "html_template": TEMPLATE,
            "css_template": STYLE,
            "js_on_load": ON_LOAD,
            "apply_default_css": False,
            "padding": False,
            "view": view,
            "version": version,
        }
        super().__init__(value, **fixed)

    def api_info(self) -> dict[str, Any]:
        return {"type": "null"}
