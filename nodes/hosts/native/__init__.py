"""ComfyUI's own models on all devices: its classes sharded as they are, under its own samplers.

plans: Split plans of ComfyUI's own model classes: literal data, by module and class.
"""
