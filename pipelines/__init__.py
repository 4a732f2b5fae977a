"""Generative models from prompt to pixels as plain functions: load, encode, denoise, decode."""
