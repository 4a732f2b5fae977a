"""A run: what is due, in which order, what it made, what is kept of it and how it failed.

attempt: One run of a workflow into a folder of its own: what it may read, what its results carry, and its manifest.
cache: Results by key, in memory and on disk; those used least lately are dropped when they exceed the budget.
circumstances: The circumstances of a run, on which no result depends: when, by which command, on which
    machine, as whose job.
events: What a run tells its watchers: one small frozen event per change, the same for a command line, a page and a
    host.
failure: How a node's failure is told: one sentence for the user, the cause kept for whoever debugs.
manifest: `manifest.json`: what a run was given, what it made, with which versions, and in which circumstances.
models_used: The models that a workflow uses: revision, LoRAs, and each file of weights by its header.
outlook: How long a run will take yet: what was predicted of its nodes, corrected as their steps are done.
preflight: Whether a workflow will run, found before it does: wiring and values, then files, models, plans, memory
    and disk.
records: What became of a run and of each of its nodes.
run: The executor: calls the nodes a result needs, in order, each at most once, and tells what happens.
schedule: What a run will do, known before it starts: which nodes its results need, in which order, and their keys.
watch: Watching a run: its clock, its events, and the token that ends it; and runs that overlap, by what each tells.
"""
