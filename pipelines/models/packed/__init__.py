"""Weights that their makers publish in fewer bits: which they are, from headers alone, and which are refused.

experts: Which file gives which transformer: of two experts (Wan 2.2) one is named, and the other lies beside it.
gguf_file: The header of a GGUF file, checked without reading a tensor.
packing: How each weight of a single file is packed: in which numbers, with which scale and rotation.
torchao_files: Weights that torchao has quantized, in the files of a diffusers folder: each is several tensors there.
"""
