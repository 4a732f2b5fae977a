"""The adapters to `parallel`: transformers, guidance, VAEs and whole pipelines spread over a plan's ranks.

borders: The step borders of a pipeline's run: after each step of its progress bars, or of its solver if it opens none.
branches: The branches of guidance of any pipeline: calls of its transformers, shared out over the groups of the cfg
    axis.
calls: A transformer's calls: what tells two apart, which are never shared out, and which arguments carry rows.
frames: Pixels of latents; a video's go to a file on the host a few frames at a time, as soon as they are there.
guidance: Guidance in parallel: each group of the cfg axis runs its share of a guider's branches, then all get all
    predictions.
handed: Plain data with tensors in it, as bytes: between ranks, and between the host and a pipeline that is run whole.
pipeline: Any diffusers pipeline on all ranks, exactly: what `latentloom.spread` does.
tiles: A VAE's own tiles on several ranks, each with some: to the bit the pixels of one process that decodes in tiles.
transformer: Sharding a diffusers transformer by the split plan of its class: what `latentloom.shard` does.
vae: A VAE that decodes on several ranks, each with some of the rows: exactly the picture of its untiled decode.
"""
