"""Which plans a model and a machine allow, what memory each needs, and which is taken.

memory: What a run of a model holds of each device's memory, known before anything is loaded.
plans: The plan `auto`: guidance first, then ulysses as far as the heads divide, the rest by allgather.
weights: How large a model's weights are, from the headers of its files: what a device will hold, and what it may
    share.
"""
