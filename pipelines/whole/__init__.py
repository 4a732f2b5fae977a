"""Whole pipelines of diffusers, of any class: put together from a folder, and run on ranks.

assembled: A whole diffusers pipeline, put together from a folder's components as the store loads them one by one.
blocks: Our denoise, encode and decode as Modular Diffusers blocks: what `latentloom.blocks` is.
called: A whole pipeline as a process keeps it and calls it, classic or modular: loaded once, spread over the ranks of a
    plan, or over none.
carried: A modular pipeline's blocks and parts as plain data, from which ranks make the same ones.
pooled: A pipeline on ranks that this process starts itself:
    `latentloom.Pool("cuda*4").spread("org/model")(prompt="...")`.
shown: What goes into a pipeline and what comes out of it, as values of wires: pictures, clips and sounds.
verified: Does a plan give a pipeline of any class what one process gives? Each call of its transformers, both ways.
"""
