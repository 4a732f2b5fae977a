"""What the families' denoise functions share: diffusers' blocks run by hand, solvers, guidance, step caches.

blocks: Diffusers' modular blocks, run by hand: given parts in, named values out, a call after every step.
cache_decisions: Step caches of diffusers on a sharded transformer: all ranks that share the sequence skip a step, or
    none does.
guidance: True guidance: asking the transformer twice, with the prompt and against the negative prompt.
inside: Where we reach inside diffusers, past its public interface: each way once.
masks: The masks of a denoise: what lies outside a picture's is kept, and a text's that hides nothing is left out.
noise: inside a picture's mask it is painted anew, outside it is kept; a text's that hides nothing
    is left out.
noise: Where noise comes from: one generator per picture, on the CPU, whose noise is drawn in fp32 and then rounded,
    so that it depends on the seed and on nothing else.
quiet: What diffusers and transformers log that says nothing to our users, or that we say better: kept off their
    screens.
schedulers: Which noise levels a denoise passes through, and which solver takes it from one to the next.
step_cache: Step caches: steps that reuse what most blocks gave in the step before, by the hooks that diffusers ships.
tables: Tables: what a denoise makes of sizes alone, such as positions, their angles and noise levels; the last are
    kept.
"""
