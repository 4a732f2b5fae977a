"""Other programs that use the nodes.

comfy_file: ComfyUI's API format: export to it, and import from it. A node's type is its class type there.
comfy_folders: ComfyUI's own folders: where our nodes read and write there, and what they offer of its models.
comfy_install: Our nodes put into a ComfyUI: a link in its custom_nodes, and what its Python lacks of our requirements.
comfy_process: ComfyUI's process around a node: its progress bar, previews and interrupt, and what it is asked to free.
comfyui: ComfyUI's V1 node classes, made from the specs: one class per node, none written by hand.
foreign: What pictures of other programs say of how they were made: ComfyUI, A1111 and its kin, InvokeAI, SwarmUI.
native/: ComfyUI's own models on all devices: Spread Model, MODEL in and MODEL out.
"""
