"""How the studio's own transformer is split over ranks."""

from latentloom import SplitPlan, split_plan

PLAN = SplitPlan(
    order=("tokens",),
    blocks=("blocks",),
    inputs={"blocks.0": {"hidden_states": split_plan.tokens(1)}},
    outputs={"proj_out": split_plan.tokens(1)},
)
PLANS = {"LoomExampleTransformer": PLAN}
