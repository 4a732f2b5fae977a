"""A server that listens: its port, its start in a thread of its own, and the limits that it stands behind."""

import http.client
import logging
import os
import socket
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from ..parallel.errors import BadInput
from .access.connections import guard
from .access.crowd import Patience
from .settings import Settings

if TYPE_CHECKING:
    import uvicorn

logger = logging.getLogger("latentloom")

# How long a server may take to answer for the first time; Gradio gives a busy machine 5 seconds, and 3 for a look.
START_S = 180.0
LOOK_S = 0.05
GRACE_S = 1  # how long open connections may hold up the end of the server; a page keeps one open all the time


class PortTaken(BadInput):
    """Nothing can listen there."""

    code = "port-taken"

    def __init__(self, host: str, port: int, reason: str = "another program has it") -> None:
        super().__init__(
            f"nothing can listen on {host}, port {port} ({reason.lower()}); end the other program, or give another "
            "--port"
        )


def check_port(host: str, port: int) -> None:
    """Raises `PortTaken` where nothing can listen there: Gradio would go on to say that it found no port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # elsewhere it would let two programs have one port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            raise PortTaken(host, port, error.strerror or str(error)) from None


def started(server: "uvicorn.Server") -> threading.Thread:
    """Run it in a thread of its own, which is returned once it answers. Raises `PortTaken`, or `ValueError`."""
    host, port = server.config.host, server.config.port
    thread = threading.Thread(target=server.run, name="page", daemon=True)
    thread.start()
    end = time.monotonic() + START_S
    while not (server.started and answers(host, port, end - time.monotonic())):
        if not thread.is_alive():
            raise PortTaken(host, port)
        if time.monotonic() > end:
            server.should_exit = True
            raise ValueError(_silent(host, port))
        time.sleep(LOOK_S)
    return thread


def answers(host: str, port: int, timeout_s: float) -> bool:
    """Whether a server there answers a request, with whatever status, by no proxy."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    asking = http.client.HTTPConnection(reached, port, timeout=max(timeout_s, LOOK_S))
    with suppress(OSError, http.client.HTTPException), closing(asking) as connection:
        connection.request("HEAD", "/")
        connection.getresponse()
        return True
    return False


def guarded(server: "uvicorn.Server", settings: Settings) -> None:
    """Put what listens by now behind its limits. Raises `ValueError` where it does not answer."""
    try:
        guard(server, Patience(trusted=settings.trusted_proxies), grace_s=GRACE_S)
    except TimeoutError:
        raise ValueError(_silent(settings.host, settings.port)) from None
    if settings.has_auth and settings.public_netloc and not settings.trusted_proxies:
        logger.warning(
            "the proxy for %s is not named with --trusted-proxy, so all who come through it count as one, and one who "
            "guesses passwords keeps the others waiting; add --trusted-proxy with its address",
            settings.public_netloc,
        )


def _silent(host: str, port: int) -> str:
    return (
        f"nothing answered on {host}, port {port} within {START_S:.0f} s of the start; the machine may be too busy, or "
        "a firewall keeps this program from reaching itself: start it again, or give another --host or --port"
    )
