"""The recipes of deploy/ for Slurm, Triton, KServe and Ray: short, readable by what they are for, and of one mind.

No cluster has seen the custom resources: the pods within them are read by Kubernetes' own schemas, strictly. What runs
the recipes is in tests/bench/deploy/, by hand.
"""

import ast
import copy
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import latentloom
from latentloom.parallel.errors import Cancelled

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
KUBERNETES = "1.34.0"
# Which fields of InferenceService's predictor are KServe's own; all others are a pod's.
OF_KSERVE = {"minReplicas", "maxReplicas", "scaleMetric", "scaleTarget", "containerConcurrency", "timeout"}
VERSIONS = {"ray/rayservice.yaml": "ray.io/v1", "kserve/inferenceservice.yaml": "serving.kserve.io/v1beta1"}
RECIPES = [
    *(DEPLOY / "slurm").glob("*.sbatch"),
    *(path for name in ("triton", "kserve", "ray") for path in (DEPLOY / name).rglob("*.*") if path.suffix != ".pyc"),
]


def resource(name: str) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / name).read_text())


def pods(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What is a pod's specification in it."""
    spec = found["spec"]
    if found["kind"] == "InferenceService":
        return [{name: value for name, value in spec["predictor"].items() if name not in OF_KSERVE}]
    cluster = spec["rayClusterConfig"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def check(pod: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": pod}
    kubernetes_validate.validate(whole, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", VERSIONS)
def test_the_pods_of_a_custom_resource_are_valid_and_a_misspelt_field_is_none(name: str) -> None:
    found = resource(name)
    assert found["apiVersion"] == VERSIONS[name]
    assert (DEPLOY / name).read_text().startswith(f"# Not applied to a cluster. {VERSIONS[name]}, as in K")
    for pod in pods(found):
        check(pod)
        wrong = copy.deepcopy(pod)
        wrong["containers"][0]["readinesProbe"] = {}
        with pytest.raises(Exception, match="readinesProbe"):
            check(wrong)


def test_what_rayservice_names_is_in_the_application() -> None:
    serve = yaml.safe_load(resource("ray/rayservice.yaml")["spec"]["serveConfigV2"])["applications"][0]
    module, _, builder = serve["import_path"].partition(":")
    parsed = ast.parse((DEPLOY.parent / f"{module.replace('.', '/')}.py").read_text())
    named = {node.name: node for node in parsed.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert builder in named and {each["name"] for each in serve["deployments"]} <= named.keys()
    made = next(node for node in named["Painter"].body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert serve["args"].keys() <= {argument.arg for argument in made.args.args}


def test_triton_s_model_reads_what_its_configuration_gives() -> None:
    config = (DEPLOY / "triton/latentloom/config.pbtxt").read_text()
    model = (DEPLOY / "triton/latentloom/1/model.py").read_text()
    given = dict(re.findall(r'key: "(\w+)"\s+value:? \{\s*string_value: [\'"](.*)[\'"]\s*\}', config))
    assert given.keys() == set(re.findall(r'given\["([a-z]+)"\]', model))
    assert json.loads(given["arguments"])["num_inference_steps"] == 16
    inputs = set(re.findall(r'\{ name: "(\w+)"', config.partition("output")[0]))
    assert inputs == set(re.findall(r'given\["([A-Z]+)"\]', model))


class Pipeline:
    """Stands for a pool's: asks at each of three steps whether it is to end."""

    is_cancelled = False

    def __call__(self, *, prompt: str, on_step: Callable[[int, int], None], **_: Any) -> SimpleNamespace:
        for step in range(3):
            on_step(step, 3)
            if self.is_cancelled:
                raise Cancelled
        if not prompt:
            raise ValueError("there is no prompt; give one")
        return SimpleNamespace(images=[np.zeros((2, 2, 3), np.uint8)])

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.mark.parametrize(
    ("prompt", "is_cancelled", "told"),
    [("a star", False, (2, 2, 3)), ("", False, "INVALID_ARG"), ("a star", True, "CANCELLED")],
)
def test_triton_s_model_answers_refuses_and_hears_a_cancel(
    prompt: str, is_cancelled: bool, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By stand-ins of Triton's module and of the pool."""

    class Error(Exception):
        CANCELLED, INVALID_ARG, INTERNAL = "CANCELLED", "INVALID_ARG", "INTERNAL"

    triton = ModuleType("triton_python_backend_utils")
    response = {"InferenceResponse": lambda tensors=(), error=None: error or tensors, "TritonError": Error}
    vars(triton).update(response, Tensor=lambda name, value: value)
    monkeypatch.setitem(sys.modules, triton.__name__, triton)
    monkeypatch.setattr(
        latentloom, "Pool", lambda devices: SimpleNamespace(spread=lambda *_: Pipeline()), raising=False
    )
    model = runpy.run_path(str(DEPLOY / "triton/latentloom/1/model.py"))["TritonPythonModel"]()
    given = {"devices": "cpu", "source": "builtin:bobbin", "plan": "", "arguments": "{}"}
    config = {"parameters": {name: {"string_value": value} for name, value in given.items()}}
    model.initialize({"model_config": json.dumps(config)})
    values = {"PROMPT": prompt.encode(), "SEED": 7}
    inputs = [
        SimpleNamespace(name=lambda name=name: name, as_numpy=lambda value=value: np.array([value], dtype=object))
        for name, value in values.items()
    ]
    [found] = model.execute([SimpleNamespace(inputs=lambda: inputs, is_cancelled=lambda: is_cancelled)])
    assert (found.args[1] if isinstance(found, Error) else found[0].shape) == told


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(DEPLOY).as_posix())
def test_a_recipe_has_under_sixty_lines_and_parses(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < 60
    if path.suffix == ".sbatch":
        subprocess.run(["bash", "-n", path], check=True)
        assert "#SBATCH --requeue" in text and "#SBATCH --signal=B:TERM@120" in text and "--resume --grace 90" in text
    elif path.suffix == ".py":
        ast.parse(text)


def test_every_script_that_is_named_is_there() -> None:
    named = set(re.findall(r"tests/bench/deploy/\w+\.py", (DEPLOY / "README.md").read_text()))
    assert len(named) >= 4 and all((DEPLOY.parent / name).exists() for name in named)
