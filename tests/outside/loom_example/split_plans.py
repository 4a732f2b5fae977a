"""How the studio's own transformer is split over ranks."""

from latentloom import SplitPlan
from latentloom.parallel.sharding.split_plan import tokens

PLAN = SplitPlan(
    order=("tokens",),
    blocks=("blocks",),
    inputs={"blocks.0": {"hidden_states": tokens(1)}},
    outputs={"proj_out": tokens(1)},
)
PLANS = {"LoomExampleTransformer": PLAN}
