"""What a model is, read from its files and never from their weights: nothing here loads torch modules.

component_files: The components of a model folder, found whole: their files, the headers of their weights, and a
    fingerprint of all.
config: What the config of somebody else's component may say, and what of it a library is given.
describe: From what the user chose to a `Model`: which files, which device, which number format; and what it cannot be
    here.
facts: What a model's files say of how it is used: its family's card, by its configs and its makers' card file, and
    sizes.
folder: What a model folder says of itself, read without torch: its pipeline and family, its components and their
    configs.
gguf_file: The header of a GGUF file, checked without reading a tensor.
installed: Which models are on this machine: the built-in one, those in folders of models, those in the hub's local
    cache.
loras/: LoRAs, from their headers alone: whether a file is one, what it tells, which are here, and which fit a model.
outlines: Models of the hub that are not on this machine, but whose sizes are known, by a table that is shipped.
packing: How weights are packed: of a single file in which numbers, scale and rotation, and by torchao in those of a
    folder.
passed: How many of a block's weights a token passes, by the names that diffusers gives them.
regular_file: The one gate to files that somebody else names: only a regular file is opened, and JSON is read with
    limits.
source: Where a model's files are: from its source, as the user wrote it, to a folder on this machine.
tensor_file: The header of a safetensors file, checked without reading a tensor.
"""
