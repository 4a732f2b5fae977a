"""What a run will cost, in closed forms: seconds, bytes and messages, before anything is loaded and without torch.

chips: Devices as they compute: peak rates, memory, and which part of them large and small work reaches.
forward: What one forward of a transformer is asked, in the numbers that its time follows from.
machine: A machine to plan for: by name, from a file, or as its own ranks measured it.
measured: A machine as its own ranks measured it: from seconds to rates, and kept as JSON.
outcome: What a denoise took beside what it was predicted to take: numbers, words, the line to keep.
ran: What denoises here were predicted to take and took, kept in a small file of the user's own.
run: A whole run: text, steps, decoding, and what loading takes before the first.
software: How much a step asks of host and memory beside its arithmetic: ours, eager and compiled.
step: One step of a denoise under a plan: what computes, what travels, what hides under what.
units: Seconds and bytes as people read them.
wires: Links between devices: how long an exchange, a gather and a hop take.
"""
