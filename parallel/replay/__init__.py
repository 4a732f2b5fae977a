"""Forwards replayed as CUDA graphs, collectives included; what records them knows no transformer.

captured: The calls of a module as graphs, told apart by all that a graph depends on, and dropped before a group goes.
recording: What makes graphs of actions on one device, and sees what an action reads.
state: What of a module a graph depends on beside the tensors that it is called with, as one mark for each call.
"""
