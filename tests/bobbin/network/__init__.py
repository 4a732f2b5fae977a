"""The networks that are trained, and their tokenizers.

architecture: The networks of bobbin: sizes of the autoencoder, the two text encoders and the transformer, untrained.
checkpoint: Checkpoints of a training run: one safetensors file, replaced in one move, so that a killed run can always
    go on.
learner: What learns in bobbin: both text encoders and the transformer, with the tokenizers that feed them.
quick: FLUX's attention as plain matrix products, and group norms without copies, for training on a CPU.
tokenizers: bobbin's two tokenizers, made from the words of its captions with the classes that real FLUX folders use.
"""
