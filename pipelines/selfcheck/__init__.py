"""The self-check: does this plan give this model, on this machine, what one process gives? Asked at its first use.

first_use: When a denoise is checked first, on which small one, and what comes of it.
passes: The same calls of a transformer sharded and whole, in fp32 and as the run computes, compared over all ranks.
verdicts: What a check found, and where that is kept for the next run.
"""
