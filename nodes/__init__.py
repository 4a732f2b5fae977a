"""Typed steps over `pipelines`, the graph they form, its file, its checker and its executor.

In plain Python, import the steps from here: `from latentloom.nodes import load_model, encode_text, denoise, decode`.
Nothing heavy is imported: each step imports what it needs when it is called.

catalog: The catalog of nodes: as data for a page and other tools, and as text for people.
comfy_editor: ComfyUI's file for its own editor (litegraph), written from ours: `example_workflows/`, which it offers
    as templates.
doors: Nodes from outside: what packages and the owner's folder bring is added to the registry when the process starts.
python_script: A workflow as a script in Python: each node is a call of its function in `latentloom.nodes`.
registry: Every node there is. To add a node, add a line; an id is a promise to saved workflows and is never renamed.
execution/: A run: what is due, in which order, what it made, what is kept of it and how it failed.
files/: Files that nodes read and write, inside the folders that they may use.
graph/: The workflow: its file, its nodes and values, and what is wrong with it. Nothing here runs anything.
headless/: Runs from the command line: one or many, claimed, interrupted, reported.
hosts/: Other programs that use the nodes.
preview/: What a workflow would do before it runs: its plan on these devices, and the models it may choose from.
steps/: The node functions, by what they do; each imports what it needs when it is called.
"""

from .steps.audio import load_audio, save_audio
from .steps.canvas import empty_latents, upscale_latents
from .steps.decoding import decode, decode_audio, decode_video, video_frames
from .steps.denoising import denoise, sampler_options
from .steps.encoding import encode_image, encode_text, reference_pictures
from .steps.masks import blur_mask, crop_image, load_mask, outpaint, paste_image
from .steps.models import load_lora, load_model
from .steps.pictures import image_grid, load_image, resize_image, save_image
from .steps.planning import parallel_plan
from .steps.small.measures import batch_pictures, compare_pictures, picture_size, size_from_ratio
from .steps.small.numbers import boolean, calculate, decimal, integer
from .steps.small.switching import switch
from .steps.small.texts import change_case, format_text, replace_text, split_text
from .steps.small.varying import vary_text
from .steps.text import choose_text, join_text, layout_prompt, note, seed
from .steps.videos import load_video, save_video
from .steps.whole.node import run_pipeline

__all__ = [
    "batch_pictures",
    "blur_mask",
    "boolean",
    "calculate",
    "change_case",
    "choose_text",
    "crop_image",
    "compare_pictures",
    "decimal",
    "decode",
    "decode_audio",
    "decode_video",
    "denoise",
    "empty_latents",
    "encode_image",
    "encode_text",
    "format_text",
    "image_grid",
    "integer",
    "join_text",
    "layout_prompt",
    "load_audio",
    "load_image",
    "load_lora",
    "load_mask",
    "load_model",
    "load_video",
    "note",
    "outpaint",
    "parallel_plan",
    "paste_image",
    "picture_size",
    "reference_pictures",
    "replace_text",
    "resize_image",
    "run_pipeline",
    "sampler_options",
    "save_audio",
    "save_image",
    "save_video",
    "seed",
    "size_from_ratio",
    "split_text",
    "switch",
    "upscale_latents",
    "vary_text",
    "video_frames",
]
