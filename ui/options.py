"""The options of `latentloom ui` and `latentloom serve`, and the settings that they mean."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..nodes.headless.options import log_options, nodes_option
from ..parallel.machine.folders import user_data

if TYPE_CHECKING:
    from ..pipelines.values import Place
    from .settings import Settings


def page_options(command: argparse.ArgumentParser) -> None:
    """Of `latentloom ui`."""
    server_options(command)
    command.add_argument("--open", action="store_true", help="show the page in the browser")


def service_options(command: argparse.ArgumentParser) -> None:
    """Of `latentloom serve`."""
    server_options(command)
    add = command.add_argument
    says = "how long runs under way may take to end once the server is asked to; the others wait for its next start"
    add("--grace", type=float, default=60.0, metavar="S", help=f"{says} (default: 60)")
    says = "where /metrics is answered on this machine's loopback without a token, too"
    add("--metrics-port", type=int, default=0, metavar="N", help=says)
    add("--max-waiting", type=int, metavar="N", help="runs of one user that may wait (default: 1000)")
    add("--max-runs", type=int, metavar="N", help="runs that one request may start by a sweep (default: 1000)")


def token_options(command: argparse.ArgumentParser) -> None:
    """Of `latentloom token`."""
    add = command.add_argument
    add("name", metavar="NAME", help="whose runs those are that come with it")
    add("--scopes", default="run,read", help="run, read, or run,read (the default)")
    says = "hash a password, which is asked for or read from stdin: the line is for --auth"
    add("--login", action="store_true", help=says)


def server_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--host", default="127.0.0.1", help="where it listens (default: for this machine only)")
    add("--port", type=int, default=7860)
    add(
        "--auth",
        type=Path,
        metavar="FILE",
        help="who may log in: lines name:password, or by `latentloom token --login`",
    )
    says = "programs that may come in with a bearer token: lines of `latentloom token`"
    add("--tokens", type=Path, metavar="FILE", help=says)
    says = "a name beside its own by which it may be asked for, such as latentloom.farm.svc"
    add("--allow-host", action="append", default=[], metavar="NAME", help=says)
    add("--models-dir", action="append", type=Path, default=[], metavar="DIR", help="a folder of models")
    add("--output-dir", type=Path, default=Path("output"), metavar="DIR", help="where results go (default: output)")
    add("--data-dir", type=Path, metavar="DIR", help="where workflows, drafts and the queue are kept")
    says = "where results are kept for the next run (default: in --data-dir); without a login, other servers and "
    add("--cache", type=Path, metavar="DIR", help=says + "commands with this --cache take them from there, too")
    add("--devices", default="", metavar="LIST", help="all, cpu*4, cuda:0,cuda:1: one rank on each")
    says = "how a denoise uses them: cfg=2,ulysses=2, auto, or auto,compiled, which compiles too"
    add("--plan", default="", help=says)
    says = "groups of devices that work on separate runs (default: without a login, of a sweep as many as end it "
    add("--replicas", type=int, metavar="N", help=says + "soonest; else one)")
    add("--memory", default="", metavar="10GB", help="what may be taken of each device (default: all)")
    says = "a plan's first use with a model is not checked against one device"
    add("--no-self-check", action="store_true", help=says)
    add("--max-pixels", type=int, metavar="N", help="of a picture that is uploaded or resized (default: 64 million)")
    add("--root-path", default="", metavar="PATH", help="the path or URL under which a proxy shows the page")
    add("--user-quota", type=float, default=20, metavar="GIB", help="what one user may keep (default: 20)")
    says = "a proxy, or a network of them, that tells in X-Forwarded-For who asks"
    add("--trusted-proxy", action="append", default=[], metavar="ADDR", help=says)
    says = "users of the page may have models fetched from the Hugging Face hub, with this machine's token and disk "
    add("--allow-downloads", action="store_true", help=says + "(default: they are told the command)")
    log_options(command)
    nodes_option(command)
    command.set_defaults(cluster="")


def read_settings(arguments: argparse.Namespace, *, place: Place, token: str = "") -> Settings:
    """`token` is one that may come in beside those of the file. Raises `ValueError` for what cannot be."""
    from ..nodes.files.picture_files import pixel_limit
    from ..nodes.headless.workflow_files import models_dirs
    from .access.auth import read_users
    from .access.tokens import Tokens
    from .settings import MAX_WAITING, Settings

    has_auth = bool(arguments.auth or arguments.tokens or token)
    most = [getattr(arguments, name, None) for name in ("max_waiting", "max_runs")]
    quota = arguments.user_quota * 1024**3
    if not 1 <= quota < math.inf:
        raise ValueError(
            f"--user-quota is {arguments.user_quota:g}; give GiB above 0, such as 20, or as many as the disk has"
        )
    return Settings(
        host=arguments.host,
        port=arguments.port,
        users=read_users(arguments.auth) if arguments.auth else {},
        tokens=Tokens(arguments.tokens, token) if arguments.tokens or token else None,
        allowed_hosts=tuple(name.lower() for name in arguments.allow_host),
        most_waiting=MAX_WAITING if most[0] is None else most[0],
        most_points=MAX_WAITING if most[1] is None else most[1],
        models_dirs=models_dirs(arguments.models_dir),
        output_dir=arguments.output_dir.resolve(),
        data_dir=(arguments.data_dir or user_data() or Path("latentloom-data")).resolve(),
        shared_cache_dir=arguments.cache and arguments.cache.resolve(),
        place=place,
        shares_out=arguments.replicas is None and not has_auth,
        root_path=arguments.root_path.rstrip("/"),
        max_pixels=pixel_limit(arguments.max_pixels),
        user_bytes=int(quota),
        allows_downloads=arguments.allow_downloads,
        trusted_proxies=tuple(arguments.trusted_proxy),
    )


def prepare_gradio(settings: Settings) -> None:
    """Before Gradio is imported: it reports nothing to its makers, and keeps its copies of files in our folder."""
    from .settings import SCRATCH

    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(settings.data_dir / SCRATCH / "gradio")
    # it asks itself whether it is up, which a proxy for the world outside must not answer
    for name in ("NO_PROXY", "no_proxy"):
        known = [entry for entry in os.environ.get(name, "").split(",") if entry]
        os.environ[name] = ",".join(dict.fromkeys([*known, "localhost", "127.0.0.1", "::1", settings.host]))
