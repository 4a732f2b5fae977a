"""Other programs that use the nodes.

comfy_file: ComfyUI's API format: export to it, and import from it. A node's type is its class type there.
comfy_memory: What ComfyUI is asked to free (`POST /free`, its menu, a lack of memory) our spare ranks give back,
    too.
comfyui: ComfyUI's V1 node classes, made from the specs: one class per node, none written by hand.
foreign: What pictures of other programs say of how they were made: ComfyUI, A1111 and its kin, InvokeAI, SwarmUI.
"""
