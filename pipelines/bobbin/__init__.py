"""bobbin: the built-in text-to-image model, tiny, in the FLUX architecture.

model/: its folder, as diffusers reads it.
training/: how it was made; not part of the wheel.
"""
