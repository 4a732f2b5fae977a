"""What the page's panels show of plans, models and devices.

devices: The devices of this server for the page: name, title, memory and load.
latest: The latest answer to a question that takes long: shared by all who ask of the same within a while.
loras_view: The LoRAs that are here, and which of them fit a model, for the page's picker.
models_view: What is here: models, what fits on these devices, and what is loaded now.
newest: Questions about a workflow that is being edited: of each page only the newest is answered.
plan_view: How a workflow would use the devices, for the page: answered before a run, on every change of the workflow.
templates_view: Which ready workflows run on this server, what the others lack, and where a node can be seen at work.
"""
