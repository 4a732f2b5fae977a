"""The node functions, by what they do; each imports what it needs when it is called.

arguments: A node called by hand: each argument is checked against its sockets, and files are refused before a run.
coding: Encode and Decode steps: from what a person gives to what steers a model, from latents to what is seen or heard.
denoising: Denoise and Sampler Options, from noise to latents step by step; and the canvas that they paint on.
masks: Mask steps: Load Mask, Grow and Blur Mask, and Outpaint.
models: Load Model, Load LoRA and Parallel Plan: which weights are used, and on which devices.
pictures: Picture steps: Load Image, Save Image, Resize Image and Image Grid.
recordings: Load and Save Video, Load and Save Audio: clips and sounds from files, and as files.
small/: Small nodes between the large ones: numbers, choices, texts and sizes.
sockets: Sockets that several nodes have alike; a node adds what it means by them.
text: Text and number steps: Join Text, Choose Text, Layout Prompt, Seed and Note.
whole/: Run Pipeline: any pipeline class of diffusers as one node, whose sockets are those of the class.
"""
