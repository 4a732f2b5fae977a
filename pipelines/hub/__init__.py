"""Models from the Hugging Face hub: the only place that downloads, and only where somebody asks for it.

cache: The hub client's cache on disk: where a model's files lie, and how one is put there whole, its index last.
child: The host's end of the process that talks to the hub: started, heard with a deadline, ended at once.
fetching: Fetching a model's files one after the other, each from where it stopped, each checked when it is there.
listing: What a repository on the hub holds, which of it a run reads, and what the hub's refusals mean.
look: A model on the hub, looked at without its weights: licence, access, size, family.
worker: The process that talks to the hub: one order in, lines of JSON out, gone with its host.
"""
