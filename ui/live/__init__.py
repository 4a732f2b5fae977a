"""What the page is told while things happen, and the state of a run that it shows.

lines: What each run told, as the lines of JSON that the command line prints; the newest of some runs, in memory.
live: What pages watch: the newest state of all runs, and what of it changed since a page last looked.
state: The state of a run and of its nodes, and how an event of the executor changes a node's.
"""
