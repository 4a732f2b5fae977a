"""Run Pipeline: any pipeline class of diffusers as one node, whose sockets are those of the class.

node: Run Pipeline itself: how its sockets are chosen, which model it runs and where.
sockets: What a pipeline class is called with and gives, as inputs and outputs of a node.
"""
