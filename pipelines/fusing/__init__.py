"""Forms of a transformer that launch fewer kernels, or read fewer weights, for the same formula.

modulation: Modulation shared out over the ranks that share tokens: each makes that of some blocks, and all gather it.
products: One product for the layers of a block that share an input: q, k and v, and in FLUX's single blocks the MLP's
    first.
rotary: Rotary positions in one launch: text and image are put side by side, and q and k turned, by a kernel in Triton.
rotary_kernel: The kernel behind `rotary`, in Triton: what a GPU does to one token of q or k in one launch for all of
    them.
"""
