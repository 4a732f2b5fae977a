"""Typed steps over `pipelines`, the graph they form, its file, its checker and its executor.

In plain Python, import the steps from here: `from latentloom.nodes import load_model, encode_text, denoise, decode`.
"""
