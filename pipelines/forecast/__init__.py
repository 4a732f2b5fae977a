"""What a denoise would do: which plans a model and a machine allow, how long each takes, what it holds, which is taken
and why. One value is asked for all of it (`forecast.Forecast`); closed forms that know no model are in `costs/`.

asked: What a run asks of devices, from a model's configs and the headers of its weights, without reading any.
auto: What is told of a denoise before it begins: the plan `auto`, what it takes, and how many groups share out a sweep.
choice: The fastest plan among those that fit, what would be faster and rounds differently, and what makes one fit.
explained: A plan in words: one screen for people, and the same as plain data.
forecast: What a denoise would do on a machine: all plans with time and memory, the one to take, why not the others.
here: This machine to plan for: what its ranks measured of it, once for its devices, driver and torch, kept for later.
history: What predictions learn from runs that have ended here, and how well they did.
known: This machine to plan for, known at once: what its ranks measured of it before, else data sheets, else
    assumptions.
memory: What a run of a model holds of each device's memory, known before anything is loaded.
plans: What a denoise is asked for, and the plan `auto` for it by its rule: guidance, ulysses, the rest by allgather.
weights: How large a model's parts are: weights by the headers of files, and what its VAE's decoder holds at work.
"""
