"""What `latentloom serve` does: listen, say where, and drain when it is asked to end.

The first SIGTERM (or Ctrl-C) turns readiness off at once. No run is taken or begins from then on; those under way may
go on for `grace_s`, what waits is there at the next start, and what was not done by then begins again. The second ends
the process at once.
"""

import logging
import os
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import uvicorn

from ...nodes.headless.lifetime import interrupts
from ..access.tokens import ENV
from ..command import address
from ..listening import GRACE_S, check_port, guarded, started
from ..options import read_settings
from ..server import Server
from ..settings import Settings
from ..watchdog import watched
from ..worker.process import WorkerProcess
from .app import make_app, metrics_of
from .health import Health

if TYPE_CHECKING:
    import argparse

    from ...pipelines.values import Place

POLL_S = 0.1  # how often a waiting server looks whether it was asked to end


def service(arguments: "argparse.Namespace", place: "Place") -> int:
    token = os.environ.pop(ENV, "")  # nodes' own code, which the worker runs, is not to find it
    settings = read_settings(arguments, place=place, token=token)
    serve(settings, grace_s=arguments.grace, metrics_port=arguments.metrics_port)
    return 0


def serve(settings: Settings, *, grace_s: float, metrics_port: int = 0) -> None:
    """Serve until SIGTERM. Raises `ValueError` for what keeps it from listening."""
    if not 0 <= grace_s <= 86400:
        raise ValueError(f"--grace is {grace_s:g}; give seconds from 0 to 86400")
    if not logging.getLogger("latentloom").hasHandlers():
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("latentloom.access").setLevel(logging.INFO)
    check_port(settings.host, settings.port)
    stop = threading.Event()
    says = f"taking no more runs; those under way have {grace_s:g} s to end"
    with interrupts(stop, says=says), closing(Server(settings, work := WorkerProcess(settings.cache_dir))) as server:
        health = Health(server, stop.is_set)
        if metrics_port:
            metrics_of(server, health).listen(metrics_port)
        app = make_app(server, health)
        listening = uvicorn.Server(
            uvicorn.Config(app, host=settings.host, port=settings.port, log_level="warning", lifespan="off")
        )
        thread = started(listening)
        guarded(listening, settings)
        work.start()  # so that the first run need not wait for it
        print(f"latentloom: the service is at {address(settings)} (Ctrl-C ends it)", flush=True)
        with watched(listening.servers[0].get_loop()):
            while not stop.is_set():  # never `wait`, see `interrupts`
                time.sleep(POLL_S)
            server.runs.drain(grace_s)
        listening.should_exit = True
        thread.join(GRACE_S + 5)
