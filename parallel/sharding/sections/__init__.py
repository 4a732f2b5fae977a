"""Weights over devices by layers: consecutive blocks of a transformer, a *section*, on each of consecutive ranks.

dealing: Which blocks a section holds: consecutive ones, so that the largest section is as small as can be.
mail: What sections send each other: outputs of blocks, in the sender's order, and words that all of them hear.
sections: One rank's view of a transformer whose blocks are dealt out: it runs its own, the others' outputs come.
waiting: Values that wait: tensors that other ranks are computing, and what a pipeline makes of them before it looks.
walks: A forward under way in one section: what a block that is met gives, and what becomes of what an own one gave.
"""
