"""One tree of errors: each class has its own code, stands in the drawing, and says how a command and an answer end."""

import ast
import builtins
import functools
import importlib
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from latentloom import __main__ as command
from latentloom.nodes.graph.problems import refuse
from latentloom.parallel import errors
from latentloom.parallel.errors import (
    BadInput,
    Cancelled,
    LoomError,
    OutOfMemory,
    RankFailed,
    code_of,
    kind_of,
    where_of,
)
from latentloom.parallel.wording import known_in
from latentloom.ui.access.answers import error_answer
from latentloom.ui.contract.kept import FileText

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [path for top in ("parallel", "pipelines", "nodes", "ui") for path in (ROOT / top).rglob("*.py")]
FOREIGN = {"HTTPException"}
ROW = re.compile(r"^    ([| ]*(?:\+- )?)(\w+) +([a-z-]+) +(\w+) +(\d+)  ([\w/]+\.py)", re.MULTILINE)
BUILTIN = {name for name, it in vars(builtins).items() if isinstance(it, type) and issubclass(it, BaseException)}


@functools.cache
def defined() -> dict[str, str]:
    """The files of all exception classes of the product, by name, found without importing anything."""
    classes = [
        (node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases}, path.relative_to(ROOT).as_posix())
        for path in SOURCES
        if "rror" in (text := path.read_text()) or "xception" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, str] = {}
    known, num_known = BUILTIN | FOREIGN, 0
    while len(known) > num_known:
        num_known = len(known)
        found |= {name: path for name, bases, path in classes if bases & known}
        known |= set(found)
    return found


@functools.cache
def classes() -> dict[str, Any]:
    modules = {name: "latentloom." + file.removesuffix(".py").replace("/", ".") for name, file in defined().items()}
    return {name: getattr(importlib.import_module(module), name) for name, module in modules.items()}


def drawn() -> dict[str, tuple[str, ...]]:
    """Rows of the drawing, by class: parent, code, whose matter it is, HTTP status, file."""
    rows: dict[str, tuple[str, ...]] = {}
    above: list[str] = []
    for indent, name, *rest in ROW.findall(errors.__doc__ or ""):
        del above[len(indent) // 3 :]
        rows[name] = (above[-1] if above else "", *rest)
        above.append(name)
    return rows


def test_the_drawing_is_the_tree() -> None:
    found = {
        name: (
            next((base.__name__ for base in kind.__bases__ if issubclass(base, LoomError)), ""),
            *map(str, (kind.code, where_of(kind.code), kind.http_status)),
            defined()[name],
        )
        for name, kind in classes().items()
    }
    assert drawn() == found


def test_each_class_has_its_own_code_and_known_ends() -> None:
    kinds = classes().values()
    codes = [kind.__dict__.get("code") for kind in kinds]
    assert len(set(codes)) == len(codes) and all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code or "") for code in codes)
    assert {*errors.WHERE} <= {*codes, errors.EASED} and {where_of(code) for code in codes} == set(errors.EXIT_CODES)
    assert all(400 <= kind.http_status < 600 for kind in kinds)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), "bad-input"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), "bad-input"),
        (MemoryError(), "out-of-memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out-of-memory"),
        (OSError(12, "Cannot allocate memory"), "out-of-memory"),
        (RankFailed("rank 1 was ended for want of memory: out of memory"), "rank-failed"),
        (KeyboardInterrupt(), "cancelled"),
        (Cancelled(), "cancelled"),
        (KeyError("x"), "internal"),
        (RuntimeError("x"), "internal"),
    ],
)
def test_what_others_raise_counts_as_one_of_ours(error: BaseException, code: str) -> None:
    assert (code_of(error), kind_of(error).code) == (code, code)


def test_a_class_of_torch_is_known_by_itself_and_not_by_its_name() -> None:
    same_name = type("OutOfMemoryError", (RuntimeError,), {})
    assert kind_of(torch.OutOfMemoryError("none left")) is OutOfMemory
    assert kind_of(same_name("none left")) is LoomError


def test_a_template_and_its_values_make_the_sentence_of_an_error() -> None:
    error = BadInput("node {!r} has {:,} bytes", "a {}", 12345)
    assert str(error) == "node 'a {}' has 12,345 bytes" and str(BadInput("{as it is}")) == "{as it is}"
    assert known_in([str(error)]) == {str(error): {"text_id": "node {} has {} bytes", "values": ["'a {}'", "12,345"]}}


def test_an_error_may_carry_the_code_that_another_process_told() -> None:
    error = BadInput("x", code="not-finite")
    assert code_of(error) == "not-finite" and BadInput.code == "bad-input"


@pytest.mark.parametrize(
    ("kind", "exit_code", "state"),
    [(BadInput, 2, "refused"), (ValueError, 2, "refused"), (RankFailed, 75, "failed"), (OutOfMemory, 75, "failed")],
)
def test_a_command_ends_with_the_code(
    kind: type[Exception],
    exit_code: int,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(arguments: Any) -> int:
        raise kind("odd; give 1")

    monkeypatch.setattr(command, "doctor_command", fail)
    assert command.main(["doctor", "--json"]) == exit_code
    said = capsys.readouterr()
    ends = {"code": code_of(kind()), "where": where_of(code_of(kind())), "retryable": exit_code == 75}
    plain = json.loads(said.out)
    assert [plain.pop(name) is not None for name in ("v", "seq", "time")] == [True] * 3
    assert plain == {"kind": "result", "state": state, "error": "odd; give 1", **ends}
    assert said.err == "latentloom: odd; give 1\n"


@pytest.mark.parametrize("name", ["BadInput", "NoRoom", "NotHere", "Conflict", "NotLoggedIn", "GraphError"])
def test_an_answer_has_the_code_and_the_status(name: str) -> None:
    kind = classes()[name]
    answer = error_answer(refuse("odd", "odd") if name == "GraphError" else kind("odd"), "here")
    told = json.loads(bytes(answer.body))
    assert (answer.status_code, told["error"], told["code"]) == (kind.http_status, "odd", kind.code)


@pytest.mark.parametrize("error", [RankFailed("secret"), OutOfMemory("secret"), KeyError("secret")])
def test_what_the_asker_is_not_to_blame_for_is_told_by_its_code_alone(error: Exception) -> None:
    answer = error_answer(error, "here")
    assert answer.status_code == 500 and json.loads(bytes(answer.body))["code"] == code_of(error)
    assert b"secret" not in bytes(answer.body)


def test_an_answer_that_breaks_the_contract_is_a_fault_of_ours() -> None:
    with pytest.raises(ValidationError) as raised:
        FileText(text=cast(Any, b"\xff"))
    answer = error_answer(raised.value, "here")
    assert (answer.status_code, json.loads(bytes(answer.body))["code"]) == (500, "internal")


@pytest.mark.parametrize(
    ("status", "code"), [(403, "foreign"), (413, "too-large"), (422, "bad-input"), (502, "internal")]
)
def test_a_refusal_by_its_status_alone_has_a_code(status: int, code: str) -> None:
    answer = error_answer(HTTPException(status, "odd"), "here")
    assert json.loads(bytes(answer.body)) == {"error": "odd", "code": code}
