"""What each pipeline class of diffusers is called with and gives: a table, made of diffusers, read without it.

table: What each pipeline class of diffusers is called with and gives: from the table, or by itself.
"""
