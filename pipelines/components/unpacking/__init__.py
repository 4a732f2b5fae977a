"""From packed weights to those that they stand for, by their publishers' own formulas, one tensor at a time.

deferred: Tensors that are not there yet: they remember what was done to them, for one to be made when it is asked for.
formulas: fp8 and int8 with their scales and rotations.
ggml: The blocks of GGUF files.
"""
