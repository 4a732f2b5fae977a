"""What the families' denoise functions share: diffusers' blocks run by hand, solvers, guidance, step caches.

blocks: Diffusers' modular blocks, run by hand: given parts in, named values out, a call after every step; and what a
    mask keeps.
guidance: How the transformer is asked: twice for true guidance, and without a mask of its text that hides nothing.
inside: Where we reach inside diffusers, past its public interface: each way once; and what it logs is kept off screens.
noise: Where noise comes from: one generator per picture, on the CPU, whose noise is drawn in fp32 and then rounded,
    so that it depends on the seed and on nothing else.
schedulers: Which noise levels a denoise passes through, and which solver takes it from one to the next.
step_cache: Step caches: steps that reuse what most blocks gave in the step before, by the hooks that diffusers ships.
tables: Tables: what a denoise makes of sizes alone, such as positions, their angles and noise levels; the last are
    kept.
"""
