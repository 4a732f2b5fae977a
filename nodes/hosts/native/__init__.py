"""ComfyUI's own models on all devices: Spread Model, MODEL in and MODEL out, and Spread VAE. ComfyUI is imported when
used, as is all but `node`, which imports torch.

border: The border: where ComfyUI's samplers ask for a MODEL's diffusion model, and ranks answer in its place.
checked: Whether a plan gives a class of ComfyUI what one device gives, asked in ranks at the first use of both.
choosing: The plan `auto` of a MODEL: by the sizes of the model and of the call at hand, with the planner of our own.
mapped: Weights that are mapped, so that the host and all ranks hold them once between them.
node: Spread Model and Spread VAE: what ComfyUI's own loaders have loaded, computed by ranks on all devices.
on_rank: What a rank does for a MODEL that is spread: it loads by the recipe, is sharded, carries patches, answers.
patches: What a sampled clone of a MODEL carries beside its file: LoRA weights and core's own settings, as plain data.
placed: Where a rank has the weights of its model: whole on its device, or with blocks at rest in the host's memory.
recipe: A recipe: which core loader of ComfyUI made a MODEL, of which file and with which options, as plain data.
rows: Rows of a forward: conditionings that ComfyUI asks for at once, shared out over the groups of the cfg axis.
small: Small inputs: arguments of the kinds that a call has, at a size of a few odd rows and columns.
shell: A shell: what ComfyUI holds of a model that ranks hold. A patcher as any other, whose weights have no memory.
splits: How models of ComfyUI's own classes are split: literal data, by module and class.
vae: Spread VAE: a VAE of ComfyUI's own loaders that ranks decode by rows, untiled: the picture of one device.
"""
