"""Split plan of DreamLite's attention stage: picture tokens, and text by cross attention."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan
from . import pixart

PLANS: dict[str, SplitPlan] = {"DreamLiteTransformer2DModel": pixart.PLANS["Transformer2DModel"]}
