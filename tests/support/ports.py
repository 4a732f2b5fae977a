"""A port for a server that begins to listen seconds later.

Below those that the system gives: of these, one that nobody has yet may go to any connection in the meantime.
"""

import itertools
import os
import socket

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PORTS = itertools.count(20_000 + 500 * WORKER)  # each worker's own


def free_port() -> int:
    return next(port for port in PORTS if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
