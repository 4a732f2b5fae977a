"""The options of the commands; those of the page are in `ui/options.py`."""

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ...parallel.errors import BadInput
from ...parallel.machine.logs import LEVELS
from .stream import SCHEMAS, print_end

Options = Callable[[argparse.ArgumentParser], None]  # gives a command its own


class Parser(argparse.ArgumentParser):
    """Says what is wrong with arguments to programs, too, where they ask for JSON. The options of a command are made
    once it is the one that is asked for."""

    options: Options | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        if self.options is not None:
            self.options(self)
            self.options = None
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if "--json" in self._given:
            print_end(BadInput(message))
        super().error(message)


def _seconds(text: str) -> float:
    if not 0.0 <= (value := float(text)) < math.inf:
        raise ValueError
    return value


_seconds.__name__ = "number of seconds"  # which argparse's sentence says
FOLDERS: dict[str, Any] = {"action": "append", "type": Path, "default": [], "metavar": "DIR"}


def run_options(run: argparse.ArgumentParser) -> None:
    add = run.add_argument
    says = "a workflow, or a picture, video or sound that latentloom made; of several each is run, one after another"
    add("files", type=Path, nargs="*", metavar="FILE", help=says)
    says = "a file, or - for the input, with a job on each line: " + '{"workflow": ..., "params": {...}}'
    add("--jobs", type=Path, metavar="FILE", help=says)
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter, or node.socket")
    add("--sweep", action="append", default=[], metavar="NAME=1..4", help="a run for each: 1..9:2 or a,b,c")
    says = "of several runs every N-th, with I from 0 on (default: that of a Slurm array's or an indexed Job's task)"
    add("--shard", default="", metavar="I/N", help=says)
    says = "of each run's folder: {workflow}, {index}, {date} or a value such as {seed}; no other result is replaced"
    add("--name", default="", metavar="TEMPLATE", help=says)
    add("--out", type=Path, default=Path("output"), metavar="DIR", help="where results go (default: output)")
    add("--overwrite", action="store_true", help="files of other runs give way (default: new ones get a number)")
    add("--resume", action="store_true", help="skip runs that are complete already; those that failed come last")
    add("--force", action="store_true", help="run what seems too large, which is an estimate")
    says = "after SIGTERM or Ctrl-C, finish what is under way if it takes no longer, and begin nothing (default: 0)"
    add("--grace", type=_seconds, default=0.0, metavar="SECONDS", help=says)
    add("--stop-on-error", action="store_true", help="end a sweep at the first run that fails")
    reading_options(run)
    add("--max-pixels", type=int, metavar="N", help="of a picture that is read or resized (default: 64 million)")
    add("--cache", type=Path, default=None, metavar="DIR", help="where results are kept for the next run")
    add("--no-cache", action="store_true", help="make everything anew and keep nothing")
    add("--devices", default="", metavar="LIST", help="all, cpu*4, cuda:0,cuda:1: one rank on each")
    says = "how a denoise uses them: cfg=2,ulysses=2, auto, or auto,compiled, which compiles the transformer "
    add("--plan", default="", help=says + "(default: the workflow's, or auto)")
    says = "groups of devices that work on separate runs (default: of a sweep as many as end it soonest, else one)"
    add("--replicas", type=int, metavar="N", help=says)
    add("--cluster", default="", metavar="ADDRESS", help="a Ray cluster; the devices are of each machine")
    says = "a plan's first use with a model is not checked against one device"
    add("--no-self-check", action="store_true", help=says)
    told = run.add_mutually_exclusive_group()
    says = "progress and failures as a session of Open Job Description reads them"
    told.add_argument("--openjd", action="store_true", help=says)
    told.add_argument("--json", action="store_true", help="events and the result as JSON, one object a line")
    add("-q", "--quiet", action="store_true", help="results and errors alone, no progress; with --json no events")
    log_options(run)


def rerun_options(rerun: argparse.ArgumentParser) -> None:
    add = rerun.add_argument
    add("file", type=Path, metavar="MANIFEST", help="the manifest.json that a run left, or its folder")
    add("--strict", action="store_true", help="refuse where versions, models, devices or the plan are others than then")
    add("--out", type=Path, default=Path("rerun"), metavar="DIR", help="where results go (default: rerun)")
    add("--force", action="store_true", help="run what seems too large, which is an estimate")
    reading_options(rerun)
    add("--devices", default="", metavar="LIST", help="in place of those of then: all, cpu*4, cuda:0,cuda:1")
    add("--plan", default="", help="in place of that of then: cfg=2,ulysses=2, auto")
    add("--json", action="store_true", help="differences, events and results as JSON, one object a line")
    add("-q", "--quiet", action="store_true", help="differences, results and errors alone, no progress")
    log_options(rerun)


def log_options(command: argparse.ArgumentParser) -> None:
    """Of a command that works for a while."""
    says = "what is logged, on stderr (default: LATENTLOOM_LOG_LEVEL, or warning)"
    command.add_argument("--log-level", choices=LEVELS, help=says)
    says = "log in lines of JSON, each with the id of the run that it is about (default: LATENTLOOM_LOG_JSON)"
    command.add_argument("--log-json", action="store_true", help=says)


def check_options(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", type=Path)
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    check.add_argument("--sweep", action="append", default=[], metavar="NAME=1..4")
    reading_options(check)
    json_option(check)


def openjd_options(openjd: argparse.ArgumentParser) -> None:
    add = openjd.add_argument
    add("file", type=Path, help="a workflow, whose params become parameters of the job")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter's default, or node.socket")
    add("--sweep", action="append", default=[], metavar="NAME=1..4", help="becomes the tasks of the job")
    add(
        "--chunk", type=int, default=1, metavar="N", help="runs of one process: N values of the last whole number swept"
    )
    add("--out", type=Path, default=Path("output"), metavar="DIR", help="where results go (default: output)")
    add("--run", default="", metavar="OPTIONS", help='more options of run, such as --run="--devices all"')
    nodes_option(openjd)


def plan_options(plan: argparse.ArgumentParser) -> None:
    add = plan.add_argument
    add("what", nargs="?", default="", metavar="MODEL|WORKFLOW", help="a folder, hub id or builtin:NAME, or a workflow")
    add("--history", action="store_true", help="what runs here took beside what was predicted, of all models or of one")
    add("--machine", default="here", help="8xH100-nvlink, 4x4090-pcie4, a JSON file (default: this one)")
    add("--devices", type=int, default=0, metavar="N", help="how many of its devices (default: all)")
    add("--size", default="", metavar="WxH", help="pixels (default: the model's own)")
    for name, words in {"frames": "of a video", "steps": "of a denoise", "batch": "pictures at a time"}.items():
        add(f"--{name}", type=int, default=0, metavar="N", help=words)
    add("--guidance", type=float, default=0.0, metavar="SCALE", help="1 is off")
    add("--runs", dest="num_runs", type=int, default=1, metavar="N", help="of a sweep: all together are to end soonest")
    add("--dtype", default="auto", choices=["auto", "fp32", "bf16", "fp16"], help="of a model")
    add("--quantization", default="none", choices=["none", "int8", "int4", "fp8"], help="of a model")
    add("--engine", default="eager", choices=["eager", "inductor", "tensorrt"], help="of a model")
    add("--compiled", dest="engine", action="store_const", const="inductor", help="--engine inductor")
    add("--compare", action="store_true", help="all plans, with their time and memory")
    add("--measure", action="store_true", help="measure this machine anew (about ten seconds)")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="of a workflow")
    add("--online", action="store_true", help="ask the hub for the sizes of models that are not here")
    reading_options(plan)
    json_option(plan)


def nodes_options(nodes: argparse.ArgumentParser) -> None:
    nodes.add_argument("id", nargs="?", default="")
    nodes_option(nodes)
    json_option(nodes)


def show_options(show: argparse.ArgumentParser) -> None:
    show.add_argument("file", type=Path)
    show.add_argument("--comfyui", action="store_true", help="as a ComfyUI API prompt")


def verify_options(verify: argparse.ArgumentParser) -> None:
    add = verify.add_argument
    add("--model", default="builtin:bobbin", metavar="SOURCE", help="a folder, hub id or builtin:NAME")
    add("--plan", action="append", default=[], metavar="PLAN", help="such as ulysses=2,ring=2")
    add("--device", default="auto", help="auto, cpu or cuda; on a CPU two processes stand for devices")
    add("--dtype", default="auto", help="auto, fp32, bf16 or fp16")
    add("--size", default="", metavar="WxH", help="pixels of the picture (default: a small one)")
    add("--timeout", type=float, default=900.0, metavar="SECONDS")
    json_option(verify)


def models_options(models: argparse.ArgumentParser) -> None:
    add = models.add_argument
    add("action", nargs="?", choices=["list", "pull"], default="list")
    add("id", nargs="?", default="", help="of a model to pull, such as Qwen/Qwen-Image")
    add("--revision", default="", help="branch, tag or commit to pull")
    says = "a part that is not pulled: transformer_ref of MiniMax H3, by which it looks at reference pictures"
    add("--without", action="append", default=[], metavar="PART", help=says)
    add("--models-dir", **FOLDERS, help="a folder of models")
    json_option(models)


def comfy_options(comfy: argparse.ArgumentParser) -> None:
    add = comfy.add_argument
    says = "link this package into its custom_nodes, with what its Python lacks"
    add("action", choices=["install"], help=says)
    add("folder", type=Path, metavar="DIR", help="of ComfyUI, which has its main.py")
    says = "that runs ComfyUI (default: of DIR/venv, DIR/.venv or DIR/../python_embeded)"
    add("--python", type=Path, metavar="PYTHON", help=says)
    add("--dry-run", action="store_true", help="say what would be changed, and change nothing")
    json_option(comfy)


def schema_options(schema: argparse.ArgumentParser) -> None:
    schema.add_argument("name", choices=["workflow", *SCHEMAS])


def json_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true")


def reading_options(command: argparse.ArgumentParser) -> None:
    """Of a command that reads workflows and models."""
    command.add_argument("--memory", default="", metavar="10GB", help="what may be taken of each device (default: all)")
    command.add_argument("--allow", **FOLDERS, help="a folder it may read from")
    command.add_argument("--models-dir", **FOLDERS, help="a folder of models")
    nodes_option(command)


def nodes_option(command: argparse.ArgumentParser) -> None:
    says = "a folder of your own nodes, families and split plans, whose code is run (default: LATENTLOOM_NODES)"
    command.add_argument("--nodes", dest="nodes_dir", metavar="DIR", help=says)
