"""The adapters to `parallel`: a transformer, its guidance and a VAE spread over the ranks of a plan.

guidance: Guidance in parallel: each group of the cfg axis runs its share of a guider's branches, then all get all
    predictions.
measured: What a stage costs on the device where it works, measured: seconds, bytes, exchanges, memory.
transformer: Sharding a diffusers transformer by the split plan of its class: what `latentloom.shard` does.
vae: A VAE that decodes on several ranks, each with some of the rows: exactly the picture of its untiled decode.
"""
