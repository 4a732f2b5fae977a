"""Which plans a model and a machine allow, how long each takes, and which is taken.

asked: What a run asks of devices, from a model's configs and the headers of its weights, without reading any.
auto: The plan `auto` of a denoise: the planner's for its devices; the rule's where no time can be predicted.
choice: The fastest plan among those that fit: every plan that the model and the machine allow, by its predicted time.
compiling: What is not chosen because it rounds differently, and would be faster: a ring, a compiled transformer; and
    whether steps are replayed as CUDA graphs.
explained: A plan in words: one screen for people, and the same as plain data.
foreseen: What a denoise is predicted to take by its plan, told before it begins.
here: This machine to plan for: what its ranks measured of it, once for its devices, driver and torch, kept for later.
history: What predictions learn from runs that have ended here, and how well they did.
known: This machine to plan for, known at once: what its ranks measured of it before, else data sheets, else
    assumptions.
forecast: What a denoise would do on a machine: all plans with time and memory, the one to take, why not the others.
plans: The plan `auto`: guidance first, then ulysses as far as the heads divide, the rest by allgather.
sharing: How many groups of the devices share out the runs of a sweep: as many as let all of them end soonest.
terms: What a denoise is asked for, of a request or of a workflow before it runs, and what is chosen for it.
"""
