"""Parallel denoising: one transformer on many devices, exactly. Imports nothing of the layers above.

agreement: Decisions that all ranks of a group take alike: measured over everybody's tokens, and put to one vote.
collectives: The only file that issues collectives. It counts what this rank sends.
errors: What can go wrong, as one tree: each class has a code, and by it everybody tells what happened.
group: A group: the ranks that work together along one axis of a plan, and what one of them has sent over it.
layout: A layout: the token streams of one forward, and which rank holds which tokens of each.
mesh: The mesh: which ranks work together along which axis of a plan.
plan: A parallel plan: how one denoise uses the devices, written `cfg=2,ulysses=2,ring=2`.
process_groups: The process groups within the process group of all ranks: what each is for, and that each is made once.
recent: What was used of late, within a budget of bytes: the least recently used goes first.
staging: The way between an accelerator and the host's memory, piece by piece, and files without a name.
progress: The step border: where running work reports progress and learns that it was cancelled; what a stage costs.
together: Weights that several ranks of a machine need alike, read once: each reads a share, and all gather the rest.
traffic: What each rank of an attention call holds and sends: heads, bytes and messages.
wording: Sentences for people, whose values are kept apart so that a page can say them in another language.
attention/: Attention over a sequence that is spread over ranks: the strategies, and how a plan composes them.
machine/: What this machine is: its devices, memory, links and limits, asked with deadlines and without torch.
pool/: The host's side of a pool: processes that outlive jobs, watched by deadlines, replaced when they die.
ranks/: The ranks' side of a pool: what runs in its processes, and what they and the host say to each other.
sharding/: How a module is cut: hooks on its blocks spread the tokens, and a session answers attention between.
spatial/: A convolutional decoder over bands of rows, one for each rank, which exchange the rows at their edges.
streaming/: Blocks that rest in the host's memory and come to a device while the one before them computes.
"""
