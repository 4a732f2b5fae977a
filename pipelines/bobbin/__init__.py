"""bobbin: the built-in text-to-image model, tiny, in the FLUX architecture.

model/: its folder, as diffusers reads it. How it was made: `tests/bobbin/`.
"""
