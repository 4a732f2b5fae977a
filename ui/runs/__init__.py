"""Runs of the page: queued, worked off, recorded, found again after a restart.

book: All runs that the server knows, and every change of their state: kept on the disk first, then told to the pages.
hashes: The full sha256 of the weights behind a result: asked for, read in the background, one model at a time.
once: Requests that come again with the same Idempotency-Key: answered as the first was, as long as its runs are kept.
queue: Whose run is next: users take turns, run by run, and each one's own runs keep his order.
records: Runs on the disk: one small record each, and the workflow of each batch once.
results: The results of all runs: pictures, videos and sounds by id, with what made them; and boards, named sets of
    them.
runs: The runs of all users: asked for by a page, made by the server's own threads, there whether a page looks or not.
search: What a user types to find results: words that must all be there, and what values were, such as `steps:16`.
tally: What all runs of this server did since it began, counted for whoever watches it; nothing of users or prompts.
workers: The threads that take runs from the queue, each as soon as the one before lets the next one start.
"""
