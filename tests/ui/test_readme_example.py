"""The example of runs by name in `ui/README.md` runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).resolve().parents[2] / "ui" / "README.md").read_text()


def block_with(word: str) -> str:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if word in block)
    assert "http://127.0.0.1:7860/" in code
    return code


def test_the_readmes_runs_by_name_are_made_and_told(page_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # with one key
        exec(block_with("httpx").replace("http://127.0.0.1:7860/", page_server.url), {})  # noqa: S102 (our own text)
    first, second, *again = capsys.readouterr().out.splitlines()
    assert (first, second[:13]) == ("done", "ok ['/loom/fi") and again == [first, second]
