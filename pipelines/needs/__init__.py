"""What a run holds of each device's memory, before it, and what to change so that it fits.

decoder: What a VAE's decoder holds while it decodes, from its config.
memory: What a run of a model holds of each device's memory, known before anything is loaded.
remedies: What to ask differently so that a denoise fits: each way is reckoned anew, and told only where it does.
weights: How large a model's weights are, from the headers of its files: what a device will hold, and what it may
    share.
"""
