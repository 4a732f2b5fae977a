"""Workflows from Python: `latentloom.run`, `arun`, `Session`, `Workflow`; what they give, and how they are built.

result: What a run gave: outputs by name, files, pictures, and its manifest.
session: Runs of workflows from Python, with events, progress and cancel; what several of them share.
workflow: A workflow as Python has it: read, built by calling nodes, written, compared; and its nodes one by one.
"""
