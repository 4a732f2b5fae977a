"""Blocks that rest in the host's memory and come to a device while the one before them computes, with the same bits.

forwards: Another forward in the place of a block's, and its own again afterwards.
layout: Where the tensors of a block lie, at rest and in a slot of the device, and how a block is pointed at either.
movers: What brings a block into a slot: a thread on a CPU, a copy stream and events on a GPU.
pinned: Where blocks rest that a GPU reads by itself: pinned memory, one copy for all processes that hold the same.
streamed: The blocks of one module, some of them resident, the others brought in turn into two slots.
"""
