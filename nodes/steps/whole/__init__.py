"""Run Pipeline: any pipeline class of diffusers as one node, whose sockets are those of the class.

model: Which model Run Pipeline runs and where: described with its LoRAs, named for the cache, and told before a run.
node: Run Pipeline itself, and how its sockets are chosen.
sockets: What a pipeline class is called with and gives, as inputs and outputs of a node.
"""
