"""The node functions, by what they do; each imports what it needs when it is called.

arguments: A node called by hand: each argument is checked against its sockets, and files are refused before a run.
audio: Load Audio and Save Audio: sounds from files and as files.
canvas: Empty Latents and Upscale Latents: the canvas that denoising paints on.
decoding: Decode, Decode Video, Decode Audio and Video Frames: from latents to what can be seen and heard.
denoising: Denoise and Sampler Options: walk from noise to latents, step by step.
encoding: Encode Text, Reference Pictures and Encode Image: turn what a person gives into what a model is steered by.
masks: Mask steps: Load Mask, Grow and Blur Mask, and Outpaint.
models: Load Model and Load LoRA: say which weights to use; the weights themselves are read when a stage needs them.
pictures: Picture steps: Load Image, Save Image, Resize Image and Image Grid.
planning: Parallel Plan: on which devices a model works, and how a denoise uses them together.
small/: Small nodes between the large ones: numbers, choices, texts and sizes.
sockets: Sockets that several nodes have alike; a node adds what it means by them.
text: Text and number steps: Join Text, Choose Text, Layout Prompt, Seed and Note.
videos: Load Video and Save Video: clips from files, and as MP4 files, with sound.
whole/: Run Pipeline: any pipeline class of diffusers as one node, whose sockets are those of the class.
"""
