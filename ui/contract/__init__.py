"""What goes between the server and the page, each thing defined once: OpenAPI and the page's types come from it.

`python -m latentloom.ui.contract.schema`, then `npm run types` in `ui/web`, after a change of any of these.

answer: What all answers have in common, and the values in them whose types the page knows better.
app: Apps: workflows as forms of their own, as their owner is told of the link, and as whoever opens it sees them.
bodies: What requests may say: the JSON bodies of the API, with their limits.
kept: What users keep, as the server tells it: workflows, drafts, pictures, what runs made, models that they fetched.
run: A run as the server keeps it and as pages are told of it, over HTTP and by the WebSocket.
schema: The contract as one JSON Schema, from which the page's types are made.
shown: What the page shows of the server: errors, who asks, the catalog, devices, models, LoRAs and plans.
"""
