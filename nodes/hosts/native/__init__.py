"""ComfyUI's own models on all devices: Spread Model, MODEL in and MODEL out. ComfyUI and torch are imported when used.

border: The border: where ComfyUI's samplers ask for a MODEL's diffusion model, and ranks answer in its place.
checked: Whether a plan gives a class of ComfyUI what one device gives, asked in ranks at the first use of both.
node: Spread Model: a MODEL of ComfyUI's own loaders, for any of its samplers, computed by ranks on all devices.
on_rank: What a rank does for a MODEL that is spread: it loads by the recipe, is sharded, carries patches, answers.
patches: What a sampled clone of a MODEL carries beside its file: LoRA weights and core's own settings, as plain data.
plan_parts: What split plans of ComfyUI's classes have in common: forms that most have, ControlNets, refusals.
plans: Split plans of ComfyUI's own model classes: literal data, by module and class.
plans_pictures: Split plans of ComfyUI's classes of pictures, sound and shapes: literal data, by module and class.
plans_wan: Split plans of ComfyUI's classes of the Wan family: literal data, by module and class.
recipe: A recipe: which core loader of ComfyUI made a MODEL, of which file and with which options, as plain data.
small: The inputs of a check at first use: of the same kinds as a call's, at a size of a few odd rows and columns.
stand_ins: What stands in for parts of ComfyUI's classes whose tokens are spread: attention of other kinds than torch's.
shell: A shell: what ComfyUI holds of a model that ranks hold. A patcher as any other, whose weights have no memory.
"""
