"""What a run will cost, in closed forms: seconds, bytes and messages, before anything is loaded and without torch.

chips: Devices as they compute, what joins them, and what software asks of both: rates, memory, kernels and launches.
machine: A machine to plan for: by name, from a file, or as its own ranks measured it.
measured: A machine as its own ranks measured it: from seconds to rates, and kept as JSON.
ran: What denoises here were predicted to take and took: seen by ranks, and kept in a small file of the user's own.
run: A whole run: text, steps, decoding, loading before the first; and seconds and bytes as people read them.
step: One step of a denoise under a plan: what computes, travels and hides; and what the run around it asks.
"""
