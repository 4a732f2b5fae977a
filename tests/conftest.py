"""Make the checkout importable as `latentloom`, whatever its folder is called and whether or not it is installed."""

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

ROOT = Path(__file__).resolve().parent.parent

if importlib.util.find_spec("latentloom") is None:
    spec = importlib.util.spec_from_file_location(
        "latentloom", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["latentloom"] = module
    spec.loader.exec_module(module)
