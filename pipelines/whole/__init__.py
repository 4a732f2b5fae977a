"""Whole pipelines of diffusers, of any class: put together from a folder, and run on ranks.

assembled: A whole diffusers pipeline, put together from a folder's components as the store loads them one by one.
called: A whole pipeline as a process keeps it and calls it: loaded once, spread over the ranks of a plan, or over none.
pooled: A pipeline on ranks that this process starts itself:
    `latentloom.Pool("cuda*4").spread("org/model")(prompt="...")`.
shown: What goes into a pipeline and what comes out of it, as values of wires: pictures and clips.
wire: A pipeline's arguments and results as plain data: pictures, arrays, tensors, and generators by their state.
"""
