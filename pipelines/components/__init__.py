"""From files to modules: a store that loads, quantizes, prepares, keeps and lends them.

building: A diffusers component built without weights and filled tensor by tensor, each cast on the device where it will
    live.
loading: The one place where a component's files become an object: every failure leaves as one `ValueError` sentence.
loans: Who uses which components now: several threads at a time in one condition, in the order in which they asked.
lora: LoRAs on a loaded component, through diffusers' own loaders: several, scaled, in order, none silently ignored.
memory: What a component takes of a memory, before it is loaded and afterwards, and what all may take of it together.
prepared: A transformer made ready for a denoise, spread by its plan and compiled, and kept so until one wants it
    otherwise.
quantizing: Quantization by torchao: of the weights of wide linear layers, each as soon as it has been read, some rows
    at a time.
resting: A component whose blocks rest in the host's memory, because its device has no room for all of them.
shelf: What a process has loaded, each memory within its budget, and what of a model has no room for all of it.
single_file: A transformer from one file as its makers or ComfyUI publish it, packed or plain, tensor by tensor.
store: The component store: a process's loaded text encoders, transformers, VAEs, kept under a byte budget.
tensorrt: Torch-TensorRT as an engine: what it makes of a block's graph, where that is kept, and whether it can be had
    here.
unpacking: From packed weights to those that they stand for, by their publishers' own formulas, one tensor at a time.
"""
