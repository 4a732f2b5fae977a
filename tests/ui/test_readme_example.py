"""The example of `gradio_client` in `ui/README.md` runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).resolve().parents[2] / "ui" / "README.md").read_text()


def test_the_readmes_client_fetches_a_picture(page_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "gradio_client" in block)
    assert "http://127.0.0.1:7860/" in code
    exec(code.replace("http://127.0.0.1:7860/", page_server.url), {})  # noqa: S102 (our own text)
    assert capsys.readouterr().out.strip().endswith(".png")
