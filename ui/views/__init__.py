"""What the page's panels show of plans, models and devices.

devices: The devices of this server for the page: name, title, memory and load.
installed: What is on this server: models, what of them is loaded, LoRAs, and which ready workflows run with them.
newest: Questions that take long: of each page only the newest is answered, and who asks the same shares the answer.
plan_view: How a workflow would use the devices, for the page: answered before a run, on every change of the workflow.
"""
