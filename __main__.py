"""The command line, `latentloom COMMAND`: what each is for says `latentloom --help`, what it does its function here.

Exit codes: 0 ok, 1 a node failed or the doctor found a problem, 2 bad file or arguments, 75 the machine is at fault:
try again, here later or elsewhere; 130 cancelled.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .parallel.errors import EXIT_CODES, LoomError, code_of, where_of
from .parallel.machine import logs
from .parallel.machine.folders import user_cache, user_data
from .parallel.machine.waiting import asleep

if TYPE_CHECKING:
    from .nodes.headless.headless import Tally
    from .nodes.headless.options import Options
    from .pipelines.values import Place

OK, FAILED, BAD, AGAIN, CANCELLED = 0, *(EXIT_CODES[where] for where in ("us", "input", "machine", "user"))
# Commands that end in less than a second, and leave no garbage worth the search.
SHORT = ("check", "nodes", "schema", "show")
CLOSED = ("comfy", "doctor", "schema", "token")  # those that need nothing of packages from outside


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; a user's mistake is one sentence on stderr.

    Without arguments given here the process is this command, see `as_program`.
    """
    arguments = parser().parse_args(argv)
    arguments.argv = ("latentloom", *(sys.argv[1:] if argv is None else argv))
    if argv is not None:
        return _run(arguments)
    os.environ.update(asleep(os.environ))  # before anything loads torch, which reads it once
    if arguments.is_short:  # before anything is imported
        gc.disable()  # it looks at what is imported again and again, a seventh of the time
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looks for them in every package there is
    from .nodes.headless.lifetime import as_program

    return as_program(lambda: _run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    if getattr(arguments, "no_self_check", False):
        os.environ["LATENTLOOM_SELF_CHECK"] = "0"  # which ranks inherit
    if level := getattr(arguments, "log_level", None):
        os.environ[logs.LEVEL] = level  # which ranks and workers inherit
    if getattr(arguments, "log_json", False):
        os.environ[logs.AS_JSON] = "1"
    try:
        if os.environ.get(logs.LEVEL) or os.environ.get(logs.AS_JSON):
            logs.begin(os.environ)
        if getattr(arguments, "memory", None) is not None:
            from .pipelines.components.memory import limit_memory

            limit_memory(arguments.memory)
        if arguments.opens_doors:
            from .nodes.registry import open_doors

            open_doors(getattr(arguments, "nodes_dir", None))
        code = arguments.command(arguments)
        print(end="", flush=True)  # nothing is left to say when the process ends
    except (ValueError, LoomError, KeyboardInterrupt) as error:
        if arguments.debug and not isinstance(error, KeyboardInterrupt):
            raise
        code = EXIT_CODES[where_of(code_of(error))]
        if getattr(arguments, "json", False):
            from .nodes.headless.stream import print_end

            print_end(error)
        elif getattr(arguments, "openjd", False):
            print(f"openjd_fail: {' '.join(str(error).split()) or 'cancelled'}", flush=True)
        print(f"latentloom: {str(error) or 'cancelled'}", file=sys.stderr)
    except BrokenPipeError:  # `latentloom nodes | head`
        from .nodes.headless.stream import print_nothing

        print_nothing()
        code = OK
    if getattr(arguments, "cluster", ""):
        from .pipelines.cluster.head import leave

        leave(code)
    return code


def parser() -> argparse.ArgumentParser:
    from . import __version__
    from .nodes.headless import options

    top = options.Parser(prog="latentloom", description="Workflow nodes for generative media.")
    top.add_argument("--version", action="version", version=f"latentloom {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add = partial(_command, commands)
    add("run", run_command, options.run_options, "run a workflow file")
    add(
        "rerun",
        rerun_command,
        options.rerun_options,
        "make a run again by its manifest, and say whether its bytes are the same",
    )
    add("check", check_command, options.check_options, "say everything that is wrong with a workflow file")
    add("plan", plan_command, options.plan_options, "say how a model or workflow would run here, or on a machine to be")
    add("nodes", nodes_command, options.nodes_options, "list the nodes, or describe one")
    add("show", show_command, options.show_options, "print the workflow that a picture, video or sound carries")
    add(
        "verify",
        verify_command,
        options.verify_options,
        "check that a model gives the same on several devices as on one",
    )
    add("models", models_command, options.models_options, "list the models on this machine, or pull one from the hub")
    add("comfy", comfy_command, options.comfy_options, "put the nodes into a ComfyUI, without a change to what it has")
    add(
        "openjd",
        openjd_command,
        options.openjd_options,
        "print a workflow with its sweep as a template of an Open Job Description",
    )
    add(
        "schema",
        schema_command,
        options.schema_options,
        "print the JSON Schema of the workflow file, of a manifest, or of the lines that --json gives",
    )
    add("doctor", doctor_command, options.json_option, "say what is wrong with this machine and how to mend it")

    if (Path(__file__).parent / "ui").is_dir():  # ComfyUI's registry leaves the page out
        from .ui.options import page_options, service_options, token_options

        add("ui", ui_command, page_options, "open the page that builds, runs and keeps workflows")
        add("serve", serve_command, service_options, "run workflows for programs, by HTTP, without the page")
        add("token", token_command, token_options, "make a token for serve, or hash a password for --auth")
    return top


def _command(commands: Any, name: str, body: Callable[..., int], options: Options, summary: str) -> None:
    command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    command.set_defaults(command=body, opens_doors=name not in CLOSED, is_short=name in SHORT)
    command.add_argument("--debug", action="store_true", help="show where an error came from")
    command.options = options


def _told(arguments: argparse.Namespace, plain: object, text: str, *, code: int = OK) -> int:
    """An answer is printed as JSON where that is asked for; its exit code."""
    print(json.dumps(plain, indent=2) if arguments.json else text)
    return code


def run_command(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from .nodes.files.picture_files import pixel_limit
    from .nodes.headless.job_list import read_jobs, share
    from .nodes.headless.terminal import run_shown

    asked = {"settings": arguments.set, "sweeps": arguments.sweep, "out": arguments.out, "name": arguments.name}
    job = read_jobs(arguments.files, arguments.jobs, allowed=_allowed(arguments), **asked)
    if arguments.shard or job.is_sweep:
        job = share(job, arguments.shard, os.environ)
    job = replace(
        job,
        cache_dir=None if arguments.no_cache else arguments.cache or user_cache(),
        resume=arguments.resume,
        place=_place(arguments),
        shares_out=arguments.replicas is None,
        max_pixels=pixel_limit(arguments.max_pixels),
        is_forced=arguments.force,
        overwrites=arguments.overwrite,
        command=arguments.argv,
    )
    told = {"as_json": arguments.json, "is_quiet": arguments.quiet, "debug": arguments.debug}
    told |= {"openjd": arguments.openjd, "stops_on_error": arguments.stop_on_error, "grace_s": arguments.grace}
    return _code_of(run_shown(job, **told))


def _code_of(tally: Tally) -> int:
    if tally.state in ("failed", "ended") and tally.is_retryable:
        return AGAIN
    return {"ok": OK, "failed": FAILED, "ended": FAILED, "cancelled": CANCELLED}[tally.state]


def rerun_command(arguments: argparse.Namespace) -> int:
    from .nodes.headless.rerun import rerun_shown

    told = {name: getattr(arguments, name) for name in ("out", "devices", "plan", "debug")}
    told |= {"is_strict": arguments.strict, "is_forced": arguments.force, "is_quiet": arguments.quiet}
    told |= {"as_json": arguments.json, "command": arguments.argv}
    tally, is_explained = rerun_shown(arguments.file, allowed=_allowed(arguments), **told)
    return _code_of(tally) if is_explained else FAILED


def _allowed(arguments: argparse.Namespace) -> Sequence[Path]:
    """Folders that the user allows to be read from."""
    from .nodes.headless.workflow_files import models_dirs

    return [*arguments.allow, *models_dirs(arguments.models_dir)]


def _place(arguments: argparse.Namespace) -> Place:
    from .pipelines.place import read_place
    from .pipelines.values import Place

    replicas = 1 if arguments.replicas is None else arguments.replicas
    if not (arguments.devices or arguments.cluster or arguments.plan or replicas != 1):
        return Place()
    return read_place(arguments.devices, arguments.plan, replicas=replicas, cluster=arguments.cluster)


def check_command(arguments: argparse.Namespace) -> int:
    from .nodes.headless.foretold import as_plain, as_text, is_refused
    from .nodes.headless.job_list import check_file

    found = check_file(arguments.file, settings=arguments.set, sweeps=arguments.sweep, allowed=_allowed(arguments))
    code = BAD if is_refused(found) else OK
    return _told(arguments, as_plain(found), as_text(arguments.file, found), code=code)


def plan_command(arguments: argparse.Namespace) -> int:
    if arguments.history:
        from .pipelines.costs.ran import kept
        from .pipelines.forecast.history import as_table, history_table

        rows = history_table(kept(user_cache()), model=arguments.what)
        return _told(arguments, [vars(row) for row in rows], as_table(rows, model=arguments.what))
    if not arguments.what:
        raise ValueError("no model or workflow is named; give one, or --history for what runs here took")
    from .nodes.headless.plans import first_devices, machine_named, plans_as_text, plans_of, read_wanted
    from .pipelines.forecast.explained import to_plain

    numbers = ("frames", "batch", "steps", "guidance", "num_runs")
    written = read_wanted(arguments.size, **{name: getattr(arguments, name) for name in numbers})
    machine = first_devices(machine_named(arguments.machine, anew=arguments.measure), arguments.devices)
    asked = {name: getattr(arguments, name) for name in ("guidance", "num_runs", "dtype", "quantization", "engine")}
    asked |= {"settings": arguments.set, "allowed": _allowed(arguments)}
    if arguments.online:
        from .pipelines.hub.child import outline_anywhere

        asked["outlines"] = outline_anywhere
    found = plans_of(arguments.what, machine, written=written, **asked)
    plain = [{"node": node, **to_plain(answer)} for node, answer in found]
    is_found = all(answer.chosen for _, answer in found)
    return _told(arguments, plain, plans_as_text(found, compares=arguments.compare), code=OK if is_found else FAILED)


def nodes_command(arguments: argparse.Namespace) -> int:
    from .nodes.registry import catalog, describe, table

    return _told(arguments, catalog(arguments.id), describe(arguments.id) if arguments.id else table())


def show_command(arguments: argparse.Namespace) -> int:
    from .nodes.headless.workflow_files import text_of

    print(text_of(arguments.file, for_comfyui=arguments.comfyui))
    return OK


def verify_command(arguments: argparse.Namespace) -> int:
    from .pipelines.verify import size_of, verify

    width, height = size_of(arguments.size)
    given = {"dtype": arguments.dtype, "device": arguments.device, "timeout_s": arguments.timeout}
    verdicts = verify(arguments.model, arguments.plan, width=width, height=height, **given)
    told = arguments, [each.plain() for each in verdicts], "\n".join(map(str, verdicts))
    return _told(*told, code=OK if all(each.is_equal for each in verdicts) else FAILED)


def models_command(arguments: argparse.Namespace) -> int:
    if arguments.action == "pull":
        from .pipelines.hub.fetching import pull

        if not arguments.id:
            raise ValueError("no model is named; give its hub id, such as: latentloom models pull Qwen/Qwen-Image")
        print(pull(arguments.id, revision=arguments.revision, without=arguments.without))
        return OK
    from .pipelines.models.installed import as_text, installed_models

    found = installed_models(arguments.models_dir)
    return _told(arguments, [vars(model) for model in found], as_text(found))


def doctor_command(arguments: argparse.Namespace) -> int:
    from .pipelines.doctor.examine import as_text, examine, has_problems, try_ranks
    from .pipelines.place import has_ranks

    found = examine(cache_dir=user_cache(), data_dir=user_data(), trial=try_ranks if has_ranks() else None)
    plain = [vars(each) for each in found]
    return _told(arguments, plain, as_text(found), code=FAILED if has_problems(found) else OK)


def comfy_command(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from .nodes.hosts.comfy_install import as_text, install

    found = install(arguments.folder, python=arguments.python, is_dry=arguments.dry_run)
    return _told(arguments, asdict(found), as_text(found))


def openjd_command(arguments: argparse.Namespace) -> int:
    from .nodes.headless.openjd import template

    asked = {name: getattr(arguments, name) for name in ("chunk", "out")}
    asked |= {"settings": arguments.set, "sweeps": arguments.sweep, "more": shlex.split(arguments.run)}
    print(json.dumps(template(arguments.file, **asked), indent=2))
    return OK


def schema_command(arguments: argparse.Namespace) -> int:
    from .nodes.graph.schema import schema_text
    from .nodes.headless.stream import schema

    print(schema_text() if arguments.name == "workflow" else json.dumps(schema(arguments.name), indent=2))
    return OK


def ui_command(arguments: argparse.Namespace) -> int:
    from .ui.command import page

    return page(arguments, _place(arguments))


def serve_command(arguments: argparse.Namespace) -> int:
    from .ui.service.command import service

    return service(arguments, _place(arguments))


def token_command(arguments: argparse.Namespace) -> int:
    from .ui.access.tokens import token

    return token(arguments)


if __name__ == "__main__":
    sys.exit(main())
