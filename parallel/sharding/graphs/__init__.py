"""Graphs of a module's forward, compiled or captured: when they hold, and who makes them.

kept: What a process knows of each kind of block: the attention calls that it makes, and its graphs, by states.
pieces: A forward that torch cannot take in one graph: in the graphs that it makes of it, and the rest as it is.
recording: What makes CUDA graphs of actions on one device, and what sees that an action can be repeated by one.
traced: A block's forward as it is traced: a mode of its own answers the attention calls, their exchanges by wires.
turns: Compiling in turn: of the ranks that want the same graph one compiles it, and the others read it from the disk.
watched: A watched module: whether all is as it was that a graph of it depends on, besides the tensors it is given.
"""
