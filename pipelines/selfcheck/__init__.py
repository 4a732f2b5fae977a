"""The self-check: does this plan give this model, on this machine, what one process gives? Asked at its first use.

first_use: When a denoise is checked first, on which small one, what comes of it, and where that is kept.
passes: The same calls of a transformer sharded and whole, in fp32 and as the run computes, compared over all ranks.
"""
