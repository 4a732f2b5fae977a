"""The workflow: its file, its nodes and values, and what is wrong with it. Nothing here runs anything.

check: The checker: everything that is wrong with a workflow, found before anything runs and reported all at once.
graph: The workflow file, formats 1 and 2: what it holds, reading it and writing it, and the order of its nodes.
problems: What is wrong with a workflow: one `Problem` per fault, the error that carries all of them, and JSON that is
    none.
ready: A workflow made ready: ordinary nodes of today's versions, with their values, sockets and modes decided.
resolve: From the file to what nodes are called with: older nodes upgraded, overrides and params in, defaults filled.
scalars: What a scalar socket accepts: the one place where types, ranges and choices of plain values are checked.
schema: The JSON Schema of the workflow file, generated from its model and committed beside it.
signature: A node's signature, read: its parameters are inputs, its return type is the output, `Annotated` holds the
    rest.
sketch: What a node would make, told before anything runs: values of the wires without tensors, found without torch.
spec: The node spec: all that a page, a host, a checker or a command line knows of a node; how some get their sockets.
unfolding/: Sub-workflows and for-each: a workflow with them as one of ordinary nodes, with ordinary keys.
"""
