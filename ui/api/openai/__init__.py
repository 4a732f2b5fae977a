"""The OpenAI-style API under /v1: models, images and videos, over the same runs, apps and templates as the page.

bodies: What requests to /v1 may say, and what they are answered.
images: The routes about models and images: listed, generated, edited.
making: From what a request to /v1 asks for to runs: which input is what, seeds, lengths, and how much may be rounded.
route: How routes of /v1 read JSON and forms, and refuse: in OpenAI's form.
videos: The routes about videos: asked for, looked at, listed, fetched, deleted; each is a run, and kept as one.
"""
