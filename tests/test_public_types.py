"""What pyrefly sees of our public names, in `public_use.py`; what basedpyright sees: `bench/public_types.py`."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USE = ROOT / "tests" / "public_use.py"
SETTINGS = """
preset = "strict"
search-path = ["lib"]
project-includes = ["public_use.py"]
python-version = "3.11"
[errors]
untyped-import = "ignore"
"""


def test_a_checker_refuses_what_is_wrong_in_a_user_s_script_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "latentloom").symlink_to(ROOT)
    (tmp_path / "public_use.py").write_text(USE.read_text())
    (tmp_path / "pyrefly.toml").write_text(SETTINGS)
    command = [sys.executable, "-m", "pyrefly", "check", "--output-format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {error["line"]: error["description"] for error in json.loads(done.stdout)["errors"]}
    lines = enumerate(USE.read_text().splitlines(), 1)
    assert sorted(found) == [number for number, line in lines if line.endswith("# WRONG")], found
