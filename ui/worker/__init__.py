"""The worker: the process in which runs are made, so that no work of a user's keeps the server from answering.

process: The server's end of the worker: started, heard, ended where a node holds it up, and begun anew when it died.
program: What the worker does: runs in threads, told of a line at a time, gone with the server.
wire: What server and worker say to each other, a line of JSON each.
work: How a run is made, what it tells meanwhile, how it ends, what it made; and this done in the process that asks.
"""
