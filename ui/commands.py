"""The commands that serve: `latentloom ui`, `latentloom serve` and `latentloom token`, from arguments to settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..parallel.machine.folders import user_data
from .options import prepare_gradio, read_settings

if TYPE_CHECKING:
    import argparse

    from ..pipelines.values import Place

OK = 0


def page(arguments: argparse.Namespace, place: Place) -> int:
    from .command import serve

    settings = read_settings(arguments, place=place, default_data_dir=_data_dir())
    if settings.tokens is not None and not settings.users:
        raise ValueError(
            "--tokens lets programs in, and nobody could open the page; add --auth, or use latentloom serve"
        )
    prepare_gradio(settings)
    serve(settings, opens_browser=arguments.open)
    return OK


def service(arguments: argparse.Namespace, place: Place) -> int:
    from .access.tokens import ENV
    from .service.command import serve

    token = os.environ.pop(ENV, "")  # nodes' own code, which the worker runs, is not to find it
    settings = read_settings(arguments, place=place, default_data_dir=_data_dir(), token=token)
    serve(settings, grace_s=arguments.grace, metrics_port=arguments.metrics_port)
    return OK


def token(arguments: argparse.Namespace) -> int:
    from getpass import getpass

    from .access.auth import NAME, hashed
    from .access.tokens import new_token

    if arguments.login:
        is_typed = sys.stdin is not None and sys.stdin.isatty()
        password = getpass() if is_typed else sys.stdin.readline().rstrip("\r\n")
        if not password or NAME.fullmatch(arguments.name) is None:
            raise ValueError("a login is a name of letters, digits and . _ @ -, and a password, typed or sent on stdin")
        print(f"{arguments.name}:{hashed(password)}")
        return OK
    made, line = new_token(arguments.name, arguments.scopes)
    print(f"{made}\n{line}", flush=True)
    print("the first line is the token, shown once; the second goes into the file of --tokens", file=sys.stderr)
    return OK


def _data_dir() -> Path:
    return user_data() or Path("latentloom-data")
