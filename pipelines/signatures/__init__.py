"""What each pipeline class of diffusers is called with and gives: a table, made of diffusers, read without it.

calls: What a pipeline class of diffusers is called with and gives, classic or modular: from its signature or its
    blocks.
conditions: Conditions: frames that a video is to show or to follow, which a pipeline takes as objects of a class of its
    own.
survey: The table of pipelines' signatures, made of the installed diffusers.
table: What each pipeline class of diffusers is called with and gives, from a table that `survey.py` makes of diffusers.
"""
