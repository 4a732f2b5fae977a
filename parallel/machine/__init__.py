"""What this machine is: its devices, memory, links and limits, asked with deadlines and without torch; its log.

deadline: Deadlines: a command or a function that may hang for ever, on a broken driver or a dead file server, say.
folders: Where this user's results, measurements and choices are kept between runs.
logs: What is logged: lines on stderr, for people or as JSON, each with the run that it is about, in the host and in
    ranks.
machine: The machine: its accelerators, how they are wired, and how a user names devices.
needs: What ranks need of the operating system, each tried once; a trial raises OSError where it is missing.
now: The machine's devices as they are now, memory in use and load, and what the container around this process allows.
probe: What torch finds on this machine, as JSON; a process of its own, which a bad driver may hang or kill.
talking: A process of ours that is told things and answers, a line of JSON each: heard with a deadline, ended at once.
waiting: How threads of one computation wait for each other, where the CPU's cores are not theirs alone.
"""
