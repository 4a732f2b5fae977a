"""Importing this makes the checkout importable as `latentloom`, whatever its folder is called; no hub is reached."""

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tests have more processes than there are cores: none may spin

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
if str(TESTS) not in sys.path:  # what ranks run is imported by name, here and there
    sys.path.append(str(TESTS))

if importlib.util.find_spec("latentloom") is None:
    spec = importlib.util.spec_from_file_location(
        "latentloom", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["latentloom"] = module
    spec.loader.exec_module(module)
