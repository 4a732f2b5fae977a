"""What a run will cost, in closed forms: seconds, bytes and messages, before anything is loaded and without torch.

chips: Devices as they compute, and what software asks of them: rates, memory, kernels and launches of a step.
machine: A machine to plan for: by name, from a file, or as its own ranks measured it.
measured: A machine as its own ranks measured it: from seconds to rates, and kept as JSON.
ran: What denoises here were predicted to take and took: seen by ranks, and kept in a small file of the user's own.
run: A whole run: text, steps, decoding, and what loading takes before the first.
step: One step of a denoise under a plan, and what one forward of it is asked: what computes, travels and hides.
units: Seconds and bytes as people read them.
wires: Links between devices: how long an exchange, a gather and a hop take.
"""
