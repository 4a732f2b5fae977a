"""Which plans a model and a machine allow, what memory each needs, and which is taken.

asked: What a run asks of devices, from a model's configs and the headers of its weights, without reading any.
memory: What a run of a model holds of each device's memory, known before anything is loaded.
plans: The plan `auto`: guidance first, then ulysses as far as the heads divide, the rest by allgather.
weights: How large a model's weights are, from the headers of its files: what a device will hold, and what it may
    share.
"""
