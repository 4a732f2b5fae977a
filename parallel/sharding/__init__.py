"""How a module is cut: hooks on its blocks spread the tokens, and a session answers the attention calls between.

captured: Forwards replayed as CUDA graphs: one launch for all the kernels of a forward, collectives included.
compiled: Compiling the blocks of a transformer: their forwards, each in a graph that all blocks of its kind share.
cutting: Following a split plan's specs: arguments are cut to this rank's part, outputs gathered.
fingerprint: Are all ranks given the same inputs? Asked on the first call, and of each job.
graphs/: Graphs of a module's forward, compiled or captured: when they hold, and who makes them.
halo: Halo exchange: the edges of the neighbours' parts, for convolutions along the sequence.
hooks: The hooks by which a split plan is followed.
operator: Sharded attention as one opaque operator, so that `torch.compile` takes a block in one graph.
padding: Padding: the keys of a text that every row of a batch hides, and so are left out of attention.
sections/: Weights over devices by layers: consecutive blocks of a transformer, a *section*, on consecutive ranks.
session: A session: one sharded transformer at work, which answers attention.
shard: Sharding a transformer from outside, and taking it back: the module itself is not changed.
split_plan: A split plan: how one transformer class is cut along its token sequence, as data.
streams: The streams of the forward under way: how many tokens each has, and which of them this rank holds.
unsharded: Leaving padding out of a transformer that is on one device whole: hooks on it alone, none on its blocks.
weights: Weight sharding: the ranks of a group hold the weights between them, and gather each block as it runs.
"""
