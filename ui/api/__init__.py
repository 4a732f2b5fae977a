"""The HTTP routes of the page, one module for each group of them.

apps: The API's routes about apps: published and taken back by their owner, opened and run by others.
files: The API's routes about files: results' bytes, what users bring, and models that are fetched from the hub.
following: Following runs over HTTP without polling: a wait for their ends, and a stream of server-sent events of one.
graphs: The API's routes that look at a workflow without keeping it: open, text, export, check, sockets,
    plan.
library: The API's routes about what users keep: workflows with their versions, drafts, and links to share.
live_socket: The WebSocket on which a page watches its user's runs: what changed, at most twelve times a second,
    newest only.
openai: The OpenAI-style API under /v1: models, images and videos, over the same runs, apps and templates.
page: The API's routes about the page itself: its files, the catalog of nodes, who is logged in, templates, the
    machine.
requests: How our routes read requests, answer and are described: strict JSON in, nothing misspelt, who asks comes
    first.
router: The HTTP and WebSocket API under /loom: every route of the page, and their description as OpenAPI.
runs: The API's routes about runs (started, ordered, seen) and results (found, marked, put on boards, models hashed).
"""
