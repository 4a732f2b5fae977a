"""ComfyUI's own models on all devices: its classes sharded as they are, under its own samplers.

checked: Whether a plan gives a class of ComfyUI what one device gives, asked in ranks at the first use of both.
plans: Split plans of ComfyUI's own model classes: literal data, by module and class.
"""
