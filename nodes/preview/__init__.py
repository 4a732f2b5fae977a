"""What a workflow would do before it runs: its plan on these devices, and the models it may choose from.

carried: What of the devices changes a result: plans that round differently, which it carries, and rows of a decode.
choices: What a denoise needs by each plan that it could have here, and how many groups of devices share out a sweep.
meant: What stand-ins will be: the numbers and names that a run will use where 0, "" or "auto" is written; and how many
    tokens its models read of texts.
preview: What a run would do with the devices, before it: for each denoise the plan, why, and what every rank needs
    there.
room: Whether a denoise has room on its devices, and a run's files on the disk: what lacks, and what makes it fit.
table: The models on this machine: their parts, what each can be split by, and on which plans of these devices it
    fits.
walk: What the nodes of a workflow would make, asked from the last to the first; the workflow may be half done.
"""
