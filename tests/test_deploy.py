"""The recipes of `deploy/`: each is short, valid, and asks for what the command line has."""

import copy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from latentloom.__main__ import parser
from support.checkout import ROOT

DEPLOY = ROOT / "deploy"
CUSTOM = {"monitoring.coreos.com/v1", "keda.sh/v1alpha1", "ray.io/v1", "serving.kserve.io/v1beta1"}
VERSIONS = ("1.34", "1.37")
MOST_LINES = 60


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text()) if each]


def core() -> Iterator[tuple[str, dict[str, Any]]]:
    """What a cluster knows without more, and the deployment as it is for Run:AI."""
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for plain in documents(f"kubernetes/{file.name}"):
            if plain.get("apiVersion", "") not in CUSTOM | {""}:
                yield f"{file.name} {plain['kind']}", plain
    yield (
        "runai.yaml Deployment",
        merged(documents("kubernetes/deployment.yaml")[0], *documents("kubernetes/runai.yaml")),
    )


def merged(plain: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """As `kubectl patch` does with one that has no lists."""
    found = copy.deepcopy(plain)
    for name, value in patch.items():
        found[name] = merged(found.get(name, {}), value) if isinstance(value, dict) else value
    return found


def pods() -> dict[str, dict[str, Any]]:
    return {name: plain["spec"]["template"]["spec"] for name, plain in core() if "template" in plain["spec"]}


RECIPES = [file for file in DEPLOY.rglob("*") if file.is_file() and file.suffix not in (".md", ".pyc")]


@pytest.mark.parametrize("file", sorted(RECIPES), ids=lambda file: file.relative_to(DEPLOY).as_posix())
def test_a_recipe_is_short(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("version", VERSIONS)
def test_core_kinds_are_valid(version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for name, plain in core():
        assert kubernetes_validate.validate(plain, version, strict=True) == version, name
    wrong = copy.deepcopy(documents("kubernetes/deployment.yaml")[0])
    container = wrong["spec"]["template"]["spec"]["containers"][0]
    container["readinesProbe"] = container.pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize("name", [*pods()])
def test_a_pod_asks_for_what_the_command_line_has_and_has_time_for_its_grace(name: str) -> None:
    spec = pods()[name]
    (container,) = spec["containers"]
    arguments = parser().parse_args([each.replace("$(JOB_COMPLETION_INDEX)", "3") for each in container["args"]])
    assert arguments.grace + 30 <= spec["terminationGracePeriodSeconds"]
    mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert {"/dev/shm", "/tmp"} <= {*mounted} and {*mounted.values()} <= volumes(name)
    assert spec["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    if "readinessProbe" in container:
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/livez"


def volumes(name: str) -> set[str]:
    plain = dict(core())[name]
    claimed = {each["metadata"]["name"] for each in plain["spec"].get("volumeClaimTemplates", [])}
    return claimed | {each["name"] for each in pods()[name]["volumes"]}


def test_what_scales_asks_for_what_the_service_tells() -> None:
    monitor, scaled = documents("kubernetes/scaling.yaml")
    (kept,) = [each for each in documents("kubernetes/statefulset.yaml") if each["kind"] == "StatefulSet"]
    assert scaled["spec"]["scaleTargetRef"] == {"kind": "StatefulSet", "name": kept["metadata"]["name"]}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= kept["spec"]["template"]["metadata"]["labels"].items()
    metrics = (ROOT / "ui" / "service" / "metrics.py").read_text()
    (trigger,) = scaled["spec"]["triggers"]
    name = trigger["metadata"]["query"].partition("latentloom_")[2].partition("{")[0]
    assert f'_gauge("{name}"' in metrics


def test_compose_and_the_image_ask_for_what_the_command_line_has() -> None:
    (plain,) = documents("compose.yaml")
    service = plain["services"]["latentloom"]
    arguments = parser().parse_args(service["command"])
    assert service["stop_grace_period"] == "11m" and arguments.grace < 11 * 60
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    (command,) = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    assert parser().parse_args(yaml.safe_load(command)).host == "0.0.0.0"


def test_the_unit_asks_for_what_the_command_line_has() -> None:
    unit = DEPLOY / "systemd" / "latentloom.service"
    (start,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    program, *given = start.removeprefix("ExecStart=").split()
    assert program.endswith("/bin/latentloom")
    stops = next(int(line.partition("=")[2]) for line in unit.read_text().splitlines() if "TimeoutStopSec" in line)
    assert parser().parse_args(given).grace + 30 <= stops
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip().splitlines()
    assert [line for line in said if "is not executable" not in line] == []
