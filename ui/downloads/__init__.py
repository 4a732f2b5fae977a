"""Models that users have fetched from the hub: asked for, queued, counted, found again after a restart.

downloads: The downloads of a server: who asked for what, one fetched at a time, each counted against who asked first.
looks: What users were shown of models on the hub: that alone can they ask for, at that commit, and where there is
    room.
records: One download, as the server keeps it on disk and as its users are told of it.
"""
