"""Whole pipelines of diffusers, of any class: put together from a folder, and run on ranks.

asked: What a pipeline asks its transformers: each call as it was, asked again when they are split, and how far apart.
assembled: A whole diffusers pipeline, put together from a folder's components as the store loads them one by one.
pooled: A pipeline on ranks that this process starts itself:
    `latentloom.Pool("cuda*4").spread("org/model")(prompt="...")`.
sample: A small call of any pipeline, made of its signature: what `latentloom verify` asks it.
verified: Does a plan give a pipeline of any class what one process gives? Each call of its transformers, both ways.
"""
