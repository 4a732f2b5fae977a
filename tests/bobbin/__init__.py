"""How the built-in model was made: commands to train, evaluate and study it, run with `PYTHONPATH=tests`.

It is no part of the product, and has its tests beside it; what users get is `pipelines/bobbin/model/`.

command: The command line that both training scripts share.
drawing: Pictures of prompts by a bobbin folder, through the stages that every run uses.
evaluate: The gate: `python -m bobbin.evaluate --model DIR [--sheet sheet.png]`.
export: Write a trained bobbin as a standard FluxPipeline folder, with the model card that the nodes read.
latents: Rendered scenes as packed latents, each with what its cells show: what the transformer trains on, kept in
    pools.
make: Make bobbin from nothing, in as many stretches as it takes: autoencoder, joint training, model folder, gate.
oracle: Whether a picture shows what a caption asked for, fact by fact.
pools: Pools of rendered pictures that training batches are drawn from, each of one size and renewed in turn.
progress: How far a training run has come, and the loop that takes it further.
round_trip: What the autoencoder alone loses: true pictures through it and back, read by the oracle.
studies: What the gate does not ask: `python -m bobbin.studies NAME --model DIR [--num 100]`.
train: Train bobbin's transformer and text encoders.
train_vae: Train bobbin's autoencoder.
network/: The networks that are trained, and their tokenizers.
reading/: Reading a picture back: which solids of which colours are in it, and where.
world/: The world that the model learns to draw: scenes of solids, their words and their pictures.
"""
