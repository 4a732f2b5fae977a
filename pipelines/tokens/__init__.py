"""How many tokens of a prompt a model reads, and what is cut: told before it runs, by its own tokenizers.

counter: The process that counts, kept warm: asked with a deadline, started again where it was lost.
worker: What that process does: a tokenizer as the model has it, without torch, and what it makes of a text.
"""
