"""LoRAs, from their headers alone: whether a file is one, what it tells, which are here, and which fit a model.

installed: Which LoRAs are in the folders of models, each read once: what each tells of itself, and whether one fits a
    model.
lora_file: What a LoRA file may say, checked from its header, before a library builds from it what no tensor of it
    bears out.
"""
