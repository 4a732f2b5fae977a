"""What each pipeline class of diffusers is called with and gives: a table, made of diffusers, read without it.

survey: The table of pipelines' signatures, made of the installed diffusers.
table: What each pipeline class of diffusers is called with and gives: from the table, or by itself.
"""
