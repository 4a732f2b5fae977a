"""Generative models from prompt to pixels as plain functions: load, encode, denoise, decode.

doors: What installed packages and one folder of the owner's bring from outside, read once when the process starts.
failures: What a stage fails with, in one sentence: numbers that are none, lacking memory, and what a library refuses.
guarded: Models that are run with a safety checker, from a package and files that this project does not bring.
kept: Texts and pictures that were encoded, kept in this process: what comes again is not encoded again.
place: From what the user wrote to a model's place: which devices, and how a denoise uses them.
placement: Where a stage runs: in this process, or in ranks, one for each of the model's devices.
pools: This process's pools, one for each place: whoever has work uses one, and those that nobody uses make room.
preview: Previews: latents to a small picture by one matrix, fitted by least squares to colour charts through the VAE.
requests: What each stage is asked for: made once, checked once, passed as it is in one process and as plain data to
    ranks.
settling: What a stage makes of what it is asked for: the numbers that stand for zeros, and what it refuses.
shape: Which widths, heights and lengths a model can paint; found from its configs, without torch.
stages: The stages from prompt to pixels and sound: functions from a request to a value, called by name in any process.
values: The values on wires: small frozen descriptions, and handles to the tensors that nodes pass on.
verify: Does a plan give the user's own model what one process gives? A small call, done both ways.
bobbin/: bobbin: the built-in text-to-image model, tiny, in the FLUX architecture.
cluster/: Several machines, by Ray: each gives replicas to jobs, or ranks to one job that reaches over all.
components/: From files to modules: a store that loads, adapts, quantizes, keeps and lends them.
costs/: What a run will cost, in closed forms: seconds, bytes and messages, before anything is loaded.
denoising/: What the families' denoise functions share: diffusers' blocks run by hand, solvers, guidance, step caches.
doctor/: What `latentloom doctor` finds out about a machine, one finding after another.
families/: The families of models: literal data, most of them rows. Importing this imports neither torch nor diffusers.
forecast/: What a denoise would do: which plans a model and a machine allow, how long each takes and what it holds, and
    which is taken.
fusing/: Forms of a transformer that launch fewer kernels, or read fewer weights, for the same formula.
hub/: Models from the Hugging Face hub: the only place that downloads, and only where somebody asks for it.
models/: What a model is, read from its files and never from their weights: nothing here loads torch modules.
selfcheck/: Does this plan give this model, on this machine, what one process gives? Asked at its first use.
signatures/: What each pipeline class of diffusers takes and gives: a table, made of diffusers, read without it.
split_plans/: How each transformer class of diffusers is split: literal data, a row for each class.
spreading/: The adapters to `parallel`: transformers, guidance, VAEs and whole pipelines spread over a plan's ranks.
tokens/: How many tokens of a prompt a model reads, and what is cut: told before it runs, by its own tokenizers.
whole/: Whole pipelines of diffusers, of any class: put together from a folder, and run on ranks.
"""

import os

# Before huggingface_hub reads them: a model that is used is nobody else's business.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
