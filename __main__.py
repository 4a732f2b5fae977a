"""The command line: `latentloom run | check | plan | nodes | show | verify | models | comfy | openjd | doctor | ui`.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .parallel.errors import EXIT_CODES, LoomError, as_told, code_of, where_of
from .parallel.machine.folders import user_cache, user_data
from .parallel.machine.waiting import asleep

if TYPE_CHECKING:
    from .pipelines.values import Place

OK, FAILED, BAD, AGAIN, CANCELLED = 0, *(EXIT_CODES[where] for where in ("us", "input", "machine", "user"))
SHORT = ("check", "nodes", "show")  # commands that end in less than a second, and leave no garbage worth the search


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; a user's mistake is one sentence on stderr.

    Without arguments given here the process is this command, see `as_program`.
    """
    arguments = parser().parse_args(argv)
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
    try:
        if getattr(arguments, "memory", None) is not None:
            from .pipelines.components.memory import limit_memory

            limit_memory(arguments.memory)
        if arguments.opens_doors:
            from .nodes.registry import open_doors

            open_doors(getattr(arguments, "nodes_dir", None))
        code = arguments.command(arguments)
        print(end="", flush=True)  # nothing is left to say when the process ends
    except (ValueError, LoomError) as error:
        if arguments.debug:
            raise
        code = EXIT_CODES[where_of(code_of(error))]
        if getattr(arguments, "json", False):
            state = "refused" if isinstance(error, ValueError) else "failed"
            print(json.dumps({"kind": "result", "state": state, "error": str(error), **as_told(code_of(error))}))
        print(f"latentloom: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("latentloom: cancelled", file=sys.stderr)
        code = CANCELLED
    except BrokenPipeError:  # `latentloom nodes | head`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (Python would complain once more when it ends)
        code = OK
    if getattr(arguments, "cluster", ""):
        from .pipelines.cluster.head import leave

        leave(code)
    return code


def parser() -> argparse.ArgumentParser:
    from . import __version__
    from .nodes.headless import options

    top = argparse.ArgumentParser(prog="latentloom", description="Workflow nodes for generative media.")
    top.add_argument("--version", action="version", version=f"latentloom {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    options.run_options(_command(commands, "run", run_command, "run a workflow file"))

    check = _command(commands, "check", check_command, "say everything that is wrong with a workflow file")
    check.add_argument("file", type=Path)
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    check.add_argument("--sweep", action="append", default=[], metavar="NAME=1..4")
    options.reading_options(check)

    plan = _command(commands, "plan", plan_command, "say how a model or workflow would run here, or on a machine to be")
    options.plan_options(plan)

    nodes = _command(commands, "nodes", nodes_command, "list the nodes, or describe one")
    nodes.add_argument("id", nargs="?", default="")
    options.nodes_option(nodes)

    show = _command(commands, "show", show_command, "print the workflow that a picture, video or sound carries")
    show.add_argument("file", type=Path)
    show.add_argument("--comfyui", action="store_true", help="as a ComfyUI API prompt")

    says = "check that a model gives the same on several devices as on one"
    verify = _command(commands, "verify", verify_command, says)
    options.verify_options(verify)

    models = _command(commands, "models", models_command, "list the models on this machine, or pull one from the hub")
    models.add_argument("action", nargs="?", choices=["list", "pull"], default="list")
    models.add_argument("id", nargs="?", default="", help="of a model to pull, such as Qwen/Qwen-Image")
    models.add_argument("--revision", default="", help="branch, tag or commit to pull")
    models.add_argument("--models-dir", **options.FOLDERS, help="a folder of models")

    comfy = _command(commands, "comfy", comfy_command, "put the nodes into a ComfyUI, without a change to what it has")
    says = "link this package into its custom_nodes, with what its Python lacks"
    comfy.add_argument("action", choices=["install"], help=says)
    comfy.add_argument("folder", type=Path, metavar="DIR", help="of ComfyUI, which has its main.py")
    says = "that runs ComfyUI (default: of DIR/venv, DIR/.venv or DIR/../python_embeded)"
    comfy.add_argument("--python", type=Path, metavar="PYTHON", help=says)
    comfy.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")

    says = "print a workflow with its sweep as a template of an Open Job Description"
    options.openjd_options(_command(commands, "openjd", openjd_command, says))

    doctor = _command(commands, "doctor", doctor_command, "say what is wrong with this machine and how to mend it")
    for command in (comfy, doctor):
        command.set_defaults(opens_doors=False)
    for command in (check, plan, nodes, verify, models, comfy, doctor):
        command.add_argument("--json", action="store_true")

    if (Path(__file__).parent / "ui").is_dir():  # ComfyUI's registry leaves the page out
        from .ui.options import add_options

        ui = _command(commands, "ui", ui_command, "open the page that builds, runs and keeps workflows")
        add_options(ui)
        options.nodes_option(ui)
        ui.set_defaults(cluster="")
    return top


def _command(commands: Any, name: str, body: Callable[..., int], summary: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    command.set_defaults(command=body, opens_doors=True, is_short=name in SHORT)
    command.add_argument("--debug", action="store_true", help="show where an error came from")
    return command


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
    )
    how = {"as_json": arguments.json, "stops_on_error": arguments.stop_on_error, "openjd": arguments.openjd}
    tally = run_shown(job, debug=arguments.debug, **how)
    if tally.state == "failed" and tally.is_retryable:
        return AGAIN
    return {"ok": OK, "failed": FAILED, "cancelled": CANCELLED}[tally.state]


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
        print(pull(arguments.id, revision=arguments.revision))
        return OK
    from .pipelines.models.installed import as_text, installed_models

    found = installed_models(arguments.models_dir)
    return _told(arguments, [model.to_plain() for model in found], as_text(found))


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


def ui_command(arguments: argparse.Namespace) -> int:
    from .ui.command import serve
    from .ui.options import prepare_gradio, read_settings

    data_dir = user_data() or Path("latentloom-data")
    settings = read_settings(arguments, place=_place(arguments), default_data_dir=data_dir)
    prepare_gradio(settings)
    serve(settings, opens_browser=arguments.open)
    return OK


if __name__ == "__main__":
    sys.exit(main())
