"""One host copy of the weights: ranks that load the same component share the pages of its files."""

import sys
from pathlib import Path
from typing import Any

import pytest

from support.large_models import write_large

NAMES = ("transformer", "text_encoder_2")
OVERHEAD = 0.15  # of the weights, for all ranks together; the bound on 256 MiB is tests/bench/page_cache.py

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps, which Linux has")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large") / "flux"
    write_large(folder, width=320)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_ranks_share_the_pages_of_the_weights(ranks: Any, large: Path, name: str) -> None:
    found = ranks.run("bodies.mapped_weights:load", str(large), name)
    weights = found[0]["weights"]
    assert weights > 24 << 20 and all(each["all_inside"] for each in found)
    assert all(each["Rss"] >= weights and each["Private_Dirty"] == 0 for each in found), "read, and never written"
    assert weights <= sum(each["Pss"] for each in found) <= (1 + OVERHEAD) * weights
    assert all(each["anonymous"] <= OVERHEAD * weights for each in found), "nor copied elsewhere"
