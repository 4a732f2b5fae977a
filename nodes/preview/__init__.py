"""What a workflow would do before it runs: its plan on these devices, and the models it may choose from.

carried: Plans that round differently, carried by what a run makes: in its workflow's `meta`, by the names of the
    nodes.
choices: What a denoise needs by each plan that it could have, on the devices that are there.
disk: Whether the disk has room for what a run will write, by what codings take at most.
meant: What stand-ins will be: the numbers and names that a run will use where 0, "" or "auto" is written.
preview: What a run would do with the devices, before it: for each denoise the plan, why, and what every rank needs
    there.
room: Whether a denoise has room on its devices: by how much it lacks, and what makes it fit, as values of the
    workflow.
rounding: What of the devices changes a result: a plan by a ring or compiled, which somebody asked for, and rows of a
    decode.
sharing: How many groups of a run's devices share out a sweep, by what its denoises ask for.
table: The models on this machine: their parts, what each can be split by, and on which plans of these devices it
    fits.
text_tokens: How many tokens of a workflow's texts its models read, before it runs, and which words are cut.
walk: What the nodes of a workflow would make, asked from the last to the first; the workflow may be half done.
"""
