"""What a denoise would do: which plans a model and a machine allow, how long each takes, what it holds, which is taken
and why. One value is asked for all of it (`forecast.Forecast`); closed forms that know no model are in `costs/`.

asked: What a run asks of devices, from a model's configs and the headers of its weights, without reading any.
auto: What is told of a denoise before it begins: the plan `auto`, what it takes, and how many groups share out a sweep.
choice: The fastest plan among those that fit, and what would be faster and rounds differently.
decoder: What a VAE's decoder holds while it decodes, from its config.
explained: A plan in words: one screen for people, and the same as plain data.
forecast: What a denoise would do on a machine: all plans with time and memory, the one to take, why not the others.
here: This machine to plan for: what its ranks measured of it, once for its devices, driver and torch, kept for later.
history: What predictions learn from runs that have ended here, and how well they did.
known: This machine to plan for, known at once: what its ranks measured of it before, else data sheets, else
    assumptions.
memory: What a run of a model holds of each device's memory, known before anything is loaded.
plans: The plan `auto` by its rule: guidance first, then ulysses as far as the heads divide, the rest by allgather.
remedies: What to ask differently so that a denoise fits: each way is reckoned anew, and told only where it does.
terms: What a denoise is asked for, of a request or of a workflow before it runs.
weights: How large a model's weights are, from the headers of its files: what a device will hold, and what it may
    share.
"""
