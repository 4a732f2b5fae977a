"""Models from the Hugging Face hub: the only place that downloads, and only where somebody asks for it.

child: The host's end of the process that talks to the hub: started, heard with a deadline, ended at once.
fetching: Fetching a model's files one after the other into the hub client's cache, each from where it stopped, each
    checked when it is there.
look: A model on the hub, looked at without its weights: licence, access, size, family; and what its refusals mean.
worker: The process that talks to the hub: one order in, lines of JSON out, gone with its host.
"""
