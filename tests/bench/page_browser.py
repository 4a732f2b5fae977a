"""The real page for scripts that are run by hand: a server in a process of its own, and Chromium to look at it."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.browser import CHROMIUM
from support.ports import free_port

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
STOP_S = 30


@contextmanager
def served(
    folder: Path, command: Sequence[str] = ("-m", "latentloom", "ui"), *, package: Path | None = None
) -> Iterator[str]:
    """The page's address; results and data are kept in `folder`. `command` is what this Python runs; `package` is a
    folder with another latentloom in it, which is run instead of the installed one.
    """
    options = ["--port", str(free_port()), "--output-dir", str(folder / "output"), "--data-dir", str(folder / "data")]
    env = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    if package is not None:
        env["PYTHONPATH"] = str(package)
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *command, *options], env=env, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()  # the command ends by itself where it cannot start
        if " is at " not in line:
            sys.exit(f"the page did not start: {line}{(folder / 'log.txt').read_text()}")
        yield line.split(" is at ")[1].split()[0]
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Without a GPU: everything is drawn in software."""
    if not CHROMIUM.exists():
        sys.exit(f"there is no Chromium at {CHROMIUM}; install it, or name it: CHROMIUM=/path/to/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def machine(browser: Browser) -> str:
    """What the numbers were taken on, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = models[0] if models else platform.processor() or platform.machine()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{name}, {os.cpu_count()} cores{load}; Chromium {browser.version} headless without a GPU; "
        f"Python {platform.python_version()}"
    )


def share(api: Any, url: str, graph: dict[str, Any]) -> str:
    """Keep a workflow in the library; the address that opens it in the page. `api` is Playwright's request context."""
    kept = answer(api.post(f"{url}loom/workflows", data={"graph": graph}))
    token = answer(api.post(f"{url}loom/workflows/{kept['id']}/share", data={}))["token"]
    return f"{url}?shared={token}"


def answer(response: Any) -> Any:
    """The JSON of a response; a refusal ends the script with its sentence."""
    if not response.ok:
        sys.exit(f"{response.url} answered {response.status}: {response.text()[:500]}")
    return response.json()
