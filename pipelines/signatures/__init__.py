"""What each pipeline class of diffusers is called with and gives: a table, made of diffusers, read without it.

calls: What a pipeline class of diffusers is called with and gives, classic or modular: from its signature or its
    blocks.
survey: The table of pipelines' signatures, made of the installed diffusers.
table: What each pipeline class of diffusers is called with and gives, from a table that `survey.py` makes of diffusers.
"""
