"""Sub-workflows and for-each: a workflow with them as one of ordinary nodes, with ordinary keys.

lists: The elements of a for-each's list, and why they cannot be had.
subs: Sub-workflows: the spec of a node that uses one, where its nodes come to lie, and those that cannot be unfolded.
unfold: From a workflow with sub-workflows and for-each to one without.
unfolded: A workflow that was unfolded: the way back to places in the file, and what a for-each gives, gathered.
"""
