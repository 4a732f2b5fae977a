"""Models that users have fetched from the hub: asked for, queued, counted, found again after a restart.

downloads: The downloads of a server: who asked for what, one fetched at a time, each counted against who asked first.
records: What users were shown of models on the hub, and the downloads of these as the server keeps them on disk.
"""
