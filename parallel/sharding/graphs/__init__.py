"""Graphs of a module's forward, compiled or captured: when they hold, and who makes them.

turns: Compiling in turn: of the ranks that want the same graph one compiles it, and the others read it from the disk.
watched: A watched module: whether all is as it was that a graph of it depends on, besides the tensors it is given.
"""
