"""Generative models from prompt to pixels as plain functions: load, encode, denoise, decode."""

import os

# Before huggingface_hub reads them: a model that is used is nobody else's business.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
