"""An example of what a studio adds from outside: three nodes, a wire type, a family of models and a split plan.

nodes: A palette with its own wire type, a tint that takes it, and a canvas that says what it would make.
family: A family that paints the negative of what FLUX paints, from the parts of one of its models.
transformer: A transformer of the studio's own.
split_plans: How that one is split over ranks.
ranks: What ranks do in the test of it.
"""
