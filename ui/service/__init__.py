"""The service: the page's server, queue and routes for programs, without the page and without Gradio.

app: The service as an ASGI app: the page's routes behind the same gate, what a cluster asks a service for, and a log
    of all that was asked.
command: What `latentloom serve` does: listen, say where, and drain when it is asked to end.
health: Whether the service lives, and whether it may be sent work: states for probes, which anybody may ask for.
metrics: What a service tells Prometheus, made anew for each look: queue, runs, stages, memory, ranks, predictions.
"""
