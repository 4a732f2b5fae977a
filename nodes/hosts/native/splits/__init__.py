"""How models of ComfyUI's own classes are split: literal data, by module and class. Nothing of ComfyUI is imported.

parts: What the plans have in common: forms that most have, ControlNets, refusals.
pictures: Classes of pictures, sound and shapes.
plans: All of them, those of the most used classes here, and the plan of a model.
stand_ins: What stands in for parts of the classes whose tokens are spread: attention of other kinds than torch's.
video: Classes of video, but for Wan's.
wan: The Wan family.
"""
