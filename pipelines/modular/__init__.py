"""Blocks of Modular Diffusers that run on ranks, in the place of stock ones of any model.

blocks: Our denoise, encode and decode as Modular Diffusers blocks: what `latentloom.blocks` is.
carried: A modular pipeline's blocks and parts as plain data, from which ranks make the same ones.
"""
